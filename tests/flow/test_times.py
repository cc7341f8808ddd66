"""A checkpoint named by the very time that it is shown with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow import agents
from tests.flow.conftest import Recorder


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
