"""What a rewind of files goes by: the whole tree where that is asked for, else the changes that are applied,
and never the tree of the conversation."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.flow.agents import Claude
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Within


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Within(tmp_path / "recorder", monkeypatch)


def mess(folder: Path) -> None:
    """What a person does to a work tree: a change of every kind."""
    (folder / "notes.md").write_text("mine, later\n")
    (folder / "by-hand" / "deep").mkdir(parents=True)
    (folder / "by-hand" / "deep" / "file").write_bytes(b"\0\xff")
    (folder / "run.sh").chmod(0o600)
    (folder / "empty").rmdir()
    (folder / "empty").symlink_to("notes.md")
    (folder / "src" / "app.py").write_text("print('by the agent')\nprint('by hand')\n")


def test_the_whole_tree_comes_back(within: Within, folder: Path) -> None:
    """--scope tree: exactly what was captured, whoever changed it since, and nothing is merged. Undo and redo
    go between the two; afterwards the sessions' changes stand where they stood then."""
    agent = within.agent("claude", folder)
    start = snapshot(folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "one", lambda a: a.write("src/app.py", "print('by the agent')\n"))
        time.sleep(APART)
        between = snapshot(folder)
        watcher.prompt(agent, "two", lambda a: a.write("made.txt", "made\n"))
    time.sleep(APART)
    mess(folder)
    time.sleep(APART)

    for number, then in (("2", between), ("1", start)):
        before = snapshot(folder)
        done = within.json("rewind", number, "--files", "--scope", "tree", cwd=folder)
        assert (done["status"], done["files"]["merge"], snapshot(folder)) == ("done", [], then)
        within.json("rewind", "--undo", cwd=folder)
        assert snapshot(folder) == before
        within.json("rewind", "--redo", cwd=folder)
        assert snapshot(folder) == then
    assert within.json("rewind", "1", "--files", cwd=folder)["status"] == "noop"
    within.json("rewind", "2", "--files", cwd=folder)
    assert snapshot(folder) == between


def test_the_whole_tree_narrowed_to_a_path(within: Within, folder: Path) -> None:
    """--scope tree with --path and with --new-files keep: no more than that."""
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "one", lambda a: a.write("made.txt", "made\n"))
    time.sleep(APART)
    mess(folder)
    time.sleep(APART)

    within.json("rewind", "1", "--scope", "tree", "--path", "src", cwd=folder)
    assert (folder / "src" / "app.py").read_text() == "print('one')\n"
    assert (folder / "notes.md").read_text() == "mine, later\n" and (folder / "made.txt").exists()
    done = within.json("rewind", "1", "--files", "--scope", "tree", "--new-files", "keep", cwd=folder)
    assert (folder / "notes.md").read_text() == "mine\n"
    assert {one["path"] for one in done["files"]["keep"]} == {"made.txt", "by-hand/deep/file"}


def branched(within: Within, folder: Path) -> Claude:
    """Two prompts, the conversation alone taken back to before the second, and a third on a new branch."""
    agent = within.agent("claude", folder)
    assert isinstance(agent, Claude)
    with within.watching() as watcher:
        watcher.prompt(agent, "one", lambda a: a.write("one.txt", "1\n"))
        time.sleep(APART)
        leaf = agent.leaf
        watcher.prompt(agent, "two", lambda a: a.write("two.txt", "2\n"))
    within.json("rewind", "2", "--conversation", cwd=folder)
    assert (folder / "two.txt").exists()
    agent.navigate(leaf)
    time.sleep(APART)
    with within.watching() as watcher:
        watcher.prompt(agent, "three", lambda a: a.write("three.txt", "3\n"))
    time.sleep(APART)
    return agent


def names(folder: Path) -> set[str]:
    return {one.stem for one in folder.glob("*.txt")}


def test_files_go_back_by_what_is_applied(within: Within, folder: Path) -> None:
    """After a conversation-only rewind and a new branch, prompt 2 is on no way from 1 to 3, but its files
    stand: the rewind of the files to before prompt 1 takes them back too, the one to before 3 leaves them."""
    branched(within, folder)
    found = {
        one["number"]: one["on_active_branch"]
        for one in within.json("checkpoints", "--all-branches", cwd=folder)
    }
    assert found == {1: True, 2: False, 3: True}

    done = within.json("rewind", "3", "--files", cwd=folder)
    assert (done["files"]["delete"], names(folder)) == (["three.txt"], {"one", "two"})
    within.json("rewind", "--undo", cwd=folder)
    done = within.json("rewind", "1", "--files", cwd=folder)
    assert (done["files"]["delete"], names(folder)) == (["one.txt", "three.txt", "two.txt"], set())
    within.json("rewind", "--undo", cwd=folder)
    assert names(folder) == {"one", "two", "three"}


def test_sideways_to_a_branch_that_was_left(within: Within, folder: Path) -> None:
    """To before prompt 2, on the branch that was left: what stood there then, and nothing of the new branch;
    and back to the end of the new branch by the undo."""
    branched(within, folder)

    within.json("rewind", "2", "--files", cwd=folder)
    assert names(folder) == {"one"}
    within.json("rewind", "3", "--files", cwd=folder)
    assert names(folder) == {"one", "two"}
    within.json("rewind", "--undo", cwd=folder)
    within.json("rewind", "--undo", cwd=folder)
    assert names(folder) == {"one", "two", "three"}
