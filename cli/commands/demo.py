"""`recorder demo`: the main job on a simulated agent, in a scratch folder that is gone afterwards."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console

SOURCE_FILES = {"app.py": "def greet(name):\n    return f'Hello, {name}!'\n", "notes.md": "# My own notes\n"}
PATIENCE = 30.0
"""Seconds that the watcher may take to start or to end."""


def add(subparsers: Subparsers) -> None:
    subparsers.add_parser(
        "demo",
        description="Record a short session of a simulated agent in a scratch folder, take its files back, "
        "undo that, and leave nothing behind. Needs no agent.",
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    from recorder.errors import Failed

    scratch = Path(tempfile.mkdtemp(prefix="recorder-demo-")).resolve()
    try:
        proved = _Demo(scratch, console).play()
    finally:
        shutil.rmtree(scratch)
    console.show(f"\nThe scratch folder {scratch} is gone; nothing else was touched.")
    if not proved:
        raise Failed("the demo did not get back the bytes it expected; please report this", code="demo")
    return 0


class _Demo:
    """One performance: a folder, a home and an agent's folder below a scratch folder."""

    def __init__(self, scratch: Path, console: Console) -> None:
        self._folder, self._agent_folder = scratch / "project", scratch / "agent"
        self._console = console
        self._environment = {
            **{
                key: value
                for key, value in os.environ.items()
                if not key.startswith(("PI_", "CLAUDE_", "RECORDER_"))
            },
            "HOME": str(scratch),
            "XDG_CONFIG_HOME": str(scratch / "config"),
            "PI_CODING_AGENT_DIR": str(self._agent_folder),
            "CLAUDE_CONFIG_DIR": str(scratch / "claude"),
            "RECORDER_HOME": str(scratch / "home"),
            "COLUMNS": str(min(console.width, 100)),
        }

    def play(self) -> bool:
        """Returns whether every state had the bytes that it must have."""
        self._folder.mkdir()
        for name, text in SOURCE_FILES.items():
            (self._folder / name).write_text(text)
        self._tell("A folder with two files, and the recorder watching:")
        with self._watching():
            before, after = self._work()
        self._recorder("checkpoints")
        self._tell("Now everything since before prompt 2 is taken back, shell commands too:")
        self._recorder("rewind", "2")
        rewound = self._bytes("after the rewind")
        self._tell("And the rewind itself is taken back:")
        self._recorder("rewind", "--undo")
        undone = self._bytes("after the undo")
        self._say_same("the files after the rewind", rewound, "those from before prompt 2", before)
        self._say_same("the files after the undo", undone, "those from after prompt 2", after)
        return rewound == before and undone == after

    def _work(self) -> tuple[dict[str, str], dict[str, str]]:
        """The agent's two prompts; returns the files before and after the second."""
        from cli.simulated_agent import SimulatedAgent

        app = self._folder / "app.py"
        agent = SimulatedAgent(self._agent_folder, self._folder, str(uuid.uuid4()))
        self._tell("  prompt 1: “Add a test.” The agent writes test_app.py.")
        test = "from app import greet\n\n\ndef test_greet():\n    assert greet('Ada') == 'Hello, Ada!'\n"
        agent.prompt(
            "Add a test.",
            (
                "write",
                {"path": "test_app.py", "content": test},
                lambda: _write(self._folder / "test_app.py", test),
            ),
        )
        self._settle()
        before = self._bytes("before prompt 2")
        self._tell("  prompt 2: “Clean up.” The agent runs a shell command that goes too far.")
        command = "sed -i s/Hello/Bye/ app.py && rm -r test_app.py notes.md && echo done > report.txt"
        agent.prompt(
            "Clean up.",
            (
                "bash",
                {"command": command},
                lambda: _shell(command, app.parent),
            ),
        )
        self._settle()
        return before, self._bytes("after prompt 2")

    @contextlib.contextmanager
    def _watching(self) -> Iterator[None]:
        watcher = subprocess.Popen(
            [*_recorder_command(), "watch"], env=self._environment, stderr=subprocess.PIPE, text=True
        )
        try:
            assert watcher.stderr is not None
            for line in watcher.stderr:
                if line.strip() == "ready":
                    break
            yield
        finally:
            watcher.terminate()
            watcher.communicate(timeout=PATIENCE)

    def _settle(self) -> None:
        """The watcher looks when the agent's last line is there; a person would take longer to read it."""
        time.sleep(0.6)

    def _recorder(self, *words: str) -> None:
        self._tell(f"$ recorder {' '.join(words)}")
        shown = subprocess.run(
            [*_recorder_command(), *words],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        for line in shown.stdout.splitlines():
            self._console.show(f"    {line}")

    def _bytes(self, moment: str) -> dict[str, str]:
        """Every file with the digest of its bytes, shown."""
        found = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self._folder.iterdir())
        }
        listed = ", ".join(f"{name} {digest[:8]}" for name, digest in found.items())
        self._console.show(f"    {moment}: {listed}")
        return found

    def _say_same(self, one: str, found: dict[str, str], other: str, expected: dict[str, str]) -> None:
        word = "are byte for byte" if found == expected else "ARE NOT"
        self._console.show(f"{one} {word} {other}")

    def _tell(self, sentence: str) -> None:
        self._console.show(sentence)


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _shell(command: str, folder: Path) -> None:
    subprocess.run(["sh", "-c", command], cwd=folder, check=True)


def _recorder_command() -> list[str]:
    entry = Path(__file__).resolve().parents[2] / "_recorder_entry.py"
    return [sys.executable, "-I", str(entry)]
