"""The whole way: an agent works while `watch` runs in its own process, then the command line takes it
back."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.flow.agents import Claude, Pi
from tests.flow.conftest import Recorder, snapshot

THINKING = 0.8
"""Seconds that the simulated model takes: real ones take longer."""


def agent_of(kind: str, recorder: Recorder, folder: Path) -> Pi | Claude:
    return recorder.pi(folder) if kind == "pi" else recorder.claude(folder)


States = list[dict[str, tuple[str, int, bytes]]]


def two_prompts(agent: Pi | Claude, folder: Path, recorder: Recorder) -> States:
    """Two runs, by tools and by shell; returns the folder before the first, between, and after."""
    states = [snapshot(folder)]
    agent.give("first: write a file")
    time.sleep(THINKING)
    agent.write("new.txt", "one\n")
    agent.done()
    recorder.wait_for(folder, agent.session, 1)
    states.append(snapshot(folder))
    agent.give("second: go wild in the shell")
    time.sleep(THINKING)
    agent.shell("…", lambda: wild(folder))
    agent.done()
    recorder.wait_for(folder, agent.session, 2)
    states.append(snapshot(folder))
    return states


def wild(folder: Path) -> None:
    (folder / "notes.md").unlink()
    (folder / "empty").rmdir()
    (folder / "src" / "app.py").write_text("print('two')\n")
    (folder / "run.sh").chmod(0o644)
    (folder / "new.txt").rename(folder / "moved.txt")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "file").write_bytes(b"\x00\xff")
    (folder / "link").symlink_to("src/app.py")


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_everything_comes_back_and_forth(kind: str, recorder: Recorder, folder: Path) -> None:
    """Rewind, undo of the rewind and redo of the undo give the bytes, modes and links of each state."""
    with recorder.watching():
        agent = agent_of(kind, recorder, folder)
        start, middle, end = two_prompts(agent, folder, recorder)
    found = recorder.json("checkpoints", cwd=folder)

    assert [one["number"] for one in found] == [2, 1]
    assert [one["state"] for one in found] == ["complete", "complete"]
    assert found[1]["changes"] == {"added": 1, "modified": 0, "deleted": 0}

    done = recorder.json("rewind", "2", "--files", cwd=folder)
    assert (done["status"], snapshot(folder)) == ("done", middle)
    assert done["conversation"]["prompt"] == "second: go wild in the shell"

    recorder.json("rewind", "--undo", cwd=folder)
    assert snapshot(folder) == end
    recorder.json("rewind", "--redo", cwd=folder)
    assert snapshot(folder) == middle
    recorder.json("rewind", "1", "--files", cwd=folder)
    assert snapshot(folder) == start
    recorder.json("rewind", "--undo", cwd=folder)
    assert snapshot(folder) == middle


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_undo_and_redo_step_along_the_path(kind: str, recorder: Recorder, folder: Path) -> None:
    """undo goes a prompt back each time, redo forward again to the end, and each end says that it is one."""
    with recorder.watching():
        agent = agent_of(kind, recorder, folder)
        start, middle, end = two_prompts(agent, folder, recorder)
    for expected in (middle, start):
        recorder.json("undo", "--files", cwd=folder)
        assert snapshot(folder) == expected
    assert recorder.json("undo", "--files", cwd=folder, check=3)["error"]["code"] == "nothing_to_undo"
    for expected in (middle, end):
        recorder.json("redo", "--files", cwd=folder)
        assert snapshot(folder) == expected
    assert recorder.json("redo", "--files", cwd=folder, check=3)["error"]["code"] == "nothing_to_redo"
    recorder.json("undo", "2", "--files", cwd=folder)
    assert snapshot(folder) == start


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_what_a_person_did_stays(kind: str, recorder: Recorder, folder: Path) -> None:
    """A rewind touches nothing that a person made or changed between and after the runs."""
    with recorder.watching():
        agent = agent_of(kind, recorder, folder)
        agent.give("write")
        time.sleep(THINKING)
        agent.write("new.txt", "one\n")
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    (folder / "mine.txt").write_text("made by hand\n")
    (folder / "notes.md").write_text("changed by hand\n")
    done = recorder.json("rewind", "1", "--files", cwd=folder)

    assert done["files"]["delete"] == ["new.txt"] and done["files"]["write"] == []
    assert (folder / "mine.txt").read_text() == "made by hand\n"
    assert (folder / "notes.md").read_text() == "changed by hand\n"


def test_a_file_that_both_changed_is_a_conflict(recorder: Recorder, folder: Path) -> None:
    """Refused by default with nothing touched; skipped with exit 6; overwritten with the old bytes kept."""
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("write")
        time.sleep(THINKING)
        agent.write("notes.md", "by the agent\n")
        agent.write("other.txt", "x\n")
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    (folder / "notes.md").write_text("by hand, later\n")
    before = snapshot(folder)

    refused = recorder.json("rewind", "1", "--files", cwd=folder, check=4)
    assert (refused["status"], snapshot(folder)) == ("refused", before)
    assert [one["path"] for one in refused["files"]["conflict"]] == ["notes.md"]

    skipped = recorder.json("rewind", "1", "--files", "--on-conflict", "skip", cwd=folder, check=6)
    assert skipped["status"] == "partial" and not (folder / "other.txt").exists()
    assert (folder / "notes.md").read_text() == "by hand, later\n"

    recorder.json("rewind", "1", "--files", "--on-conflict", "overwrite", cwd=folder)
    assert (folder / "notes.md").read_text() == "mine\n"
    recorder.json("rewind", "--undo", cwd=folder)
    assert (folder / "notes.md").read_text() == "by hand, later\n"


def test_a_run_that_changed_nothing_is_a_noop(recorder: Recorder, folder: Path) -> None:
    """Taking back a run without changes writes nothing, whatever stands dirty in the folder, and says so."""
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("only read")
        time.sleep(THINKING)
        agent.use("read", {"path": "notes.md"}, lambda: None)
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    (folder / "notes.md").write_text("dirty\n")
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = recorder.json("rewind", "1", "--files", cwd=folder)

    assert done["status"] == "noop"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == stamps


def test_a_run_under_way_is_not_taken_back(recorder: Recorder, folder: Path) -> None:
    """An open tool call in a log just written to refuses; --while-running takes it back all the same."""
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("hang")
        time.sleep(THINKING)
        agent.call("bash", {"command": "sleep 1000"})
        (folder / "notes.md").write_text("by the hanging tool\n")
        recorder.wait_for(folder, agent.session, 1, settled=False)
        time.sleep(0.3)
    assert b"seen when the run ends" in recorder.run("show", "1", cwd=folder).out
    before = snapshot(folder)
    assert recorder.json("rewind", "1", "--files", cwd=folder, check=4)["error"]["code"] == "running"
    assert snapshot(folder) == before
    recorder.json("rewind", "1", "--files", "--while-running", cwd=folder)
    assert (folder / "notes.md").read_text() == "mine\n"


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_a_save_just_before_the_prompt_is_in_its_checkpoint(
    kind: str, recorder: Recorder, folder: Path
) -> None:
    """What a person saves in the very moment before a prompt is known to be from before it."""
    with recorder.watching():
        agent = agent_of(kind, recorder, folder)
        for number in range(1, 4):
            (folder / "notes.md").write_text(f"saved before prompt {number}\n")
            agent.give(f"prompt {number}")
            found = recorder.wait_for(folder, agent.session, number, settled=False)
            assert found[0]["state"] == "complete", found[0]["why_not"]
    assert recorder.run("cat", "2", "notes.md", cwd=folder).out == b"saved before prompt 2\n"


def leave_out(folder: Path) -> None:
    """Things that captures leave out, each with its reason."""
    (folder / "a.log").write_text("ignored\n")
    (folder / "cache").mkdir()
    (folder / "cache" / "x").write_text("in an ignored folder\n")
    (folder / "large.bin").write_bytes(b"x" * (3 << 20))
    os.mkfifo(folder / "pipe")


def test_what_is_left_out_does_not_stand_in_the_way(recorder: Recorder, folder: Path) -> None:
    """New ignored, large and special files after the last capture: diff, dry run, rewind and undo work, and
    leave them."""
    (folder / ".gitignore").write_text("*.log\ncache/\n")
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("write")
        time.sleep(THINKING)
        agent.write("notes.md", "by the agent\n")
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    leave_out(folder)
    assert "notes.md" in recorder.run("diff", "1", cwd=folder).out.decode()
    assert recorder.json("undo", "--files", "--dry-run", cwd=folder)["status"] == "planned"
    assert recorder.json("rewind", "1", "--files", cwd=folder)["status"] == "done"
    assert (folder / "notes.md").read_text() == "mine\n"
    recorder.json("rewind", "--undo", cwd=folder)
    recorder.json("rewind", "1", "--files", "--scope", "tree", cwd=folder)
    for name in ("a.log", "cache/x", "large.bin", "pipe"):
        assert (folder / name).exists(), name


def test_what_gives_way_to_a_folder_is_told(recorder: Recorder, folder: Path) -> None:
    """A file in the place of a folder that comes back is removed, and the plan lists it so."""
    (folder / "d").mkdir()
    (folder / "d" / "a").write_text("1\n")
    time.sleep(0.1)
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("swap")
        time.sleep(THINKING)
        agent.shell("…", lambda: (shutil.rmtree(folder / "d"), (folder / "d").write_text("a file\n")))
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    after = snapshot(folder)
    done = recorder.json("rewind", "1", "--files", cwd=folder)
    assert (done["files"]["write"], done["files"]["delete"]) == (["d/a"], ["d"])
    recorder.json("rewind", "--undo", cwd=folder)
    assert snapshot(folder) == after
