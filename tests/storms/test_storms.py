"""Random trees, random histories, random interleavings: what comes back is what the model says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.flow.test_random_histories import folds_alike
from tests.flow.within import Within
from tests.storms.storm import Storm

FIRST, _, LAST = os.environ.get("STORMS", "0-6").partition("-")
"""The seeds, such as `STORMS=100-400`."""
STEPS = 30


@pytest.mark.parametrize("seed", range(int(FIRST), int(LAST)))
def test_storm(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rewind, of either session, to any prompt, gives what stood there of the session's own and leaves
    what others did, or is refused where two had their hands in it; its undo gives what stood before."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    within = Within(tmp_path / "recorder", monkeypatch)
    storm = Storm(seed, within, tmp_path / "project")
    storm.blow(STEPS)
    folds_alike(within, storm.chance)
