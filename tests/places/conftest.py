"""The recorder in this process, on a home of its own, for every place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.within import Within


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)
