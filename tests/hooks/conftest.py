"""An agent whose hooks run the real client against a real daemon, with or without a log of its own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil
import pytest

from recorder.home import open_home
from tests.flow import conftest as flow
from tests.flow.conftest import ENTRY, Recorder

recorder, folder = flow.recorder, flow.folder

CLIENT = ENTRY.parent / "cli" / "hook_client.py"
BUDGET_MS = 20_000


class Told(NamedTuple):
    code: int
    out: bytes
    err: bytes
    seconds: float


class Hooks:
    """The hooks of one session of Claude Code in a folder."""

    def __init__(
        self, recorder: Recorder, folder: Path, session: str = "0b5e7c1e-0000-4000-8000-00000000000a"
    ) -> None:
        self.recorder, self.folder, self.session = recorder, folder, session
        self.log = recorder.claude_folder / "projects" / "-project" / f"{session}.jsonl"
        self.calls = 0

    def tell(self, event: str, *, budget: int = BUDGET_MS, **fields: Any) -> Told:
        payload = {
            "session_id": self.session,
            "transcript_path": str(self.log),
            "cwd": str(self.folder),
            "hook_event_name": event,
            **fields,
        }
        return self.send(msgspec.json.encode(payload), budget=budget)

    def send(self, payload: bytes, *, budget: int = BUDGET_MS) -> Told:
        began = time.monotonic()
        words = [str(CLIENT), "claude", str(self.recorder.home), str(budget), str(ENTRY)]
        done = subprocess.run(
            [sys.executable, "-I", "-S", *words],
            input=payload, env=self.recorder.environment, capture_output=True, timeout=120, check=False,
        )  # fmt: skip
        return Told(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def prompt(self, key: str, text: str = "do it") -> Told:
        return self.tell("UserPromptSubmit", prompt_id=key, prompt=text)

    @contextlib.contextmanager
    def tool(self, key: str, tool: str = "Bash", **given: str) -> Iterator[None]:
        """What the body does to files is done by a tool of the prompt's run."""
        self.calls += 1
        fields = {
            "prompt_id": key,
            "tool_name": tool,
            "tool_use_id": f"toolu_{self.calls}",
            "tool_input": given or {"command": "…"},
        }
        self.tell("PreToolUse", **fields)
        yield
        self.tell("PostToolUse", **fields, tool_response={"stdout": ""})

    def stop(self, key: str) -> Told:
        return self.tell("Stop", prompt_id=key)


@pytest.fixture
def hooks(recorder: Recorder, folder: Path) -> Iterator[Hooks]:
    """A home that `install` made, and no daemon yet; one that comes up ends with the test."""
    open_home(recorder.home)
    yield Hooks(recorder, folder)
    ended(recorder.home)


def ended(home: Path) -> None:
    """No daemon of this home is left, not even one that is only coming up."""
    found = [psutil.Process(pid) for pid in daemons_of(home)]
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, left = psutil.wait_procs(found, timeout=20)
    for process in left:
        process.kill()


def daemons_of(home: Path) -> list[int]:
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if (words := process.info["cmdline"]) and words[-2:] == ["daemon", "run"] and str(home) in words
    ]
