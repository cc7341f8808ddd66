from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.home import Home, open_home
from recorder.log import EventLog, open_log


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def log(home: Home) -> Iterator[EventLog]:
    with open_log(home) as log:
        yield log


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder for agents' logs."""
    folder = tmp_path / "logs"
    folder.mkdir()
    return folder
