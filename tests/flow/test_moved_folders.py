"""Folders that take each other's place: what lies in them keeps its old times, and is the session's all the
same; and what a person does after a run is the person's, however soon the run had ended."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.conftest import Recorder, snapshot
from tests.flow.within import Within

THINKING = 0.8


def swap(folder: Path) -> None:
    (folder / "d0").rename(folder / "t")
    (folder / "d1").rename(folder / "d0")
    (folder / "t").rename(folder / "d1")


def replace(folder: Path) -> None:
    shutil.rmtree(folder / "d0")
    (folder / "d1").rename(folder / "d0")


def chain(folder: Path) -> None:
    (folder / "d0").rename(folder / "d4")
    (folder / "d1").rename(folder / "d0")


@pytest.fixture
def two(folder: Path) -> Path:
    for name in ("d0", "d1"):
        (folder / name / "deep").mkdir(parents=True)
        for number in range(3):
            (folder / name / f"f{number}").write_text(f"{name} {number}\n")
        (folder / name / "deep" / f"only-{name}").write_text(f"{name}\n")
    time.sleep(0.1)
    return folder


@pytest.mark.parametrize("move", [swap, replace, chain])
@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_folders_that_changed_places_come_back(
    kind: str, move: Callable[[Path], None], recorder: Recorder, two: Path
) -> None:
    """The run's changes are counted, and rewind and undo give every file of both states."""
    before = snapshot(two)
    with recorder.watching():
        agent = recorder.pi(two) if kind == "pi" else recorder.claude(two)
        agent.give("move them")
        time.sleep(THINKING)
        agent.shell("mv", lambda: move(two))
        agent.done()
        recorder.wait_for(two, agent.session, 1)
    after = snapshot(two)
    (found,) = recorder.json("checkpoints", cwd=two)
    assert sum(found["changes"].values()) > 0
    recorder.json("rewind", "1", "--files", cwd=two)
    assert snapshot(two) == before
    recorder.json("rewind", "--undo", cwd=two)
    assert snapshot(two) == after


@pytest.mark.parametrize("move", [chain, swap])
def test_a_folder_moved_soon_after_its_files_were_written(
    move: Callable[[Path], None], two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run writes into two folders, that is captured in the same moment, and another call moves them: all of
    it is the run's."""
    within = Within(tmp_path / "recorder", monkeypatch)
    agent, before = within.agent("pi", two), snapshot(two)
    with within.watching() as watcher:
        watcher.steps = True
        agent.give("write, then move")
        watcher.look(agent)
        agent.shell("write", lambda: [(two / name / "f0").write_text(f"{name}\n") for name in ("d0", "d1")])
        time.sleep(0.02)
        watcher.look(agent)
        time.sleep(0.2)
        agent.shell("mv", lambda: move(two))
        watcher.look(agent)
        agent.done()
        watcher.look(agent)
    within.json("rewind", "1", "--files", cwd=two)
    assert snapshot(two) == before


@pytest.mark.parametrize("deed", ["move", "delete", "remove one"])
def test_what_a_person_does_right_after_a_run_stays(deed: str, recorder: Recorder, two: Path) -> None:
    """The run ended with its tool; a second later a person moves or deletes: none of it is taken back."""
    with recorder.watching():
        agent = recorder.pi(two)
        agent.give("write")
        time.sleep(THINKING)
        agent.shell("echo", lambda: (two / "other").write_text("x\n"))
        agent.done()
        recorder.wait_for(two, agent.session, 1)
        time.sleep(0.6)
    if deed == "move":
        (two / "d0").rename(two / "lib")
    elif deed == "delete":
        shutil.rmtree(two / "d0")
    else:
        (two / "d0" / "f1").unlink()
    left = {name: state for name, state in snapshot(two).items() if name != "other"}
    recorder.json("rewind", "1", "--files", cwd=two)

    assert snapshot(two) == left
