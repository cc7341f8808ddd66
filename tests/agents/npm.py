"""Packages from the npm registry, installed once into a folder that is kept."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def npm_install(folder: Path, package: str) -> None:
    """Install one package into a folder, once; skips the test where npm or its registry is out of reach."""
    done = folder / "done"
    if done.exists():
        return
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", package]
    try:
        ran = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"{package} could not be installed from the npm registry in 600 s")
    if ran.returncode:
        pytest.skip(f"{package} could not be installed from the npm registry: {ran.stderr[-300:]}")
    done.touch()
