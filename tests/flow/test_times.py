"""Agents' times: a checkpoint named by the one it is shown with, and clocks that are wrong."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.flow import agents
from tests.flow.conftest import Recorder, snapshot


@pytest.mark.parametrize("milliseconds", range(0, 1000, 97))
def test_the_time_of_a_prompt_names_it(
    recorder: Recorder, folder: Path, monkeypatch: pytest.MonkeyPatch, milliseconds: int
) -> None:
    """To the millisecond: at it, and not before it."""
    at = f"2026-01-02T03:04:05.{milliseconds:03}Z"
    monkeypatch.setattr(agents, "now", lambda: at)
    agent = recorder.pi(folder)
    agent.give("then")
    recorder.run("import", str(agent.log), cwd=folder)

    assert recorder.json("show", at, cwd=folder)["created_at"] == at
    recorder.run("show", "2026-01-02T03:04:04.999Z", cwd=folder, check=3)


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_an_agent_whose_clock_is_wrong_is_recorded_all_the_same(
    kind: str, recorder: Recorder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times are months away: the lines' own times on this machine tell what its tools changed."""
    monkeypatch.setattr(agents, "now", lambda: "2021-03-04T05:06:07.000Z")
    before = snapshot(folder)
    with recorder.watching():
        agent = recorder.pi(folder) if kind == "pi" else recorder.claude(folder)
        agent.give("write and delete")
        time.sleep(0.8)
        agent.write("new.txt", "x\n")
        agent.shell("rm", lambda: (folder / "notes.md").unlink())
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    (found,) = recorder.json("checkpoints", cwd=folder)
    assert (found["state"], found["changes"]) == ("complete", {"added": 1, "modified": 0, "deleted": 1})
    recorder.json("rewind", "1", "--files", "--while-running", cwd=folder)
    assert snapshot(folder) == before
