"""The recorder in this process, on a home of its own, for every place; and what is mounted for a test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flow.within import Within


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts something for the test's time; skips where this is not allowed."""
    done: list[Path] = []

    def mount(*words: str, at: Path) -> Path:
        at.mkdir(parents=True, exist_ok=True)
        if subprocess.run(["mount", *words, str(at)], capture_output=True, check=False).returncode != 0:
            pytest.skip("nothing can be mounted here")
        done.append(at)
        return at

    yield mount
    for place in reversed(done):
        subprocess.run(["umount", "-l", str(place)], check=True)
