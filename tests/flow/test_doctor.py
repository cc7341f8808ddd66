"""What is really broken is found and said, what can be mended is, and a second look finds nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import ENTRY, snapshot
from tests.flow.within import Within, killed
from tests.rights import BOUND_BY_MODES


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def recorded(within: Within, folder: Path) -> Within:
    """One session with two prompts, recorded some time ago: no agent is at work now."""
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("new.txt", "x\n"))
        watcher.prompt(agent, "more", lambda one: one.write("new.txt", "y\n"))
    os.utime(agent.log, (1e9, 1e9))
    return within


def codes(document: dict[str, Any], kind: str = "problems") -> list[str]:
    return [one["code"] for one in document[kind]]


def doctor(within: Within, *words: str, check: int | None = 0) -> Any:
    return within.json("doctor", *words, cwd=within.base.parent, check=check)


def healed(within: Within, code: str, *, exits: int) -> str:
    """One problem is found, told by an exit code, mended, and gone; returns the sentence about it."""
    (found,) = doctor(within, check=exits)["problems"]
    assert found["code"] == code and found["message"] and found["fix"]
    mended = doctor(within, "--fix")
    assert codes(mended, "fixed") == [code] and mended["problems"] == []
    assert doctor(within) == {"problems": [], "fixed": []}
    return str(found["message"])


def test_a_healthy_recording_has_no_problems(recorded: Within) -> None:
    """Nothing is wrong with what was recorded, and the doctor says so and changes nothing."""
    before = {path: path.stat().st_mtime_ns for path in recorded.home.rglob("*") if path.suffix != ".db-shm"}

    assert doctor(recorded) == {"problems": [], "fixed": []}
    assert doctor(recorded, "--fix") == {"problems": [], "fixed": []}
    assert recorded.run("doctor", cwd=recorded.base).out.decode().strip() == "Nothing is wrong."
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_machine_with_nothing_recorded_has_no_problems(within: Within, tmp_path: Path) -> None:
    """No home is no problem, and none is made for the question."""
    assert within.json("doctor", "--fix", cwd=tmp_path) == {"problems": [], "fixed": []}
    assert not within.home.exists()
