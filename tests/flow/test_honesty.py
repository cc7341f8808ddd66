"""What is not recorded, not seen or not recovered is said, and never passed off as nothing."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.flow.conftest import Recorder, snapshot
from tests.flow.within import Within, killed

THINKING = 0.8


def test_a_home_folder_is_recorded_per_file_and_says_so(recorder: Recorder, tmp_path: Path) -> None:
    """In $HOME only files that tools name are kept: the watcher, the checkpoint and show say so."""
    home = Path(os.environ["HOME"])
    (home / "notes.txt").write_text("mine\n")
    (home / "doc.txt").write_text("one\n")
    with recorder.watching() as watcher:
        agent = recorder.pi(home)
        for number, text in enumerate(("two\n", "three\n"), 1):
            agent.give(f"prompt {number}")
            time.sleep(THINKING)
            agent.write("doc.txt", text)
            agent.shell("rm notes.txt", lambda: (home / "notes.txt").unlink(missing_ok=True))
            agent.done()
            recorder.wait_for(home, agent.session, number)
    assert watcher.stderr is not None
    first = recorder.json("checkpoints", agent.session, cwd=home)[-1]

    assert first["state"] == "partial" and "only the files that tools name" in first["why_not"]
    assert "changed no file" not in recorder.run("show", "1", cwd=home).out.decode()
    done = recorder.json("rewind", "2", "--files", cwd=home)
    assert (home / "doc.txt").read_text() == "two\n"
    assert [one["code"] for one in done["warnings"]] == ["partial"]


def test_a_deleted_project_is_not_an_unchanged_one(recorder: Recorder, folder: Path) -> None:
    """The folder itself is gone after the run: show says what could not be looked at and how to read the
    files from before; a rewind is refused."""
    before = (folder / "notes.md").read_bytes()
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("wipe it")
        time.sleep(THINKING)
        agent.shell("rm -rf", lambda: shutil.rmtree(folder))
        agent.done()
        end = time.monotonic() + 20
        while "CaptureFailed" not in recorder.run("log", agent.session, cwd=folder.parent).out.decode():
            assert time.monotonic() < end
            time.sleep(0.1)
    shown = recorder.run("show", "1", "--session", agent.session, cwd=folder.parent).out.decode()

    assert "could not be looked at" in shown and "recorder cat 1" in shown
    refused = recorder.json("rewind", "1", "--files", "--session", agent.session, cwd=folder.parent, check=4)
    assert refused["error"]["code"] == "gone"
    cat = recorder.run("cat", "1", str(folder / "notes.md"), "--session", agent.session, cwd=folder.parent)
    assert cat.out == before


@pytest.mark.parametrize("words", [("checkpoints",), ("sessions", "--json"), ("rewind", "1", "--dry-run")])
def test_whatever_starts_next_rolls_back(
    words: tuple[str, ...], tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A looking command ends a rewind that was killed in its middle, and says so."""
    within = Within(tmp_path / "recorder", monkeypatch)
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: [one.write(f"new-{n}.txt", "x\n") for n in range(5)])
    before = snapshot(folder)
    died, _ = killed(12, ("rewind", "1", "--files"), folder)
    assert died and snapshot(folder) != before
    answer = within.run(*words, cwd=folder)

    assert "was rolled back" in answer.err
    assert snapshot(folder) == before


def test_what_was_left_out_and_is_gone_is_named(recorder: Recorder, folder: Path) -> None:
    """A large untracked file and an ignored one that the run deleted cannot come back, and a large one that
    it made stays: the rewind says each; what was captured comes back."""
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "huge.bin").write_bytes(b"x" * (3 << 20))
    (folder / "old.log").write_text("x\n")
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("clean")
        time.sleep(THINKING)
        agent.shell("rm", lambda: [(folder / one).unlink() for one in ("huge.bin", "old.log", "notes.md")])
        agent.shell("dd", lambda: (folder / "made.bin").write_bytes(b"y" * (3 << 20)))
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    done = recorder.json("rewind", "1", "--files", cwd=folder)

    told = [one["message"] for one in done["warnings"] if one["code"] == "left_out"]
    assert "huge.bin" in told[0] and "old.log" in told[0]
    assert "made.bin" in told[1] and (folder / "made.bin").exists()
    assert (folder / "notes.md").exists()


def test_a_write_through_a_link_to_the_outside_is_named(
    recorder: Recorder, folder: Path, tmp_path: Path
) -> None:
    """The real file is meant; what stood there before nobody knew, and the rewind says so (6)."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "g").write_text("from before\n")
    (folder / "lnk").symlink_to(outside)
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("write there")
        time.sleep(THINKING)
        agent.write("lnk/g", "by the agent\n")
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    done = recorder.json("rewind", "1", "--files", cwd=folder, check=6)

    assert done["status"] == "partial" and done["files"]["unrecovered"] == [str(outside / "g")]
    assert (outside / "g").read_text() == "by the agent\n"


def test_nothing_is_built_on_a_rewind_that_broke_off_meanwhile(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command that waited for one that was then killed refuses, touches nothing, and works again."""
    within = Within(tmp_path / "recorder", monkeypatch)
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: [one.write(f"new-{n}.txt", "x\n") for n in range(5)])
    assert killed(12, ("rewind", "1", "--files"), folder)[0]
    half = snapshot(folder)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr("cli.context._recover", lambda _: None)
        refused = within.json("rewind", "1", "--files", cwd=folder, check=4)
    assert refused["error"]["code"] == "changed" and snapshot(folder) == half
    within.run("rewind", "1", "--files", cwd=folder)
    assert not list(folder.glob("new-*")) and not list(folder.glob(".recorder-*"))
