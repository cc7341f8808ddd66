from __future__ import annotations

import os
from pathlib import Path

import pytest

from recorder.applying import renames


@pytest.fixture
def root(tmp_path: Path) -> bytes:
    folder = tmp_path / "work"
    folder.mkdir()
    return os.fsencode(folder.resolve())


@pytest.fixture
def no_rename_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that knows neither exchange nor a rename to a free name alone."""

    def refuse(*_: object) -> None:
        raise renames.Unsupported

    monkeypatch.setattr(renames, "_call", refuse)


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Durability costs time and plays no part in a kill, which loses nothing that was written."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
