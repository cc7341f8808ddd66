"""The stage of each case; a parametrized one stands for a kind of case, not for one example."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cases.stage import WRITERS, Stage, project
from tests.flow.within import Within

CORNERS = [
    ("pi", "folder", "tool"),
    ("pi", "repository", "shell"),
    ("claude", "folder", "shell"),
    ("claude", "repository", "tool"),
]
"""Every pair of agent, kind of project and way to write."""


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    """No case here is about a machine that loses its power."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture(params=CORNERS, ids="-".join)
def corner(request: pytest.FixtureRequest, within: Within, tmp_path: Path) -> Stage:
    """One after the other, every pair of what a case may depend on."""
    kind, place, way = request.param
    return Stage(within, project(tmp_path, place), kind, WRITERS[way])


@pytest.fixture(params=["folder", "repository"])
def place(request: pytest.FixtureRequest, within: Within, tmp_path: Path) -> Stage:
    """A plain folder and a repository."""
    return Stage(within, project(tmp_path, request.param), "pi", WRITERS["shell"])


@pytest.fixture
def plain(within: Within, tmp_path: Path) -> Stage:
    """One place, for what depends on neither agent nor git."""
    return Stage(within, project(tmp_path, "folder"), "pi", WRITERS["tool"])


@pytest.fixture(params=["pi", "claude"])
def stage(request: pytest.FixtureRequest, within: Within, tmp_path: Path) -> Stage:
    """Either agent, in a repository."""
    return Stage(within, project(tmp_path, "repository"), request.param, WRITERS["tool"])
