"""How the hook client is run, as `recorder hook` runs it and as `recorder install` writes it down."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
CLIENT = _PACKAGE / "hook_client.py"
ENTRY = _PACKAGE.parent / "_recorder_entry.py"


def client_command(agent: str, home: Path, budget_ms: int) -> list[str]:
    """The words that run the client. Absolute, so that they mean the same from everywhere."""
    client = [sys.executable, "-I", "-S", os.fspath(CLIENT)]
    return [*client, agent, os.fspath(home.absolute()), str(budget_ms), os.fspath(ENTRY)]


def silent_line(agent: str, home: Path, budget_ms: int) -> str:
    """A line for sh that runs the client, and says nothing where the recorder or its Python is gone."""
    words = client_command(agent, home, budget_ms)
    python, client = shlex.quote(words[0]), shlex.quote(words[3])
    return f"[ -x {python} ] && [ -f {client} ] && exec {shlex.join(words)}; exit 0"
