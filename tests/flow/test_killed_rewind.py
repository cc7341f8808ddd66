"""A rewind killed between any two of its steps: the tree is as before after all, or as planned."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from projections.views import rebuild
from recorder.events import RewindApplied, RewindFailed, RewindPlanned
from tests.flow.agents import Claude
from tests.flow.conftest import snapshot
from tests.flow.within import Within, killed, rows

MANY = 500
"""More steps than any plan here has."""


def wild(folder: Path) -> None:
    """A change of every kind: content, mode, link, folders made and gone, file and folder swapped."""
    (folder / "notes.md").write_text("written over\n")
    (folder / "gone.txt").unlink()
    (folder / "run.sh").chmod(0o644)
    (folder / "link").unlink()
    (folder / "link").symlink_to("elsewhere")
    (folder / "empty").rmdir()
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "new").write_bytes(b"\x00\xff")
    (folder / "file").unlink()
    (folder / "file").mkdir()
    (folder / "file" / "inside").write_text("x\n")
    (folder / "src" / "app.py").unlink()
    (folder / "src").rmdir()
    (folder / "src").write_text("a file now\n")


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    """Durability costs time and plays no part in a kill, which loses nothing that was written."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Within(tmp_path / "recorder", monkeypatch)


def recorded(within: Within, folder: Path) -> tuple[Claude, dict[str, Any]]:
    (folder / "gone.txt").write_text("goes\n")
    (folder / "file").write_text("a file\n")
    (folder / "link").symlink_to("notes.md")
    agent = Claude(within.claude_folder, folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda one: one.write("early.txt", "1\n"))
        before = snapshot(folder)
        watcher.prompt(agent, "second", lambda one: one.shell("…", lambda: wild(folder)))
    return agent, before


def leaf(agent: Claude) -> str | None:
    """Where the conversation goes on, by the agent's own log."""
    last = json.loads(agent.log.read_bytes().splitlines()[-1])
    return last["leafUuid"] if last["type"] == "last-prompt" else last["uuid"]


def check_whole(within: Within, folder: Path) -> None:
    """No private names, a log that verifies, views that fold to the same rows."""
    assert not list(folder.rglob(".recorder-*"))
    with within.recording() as recording:
        assert list(recording.log.check()) == []
        recording.views.catch_up()
        live = rows(recording.views)
        rebuild(recording.views)
        recording.views.catch_up()
        assert rows(recording.views) == live


def test_killed_anywhere(within: Within, folder: Path) -> None:
    """The next command ends it: files and conversation both from before, or, once it was applied, both as
    planned; nothing is left behind and it is said what became of it."""
    agent, before = recorded(within, folder)
    start = (snapshot(folder), leaf(agent))
    within.run("rewind", "2", cwd=folder)
    goal = (before, leaf(agent))
    assert snapshot(folder) == before and goal[1] != start[1]
    within.run("rewind", "--undo", cwd=folder)
    assert (snapshot(folder), leaf(agent)) == start

    seen = []
    for at in range(MANY):
        step = kill_and_recover(at, within, folder, agent, start, goal)
        if step is None:
            break
        seen.append(step)
    assert {"safety", "plan", "apply", "conversation", "applied", "finish", "after"} <= set(seen)
    assert len(seen) > 60
    check_whole(within, folder)


def kill_and_recover(
    at: int, within: Within, folder: Path, agent: Claude, start: tuple[Any, Any], goal: tuple[Any, Any]
) -> str | None:
    """The step that was killed at; None where the rewind ended first. The start stands again then."""
    within.news()
    died, step = killed(at, ("rewind", "2"), folder)
    said = within.run("watch", "--once", cwd=folder).err
    kinds = [type(fact) for fact in within.news()]
    applied = RewindApplied in kinds
    assert (snapshot(folder), leaf(agent)) == (goal if applied else start), (at, step)
    assert RewindFailed not in kinds or not applied
    assert ("rolled back" in said) == (RewindFailed in kinds) == (RewindPlanned in kinds and not applied), (
        step
    )
    if applied:
        within.run("rewind", "--undo", cwd=folder)
        assert (snapshot(folder), leaf(agent)) == start, (at, step)
    return step if died else None
