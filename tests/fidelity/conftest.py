from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.flow.within import Within


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Within(tmp_path / "recorder", monkeypatch)
