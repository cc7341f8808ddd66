"""Simulated agents for whole-way tests: their logs have the shape of the real ones', their tools are real.

`Pi` writes version 3 session files as pi 1.x does (one line per write, the prompt before the model is
asked, results after the tool). `Claude` writes transcripts as Claude Code 2.1 does (tool lines after
the tool has run, in one flush with their results).
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Act = Callable[[], object]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def append(path: Path, *records: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = b"".join(json.dumps(record, separators=(",", ":")).encode() + b"\n" for record in records)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, lines)
    os.close(descriptor)


class Pi:
    """A session of pi in `folder`; its log lies below `agent_folder`."""

    agent = "pi"

    def __init__(self, agent_folder: Path, folder: Path, session: str | None = None) -> None:
        self.session = session or str(uuid.uuid4())
        self.folder = folder
        slug = "--" + str(folder).strip("/").replace("/", "-") + "--"
        self.log = agent_folder / "sessions" / slug / f"2026-01-01T00-00-00-000Z_{self.session}.jsonl"
        self.leaf: str | None = None
        append(
            self.log,
            {"type": "session", "version": 3, "id": self.session, "timestamp": now(), "cwd": str(folder)},
        )

    def give(self, text: str) -> str:
        """The prompt's line; the model is asked next. Returns the entry's id."""
        return self._message({"role": "user", "content": [{"type": "text", "text": text}]})

    def use(self, tool: str, arguments: dict[str, object], act: Act) -> None:
        """Call a tool, let it act, log its result."""
        call = self.call(tool, arguments)
        act()
        self.returned(call, tool)

    def call(self, tool: str, arguments: dict[str, object]) -> str:
        call = f"toolu_{uuid.uuid4().hex[:16]}"
        content = [{"type": "toolCall", "id": call, "name": tool, "arguments": arguments}]
        self._message({"role": "assistant", "content": content, "stopReason": "toolUse", "model": "fake"})
        return call

    def returned(self, call: str, tool: str) -> None:
        text = [{"type": "text", "text": "ok"}]
        self._message(
            {"role": "toolResult", "toolCallId": call, "toolName": tool, "content": text, "isError": False}
        )

    def shell(self, command: str, act: Act) -> None:
        self.use("bash", {"command": command}, act)

    def write(self, name: str, content: str) -> None:
        path = self.folder / name
        self.use("write", {"path": name, "content": content}, lambda: path.write_text(content))

    def done(self) -> None:
        self._message(
            {"role": "assistant", "content": [{"type": "text", "text": "done"}], "stopReason": "stop"}
        )

    def navigate(self, entry: str | None) -> None:
        """What `/tree` does: nothing is written, the next line goes on from there."""
        self.leaf = entry

    def _message(self, message: dict[str, Any]) -> str:
        entry = uuid.uuid4().hex[:8]
        append(
            self.log,
            {
                "type": "message",
                "id": entry,
                "parentId": self.leaf,
                "timestamp": now(),
                "message": {**message, "timestamp": time.time_ns() // 10**6},
            },
        )
        self.leaf = entry
        return entry


class Claude:
    """A session of Claude Code in `folder`; `config` is its configuration folder."""

    agent = "claude"

    def __init__(self, config: Path, folder: Path, session: str | None = None) -> None:
        self.session = session or str(uuid.uuid4())
        self.folder = folder
        slug = "".join(one if one.isalnum() else "-" for one in str(folder))
        self.log = config / "projects" / slug / f"{self.session}.jsonl"
        self.leaf: str | None = None
        self._pending: list[dict[str, Any]] = []

    def give(self, text: str) -> str:
        message = {"role": "user", "content": text}
        return self._write(self._chained("user", message=message, **_PROMPT, promptId=str(uuid.uuid4())))

    def use(self, tool: str, arguments: dict[str, object], act: Act, result: object = "ok") -> None:
        call = f"toolu_{uuid.uuid4().hex[:24]}"
        block = {"type": "tool_use", "id": call, "name": tool, "input": arguments}
        asked = self._chained("assistant", message=self._answer([block], "tool_use"))
        act()
        content = [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]
        answered = self._chained(
            "user", message={"role": "user", "content": content}, toolUseResult=result,
            sourceToolAssistantUUID=asked["uuid"],
        )  # fmt: skip
        time.sleep(0.05)
        append(self.log, asked, answered)

    def shell(self, command: str, act: Act) -> None:
        self.use("Bash", {"command": command}, act, {"stdout": "", "stderr": "", "interrupted": False})

    def write(self, name: str, content: str) -> None:
        path = self.folder / name
        old = path.read_text() if path.exists() else None
        result = {
            "type": "update" if old is not None else "create", "filePath": str(path), "content": content,
            "structuredPatch": [], "originalFile": old, "userModified": False,
        }  # fmt: skip
        self.use(
            "Write", {"file_path": str(path), "content": content}, lambda: _replace(path, content), result
        )

    def done(self) -> None:
        text = [{"type": "text", "text": "done"}]
        self._write(self._chained("assistant", message=self._answer(text, "end_turn")))
        self._write(self._chained("system", subtype="turn_duration", durationMs=5, messageCount=3))

    def navigate(self, entry: str | None) -> None:
        """What `/rewind` does to the conversation: nothing is written, the next prompt goes on from there."""
        self.leaf = entry

    def _answer(self, content: list[dict[str, Any]], stop: str) -> dict[str, Any]:
        return {
            "id": f"msg_{uuid.uuid4().hex[:24]}", "type": "message", "role": "assistant", "model": "fake",
            "content": content, "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip

    def _chained(self, kind: str, **fields: object) -> dict[str, Any]:
        line = {
            "parentUuid": self.leaf, "isSidechain": False, "type": kind, "uuid": str(uuid.uuid4()),
            "timestamp": now(), "userType": "external", "entrypoint": "cli", "cwd": str(self.folder),
            "sessionId": self.session, "version": "2.1.332", "gitBranch": "main", **fields,
        }  # fmt: skip
        self.leaf = line["uuid"]
        return line

    def _write(self, line: dict[str, Any]) -> str:
        append(self.log, line)
        return str(line["uuid"])


_PROMPT = {
    "permissionMode": "acceptEdits",
    "origin": {"kind": "human"},
    "promptSource": "typed",
    "turnOrigin": "human",
}


def _replace(path: Path, content: str) -> None:
    """Claude Code's edits: a temporary file beside, then a rename."""
    beside = path.with_name(f"{path.name}.tmp.{os.getpid()}.{uuid.uuid4().hex[:12]}")
    beside.write_text(content)
    beside.rename(path)
