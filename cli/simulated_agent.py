"""A simulated agent for the demo: it keeps a session log as pi does, and changes files as a shell would.

The lines have the shape of pi's session files (version 3); the model is a pause.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path


class SimulatedAgent:
    """One session in a folder, with its log below `<agent folder>/sessions/`."""

    def __init__(self, agent_folder: Path, folder: Path, session: str, *, thinking: float = 1.0) -> None:
        """`thinking` is how long (s) the model takes before it answers a prompt."""
        self._folder, self._thinking = folder, thinking
        slug = "--" + str(folder).strip("/").replace("/", "-") + "--"
        self.log = (
            agent_folder / "sessions" / slug / f"{_now().replace(':', '-').replace('.', '-')}_{session}.jsonl"
        )
        self._ids = (f"{number:08x}" for number in itertools.count(0x10))
        self._calls = (f"call_{number}" for number in itertools.count(1))
        self._leaf: str | None = None
        self.log.parent.mkdir(parents=True)
        self._append(
            {"type": "session", "version": 3, "id": session, "timestamp": _now(), "cwd": str(folder)}
        )

    def prompt(self, text: str, *steps: tuple[str, dict[str, object], Callable[[], None]]) -> str:
        """Give a prompt; each step is a tool, its arguments, and what it does. Returns the entry's id."""
        entry = self._message({"role": "user", "content": [{"type": "text", "text": text}]})
        time.sleep(self._thinking)
        for tool, arguments, act in steps:
            self._use(tool, arguments, act)
        self._message(
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "stopReason": "stop"}
        )
        return entry

    def _use(self, tool: str, arguments: dict[str, object], act: Callable[[], None]) -> None:
        call = next(self._calls)
        content = [{"type": "toolCall", "id": call, "name": tool, "arguments": arguments}]
        self._message({"role": "assistant", "content": content, "stopReason": "toolUse"})
        act()
        self._message(
            {
                "role": "toolResult",
                "toolCallId": call,
                "toolName": tool,
                "content": [{"type": "text", "text": "ok"}],
                "isError": False,
            }
        )

    def _message(self, message: dict[str, object]) -> str:
        entry = next(self._ids)
        self._append(
            {
                "type": "message",
                "id": entry,
                "parentId": self._leaf,
                "timestamp": _now(),
                "message": {**message, "timestamp": time.time_ns() // 10**6},
            }
        )
        self._leaf = entry
        return entry

    def _append(self, record: dict[str, object]) -> None:
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
