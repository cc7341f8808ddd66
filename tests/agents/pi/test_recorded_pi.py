"""A real pi beside a watching recorder: what it did to files is known by prompt, and files and conversation
go back and forth."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.flow.conftest import Recorder, snapshot
from tests.flow.within import Within

if TYPE_CHECKING:
    from tests.agents.pi.conftest import Pi

pytestmark = pytest.mark.agents

THINKING = 0.7


@pytest.fixture
def recorder(pi: Pi, tmp_path: Path) -> Recorder:
    recorder = Recorder(tmp_path / "recorder")
    recorder.environment["PI_CODING_AGENT_DIR"] = str(pi.agent)
    pi.model.look = lambda: time.sleep(THINKING)
    (pi.project / "kept.txt").write_text("kept\n")
    (pi.project / "old.txt").write_text("old\n")
    return recorder


@pytest.fixture
def alone(recorder: Recorder, pi: Pi, monkeypatch: pytest.MonkeyPatch) -> Within:
    """Commands on the same home that see no pi of others on this machine."""
    within = Within(recorder.base, monkeypatch)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(pi.agent))
    monkeypatch.setattr(psutil, "pids", lambda: [1])
    return within


def session_of(pi: Pi) -> str:
    return pi.log().stem.rpartition("_")[2]


def test_a_session_goes_back_and_forth(pi: Pi, recorder: Recorder, alone: Within) -> None:
    """The shell's work comes back by bytes and modes; the resumed conversation goes on from where it was
    brought, and again from the end when that is undone. What was taken in late is said to be partial."""
    project = pi.project
    second = "TWO [[rm old.txt; mv new.txt moved.txt; chmod 600 kept.txt]]"
    with recorder.watching():
        pi.ask("ONE [[echo new > new.txt]]")
        session = session_of(pi)
        (first,) = recorder.wait_for(project, session, 1)
        middle = snapshot(project)
        (project / "mine.txt").write_text("by hand\n")
        pi.ask("-c", second)
        recorder.wait_for(project, session, 2)
        end = snapshot(project)

        shown = alone.json("show", "2", cwd=project)
        assert (
            first["state"] == "complete" or "late" in str(first["why_not"]) or "not known" in first["why_not"]
        )
        assert shown["state"] == "complete"
        assert {one["path"]: one["by"] for one in shown["files"]} == dict.fromkeys(
            ["kept.txt", "moved.txt", "new.txt", "old.txt"], "session"
        )
        done = alone.json("rewind", "2", cwd=project)
        assert (done["status"], done["conversation"]["status"]) == ("done", "done")
        assert snapshot(project) == middle | {"mine.txt": end["mine.txt"]}
        assert alone.json("rewind", "2", cwd=project)["status"] == "noop"
        pi.ask("-c", "THREE")
        assert pi.model.requests[-1] == ["ONE [[echo new > new.txt]]", "ok", "THREE"]
        recorder.wait_for(project, session, 3)

        alone.json("rewind", "--undo", cwd=project)
        assert snapshot(project) == end
        pi.ask("-c", "FOUR")
        assert pi.model.requests[-1] == ["ONE [[echo new > new.txt]]", "ok", second, "ok", "FOUR"]


def test_nothing_is_taken_back_while_the_model_thinks(pi: Pi, recorder: Recorder) -> None:
    """pi does not tell which session it has open: a prompt without an end is under way while one lives."""
    with recorder.watching():
        pi.ask("ONE [[echo new > new.txt]]")
        session = session_of(pi)
        recorder.wait_for(pi.project, session, 1)
        pi.model.look = lambda: time.sleep(20)
        with pi.alive("-p", "-c", "TWO") as process:
            assert process.stdin is not None
            process.stdin.close()
            recorder.wait_for(pi.project, session, 2, settled=False)
            refused = recorder.json("rewind", "1", cwd=pi.project, check=4)
    assert refused["error"]["code"] == "running"
    assert (pi.project / "new.txt").exists()
