"""What a checkpoint must hold: all that a run changes, by whatever means, from before its first write."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from recorder.events import Captured
from tests.capture.test_git import put_in_place_of_git
from tests.cases.stage import (
    Deed,
    Stage,
    by_shell,
    by_shell_alone,
    by_tool,
    git,
    impatient,
    project,
    saves,
    stand_in,
)
from tests.flow.agents import Claude, append, now
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Within, whole


def edit(folder: Path) -> None:
    (folder / "notes.md").write_text((folder / "notes.md").read_text().replace("mine", "its"))


def rename_folder(folder: Path) -> None:
    (folder / "src").rename(folder / "lib")


def delete_file(folder: Path) -> None:
    (folder / "go.mod").unlink()


def delete_folder(folder: Path) -> None:
    shutil.rmtree(folder / "src")


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_case_1_what_a_shell_does_is_in_the_checkpoint(kind: str, place: Stage) -> None:
    """Runs whose only tool calls are a shell's: each next checkpoint holds what came of it, and a rewind
    brings back what stood before."""
    agent, states = place.agent(kind), [snapshot(place.folder)]
    deeds: list[Deed] = [edit, saves("deep/er/new", "1\n"), delete_file, rename_folder]
    for deed in deeds:
        place.play(agent, (by_shell(deed),))
        states.append(snapshot(place.folder))
    for number in range(len(deeds), 0, -1):
        assert place.json("show", str(number))["files"], number
        place.rewind(str(number))
        assert snapshot(place.folder) == states[number - 1], number


def test_case_2_a_deletion_is_taken_back(corner: Stage) -> None:
    """Files that one run made and a later run's shell deletes or moves out of the project come back with
    their bytes, and the plan says so before."""
    made = (corner.write("made.txt", "one\n"), corner.write("other.txt", "two\n"))
    away = by_shell(
        lambda folder: (folder / "made.txt").unlink(),
        lambda folder: (folder / "other.txt").rename(folder.parent / "away"),
    )
    corner.play(corner.agent(), made, (away,))
    assert corner.rewind("2", "--dry-run")["files"]["write"] == ["made.txt", "other.txt"]
    assert not (corner.folder / "made.txt").exists()
    corner.rewind("2")
    assert (corner.folder / "made.txt").read_text() == "one\n"
    assert (corner.folder / "other.txt").read_text() == "two\n"


def test_case_2_what_cannot_come_back_is_told_first(place: Stage) -> None:
    """An ignored file that no tool named was never captured: the plan names it before anything is done."""
    (place.folder / ".gitignore").write_text("*.log\n")
    (place.folder / "old.log").write_text("x\n")
    place.play(place.agent(), (by_shell(lambda folder: (folder / "old.log").unlink()),))
    planned = place.rewind("1", "--dry-run")
    assert any("old.log" in one["message"] for one in planned["warnings"]), planned
    assert "ignored" in place.within.run("cat", "1", "old.log", cwd=place.folder, check=3).err


@pytest.mark.parametrize("tracked", ["committed", "never added", "no repository"])
def test_case_3_a_deleted_file_is_listed_and_restored(tracked: str, within: Within, tmp_path: Path) -> None:
    """A file and a whole folder: the run's changes list each as deleted, the plan as written, and they come
    back."""
    stage = Stage(within, project(tmp_path, "repository"), "pi", by_shell_alone)
    if tracked != "committed":
        shutil.rmtree(stage.folder / ".git")
    if tracked == "never added":
        git(stage.folder, "init", "-q")
    before = snapshot(stage.folder)
    stage.play(stage.agent(), (by_shell(delete_file, delete_folder),))
    gone = {"go.mod", "src", "src/app.py"}
    assert {one["path"]: one["change"] for one in stage.json("show", "1")["files"]} == dict.fromkeys(
        gone, "deleted"
    )
    assert {one["path"] for one in stage.json("diff", "1")} == gone - {"src"}
    assert stage.rewind("1", "--dry-run")["files"]["write"] == ["go.mod", "src/app.py"]
    stage.rewind("1")
    assert snapshot(stage.folder) == before


def test_case_4_a_file_that_was_never_committed_goes_back_to_its_earlier_content(corner: Stage) -> None:
    """Made by one run, edited by the next: the rewind gives what the first one wrote."""
    corner.play(corner.agent(), (corner.write("t", "v1"),), (corner.write("t", "v2"),))
    corner.rewind("2")
    assert (corner.folder / "t").read_text() == "v1"
    assert corner.json("diff", "2") == []


def test_case_4_also_where_it_is_ignored(stage: Stage) -> None:
    """Once a tool has named an ignored file it is captured like any other."""
    (stage.folder / ".gitignore").write_text("t\n")
    stage.play(stage.agent(), (stage.write("t", "v1"),), (stage.write("t", "v2"),))
    stage.rewind("2")
    assert (stage.folder / "t").read_text() == "v1"


def test_case_5_the_first_edits_of_a_session_are_taken_back(corner: Stage) -> None:
    """The state from before is the whole project's, from before the first write of the first run."""
    before = snapshot(corner.folder)
    corner.play(corner.agent(), (corner.write("notes.md", "a\n"), corner.write("src/app.py", "b\n")))
    assert corner.rewind("1")["files"]["write"] == ["notes.md", "src/app.py"]
    assert snapshot(corner.folder) == before


def test_case_6_a_new_type_of_line_takes_nothing_away(within: Within, tmp_path: Path) -> None:
    """Lines of the agent's own backups, and of types that nobody knows yet, between a prompt and its first
    edit: what stood before is the recorder's own, and the unknown line is kept and counted."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "f").write_text("v1\n")
    agent = Claude(within.claude_folder, folder)
    stage = Stage(within, folder, "claude", by_tool)

    def back_up(one: object) -> None:
        saved = {"f": {"backupFileName": "f@v2", "version": 2, "backupTime": now()}}
        for kind in ("file-history-snapshot", "file-history-delta", "never-heard-of"):
            line = {"type": kind, "messageId": agent.leaf, "snapshot": {"trackedFileBackups": saved}}
            append(agent.log, line)

    stage.play(agent, (back_up, stage.write("f", "v2\n"), back_up), (stage.write("f", "v3\n"),))
    told = stage.json("--home", str(tmp_path / "elsewhere"), "import", str(agent.log))["files"][0]
    assert told["not_understood"] == {"never-heard-of": 2}, told
    stage.rewind("1")
    assert (folder / "f").read_text() == "v1\n"


def test_case_13_a_capture_that_is_held_up_says_so(
    place: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What git could not be asked about in time is unknown and the checkpoint partial, with the reason; a
    rewind to it deletes none of that; the next capture is whole again."""
    (place.folder / "fresh.txt").write_text("not tracked\n")
    agent = place.agent()
    with place.within.watching() as watcher:
        with monkeypatch.context() as patch:
            put_in_place_of_git(tmp_path, patch, stand_in("check-ignore", "exec sleep 60"))
            impatient(patch)
            agent.give("held up")
            watcher.look(agent)
        agent.done()
        watcher.look(agent)
        time.sleep(APART)
        watcher.prompt(agent, "whole")
    second, first = place.json("checkpoints")
    assert first["state"] == "partial" and "git was not done within" in first["why_not"], first
    assert "fresh.txt" in [one["path"] for one in place.json("show", "1")["unknown"]]
    assert second["state"] == "complete"
    place.rewind("1", "--scope", "tree")
    assert (place.folder / "fresh.txt").read_text() == "not tracked\n"


def test_case_15_a_prompt_is_a_prompt_and_nothing_else(stage: Stage) -> None:
    """Results of tools come in the name of the user too: they are counted as no prompt, and each prompt keeps
    the identity that the agent gave it."""
    agent = stage.agent()
    write = stage.write
    entries = stage.play(agent, (write("a", "1\n"), write("b", "2\n")), (write("a", "3\n"),))
    found = stage.json("checkpoints")
    assert [(one["number"], one["entry_id"]) for one in found] == [(2, entries[1]), (1, entries[0])]
    assert all(one["state"] == "complete" for one in found)


def test_case_22_the_first_run_ever_is_taken_back(kind_and_new_project: Stage) -> None:
    """No home, no commit, a session that begins with this prompt: the file that it makes goes on the first
    try."""
    stage = kind_and_new_project
    stage.play(stage.agent(), (stage.write("made.txt", "1\n"),))
    assert stage.rewind("1")["files"]["delete"] == ["made.txt"]
    assert snapshot(stage.folder) == {}


@pytest.fixture(params=[("pi", False), ("pi", True), ("claude", False), ("claude", True)])
def kind_and_new_project(request: pytest.FixtureRequest, within: Within, tmp_path: Path) -> Stage:
    kind, with_git = request.param
    folder = tmp_path / "new"
    folder.mkdir()
    if with_git:
        git(folder, "init", "-q")
    return Stage(within, folder, kind, by_tool)


def test_case_25_large_ignored_folders_are_no_reason_to_warn(place: Stage) -> None:
    """Thousands of files in an ignored folder are left out as one name, before and after a run; nothing is
    said of them on the way back, nor of a new folder of this kind."""
    (place.folder / ".gitignore").write_text("logs/\nbuild/\n")
    (place.folder / "logs").mkdir()
    for number in range(2000):
        (place.folder / "logs" / f"{number}.log").touch()
    place.play(place.agent(), (by_shell(edit, saves("logs/more.log", "x\n"), saves("build/new.o", "x\n")),))
    [shown] = place.json("show", "1")["skipped"]
    assert shown["path"] == "logs"
    done = place.within.run("rewind", "1", "--files", cwd=place.folder)
    assert "logs" not in done.out.decode() + done.err and "build" not in done.out.decode() + done.err
    assert (place.folder / "logs" / "more.log").exists()


@pytest.mark.parametrize("way", ["dies", "says nothing"])
def test_case_51_where_git_cannot_say_what_is_ignored(
    way: str, place: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is taken for not ignored: ignored files come into no capture and into no list of deletions,
    also where the whole tree is asked for."""
    (place.folder / ".gitignore").write_text("build/\n")
    place.play(place.agent(), ())
    script = stand_in("check-ignore", "exit 128" if way == "dies" else "exit 0")
    with monkeypatch.context() as patch:
        put_in_place_of_git(tmp_path, patch, script)
        place.play(place.agent(), (by_shell(edit, *(saves(f"build/{n}", "x\n") for n in range(9))),))
    for scope in ("session", "tree"):
        planned = place.rewind("1", "--session", "latest", "--scope", scope, "--dry-run", check=None)
        assert not [path for path in planned["files"]["delete"] if path.startswith("build")], planned
    with place.within.recording() as recording:
        captured = [one.fact for one in whole(recording) if isinstance(one.fact, Captured)]
    assert not [c.path for one in captured for c in one.delta if c.after.present and b"build/" in c.path]
