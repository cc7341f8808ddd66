"""The tests' own environment is clean, whoever runs them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def test_nothing_of_the_person_who_runs_the_tests_is_seen(clean_environment: Path) -> None:
    """Home, settings and data folders are the test's own; agents' and git's variables are gone."""
    assert Path.home() == clean_environment
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        assert Path(os.environ[f"XDG_{name}_HOME"]).is_relative_to(clean_environment)
    left = {name for name in os.environ if name.startswith(("GIT_", "RECORDER_", "PI_", "CLAUDE"))}
    assert left == {"GIT_CONFIG_NOSYSTEM"}


def test_git_reads_no_configuration_of_anybody() -> None:
    """Neither the system's nor the user's."""
    listed = subprocess.run(["git", "config", "--list"], cwd="/", capture_output=True, text=True)

    assert listed.stdout == ""
