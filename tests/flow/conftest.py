"""A recorder in a process of its own, beside simulated agents."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.flow.agents import Claude, Pi

ENTRY = Path(__file__).parents[2] / "_recorder_entry.py"
PATIENCE = 20.0


class Answer(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Recorder:
    """The command line on a home of its own, with the agents' folders below `base`."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.pi_folder = base / "pi"
        self.claude_folder = base / "claude"
        self.environment = {
            **os.environ,
            "RECORDER_HOME": str(self.home),
            "PI_CODING_AGENT_DIR": str(self.pi_folder),
            "CLAUDE_CONFIG_DIR": str(self.claude_folder),
        }

    def pi(self, folder: Path) -> Pi:
        return Pi(self.pi_folder, folder)

    def claude(self, folder: Path) -> Claude:
        return Claude(self.claude_folder, folder)

    def run(self, *words: str | bytes, cwd: Path, check: int | None = 0) -> Answer:
        done = subprocess.run(
            [sys.executable, "-I", str(ENTRY), *words],
            cwd=cwd, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
            check=False,
        )  # fmt: skip
        answer = Answer(done.returncode, done.stdout, done.stderr.decode())
        if check is not None:
            assert answer.code == check, f"{words}: {answer}"
        return answer

    def json(self, *words: str | bytes, cwd: Path, check: int | None = 0) -> Any:
        return self.run(*words, "--json", cwd=cwd, check=check).json

    @contextlib.contextmanager
    def watching(self) -> Iterator[subprocess.Popen[str]]:
        watcher = subprocess.Popen(
            [sys.executable, "-I", str(ENTRY), "--debug", "watch"],
            env=self.environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert watcher.stderr is not None
        try:
            for line in watcher.stderr:
                if line == "ready\n":
                    break
            yield watcher
        finally:
            watcher.send_signal(signal.SIGTERM)
            _, err = watcher.communicate(timeout=PATIENCE)
            assert watcher.returncode in (0, -signal.SIGKILL), err

    def wait_for(self, cwd: Path, session: str, count: int, *, settled: bool = True) -> list[dict[str, Any]]:
        """Until the session has so many checkpoints that are answered (and the last run a state after)."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.run("checkpoints", session, "--all-branches", "--json", cwd=cwd, check=None)
            found = answer.json if answer.code == 0 else []
            answered = len(found) >= count and all(one["state"] != "capturing" for one in found)
            if answered and (not settled or self._settled(cwd, session, count)):
                return found
            time.sleep(0.05)
        raise AssertionError(f"not {count} checkpoints: {found}")

    def _settled(self, cwd: Path, session: str, count: int) -> bool:
        facts = self.json("log", session, "--type", "Captured", cwd=cwd)
        return sum(fact["data"]["moment"] == "settled" for fact in facts) >= count


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "recorder")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with some files, no git repository."""
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "app.py").write_text("print('one')\n")
    (project / "notes.md").write_text("mine\n")
    (project / "run.sh").write_text("#!/bin/sh\n")
    (project / "run.sh").chmod(0o750)
    (project / "empty").mkdir()
    return project


def snapshot(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a folder: kind, permissions and bytes by relative path."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        if ".git" in path.relative_to(root).parts:
            continue
        name, mode = str(path.relative_to(root)), path.lstat().st_mode & 0o7777
        if path.is_symlink():
            found[name] = ("link", 0, os.readlink(os.fsencode(path)))
        elif path.is_dir():
            found[name] = ("dir", mode, b"")
        else:
            found[name] = ("file", mode, path.read_bytes())
    return found
