"""Every test starts from a clean environment: nothing of the person who runs it is read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")

_FOREIGN = ("GIT_", "RECORDER_", "PI_", "CLAUDE", "XDG_", "CODEX_", "GEMINI_", "OPENCODE")


@pytest.fixture(autouse=True)
def clean_environment(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own; git reads no configuration but the repository's."""
    home = tmp_path_factory.mktemp("user")
    for name in [name for name in os.environ if name.startswith(_FOREIGN)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    for name, folder in (
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
        ("XDG_RUNTIME_DIR", ".run"),
    ):
        monkeypatch.setenv(name, str(home / folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return home
