from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.home import Home, open_home
from recorder.log import EventLog, open_log

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home")


@pytest.fixture
def log(home: Home) -> Iterator[EventLog]:
    with open_log(home) as log:
        yield log


@pytest.fixture
def sql(home: Home) -> Callable[..., list[tuple]]:
    """Runs a statement on the log's database as somebody who tampers with it would."""

    def run(statement: str, *values: object) -> list[tuple]:
        connection = sqlite3.connect(home.log, isolation_level=None)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    return run


@pytest.fixture
def writer(home: Home) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `writer.py` on the home; whatever still runs at the end of the test is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: object, folder: Path = home.folder) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("writer.py")), str(folder), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
