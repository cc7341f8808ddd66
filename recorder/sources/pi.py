"""pi (github.com/earendil-works/pi, releases 0.73, 0.74 and 1.x) as a source: where its session files
lie, whether one is open in a live pi, and how to make its conversation go on from an earlier entry.

What the lines of a session file say is `recorder.sources.pi_lines`'.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from recorder.sources.base import BadLine, Closed, Move, Root, Signal
from recorder.sources.pi_format import header_of
from recorder.sources.pi_hooks import signal
from recorder.sources.pi_lines import PiReader
from recorder.sources.pi_live import closed

CUSTOM_TYPE = "recorder"


class PiSource:
    """See `recorder.sources.base.Source`."""

    agent = "pi"
    one_leaf = True
    has_registry = False
    flush_ns = 10_000_000
    """pi writes each entry at once, in one write, within some ms (1.x). Before 0.99 the lines of a new
    session wait in memory until the first answer has ended, however long that takes."""

    def roots(self, environment: Mapping[str, str], home: Path) -> list[Root]:
        """The session folder of the environment, that of the user's settings, and the default one.

        A folder that a project's own `.pi/settings.json` names, or one relative to where pi was
        started, cannot be known from here: such files are to be named by hand.
        """
        agent = agent_folder(environment, home)
        named = (environment.get("PI_CODING_AGENT_SESSION_DIR"), _setting(agent, "sessionDir"))
        folders = [*(_folder(name, home) for name in named), agent / "sessions"]
        return [Root(folder, "*.jsonl") for folder in dict.fromkeys(folders) if folder is not None]

    def claims(self, path: Path, first_line: bytes) -> bool:
        return header_of(first_line) is not None

    def reader(self, path: Path) -> PiReader:
        return PiReader()

    def session_of(self, path: Path, first_lines: list[bytes]) -> str | None:
        headers = (header_of(line) for line in first_lines)
        return next((header.session for header in headers if header is not None), None)

    def signal(self, payload: bytes, at: int, deadline: int) -> Signal | None:
        return signal(payload, at, deadline)

    def closed(self, log: Path, session: str) -> Closed:
        return closed(log, session)

    def move(self, log: Path, session: str, keep: str | None, prompt: str, cwd: str | None) -> Move:
        """One line: a custom entry whose parent is `keep`.

        On load pi takes the last line of the file as the place to go on from. Proved with 0.73.1,
        0.74.2 and 1.6.0 (`tests/agents/pi`), also for the place before the first prompt, and with
        `pi --session` from any folder: pi goes to the one that the header names.
        """
        reader = PiReader()
        ids: set[str] = set()
        ends_whole = True
        try:
            with log.open("rb") as lines:
                for line in lines:
                    ends_whole = line.endswith(b"\n")
                    record = reader.read(line.removesuffix(b"\n"))
                    if not isinstance(record, BadLine):
                        ids.add(record.entry)
        except OSError as error:
            return Move(None, None, f"the session file {log} cannot be read: {error.strerror}")
        why = _obstacle(reader, ids, session, keep)
        if why is not None:
            return Move(None, None, why)
        parent = None if keep is None else reader.native(keep)
        line = custom_entry(parent, {"op": "rewind", "prompt": prompt}, ids, datetime.now(UTC))
        resume = f"pi --session {shlex.quote(str(log.absolute()))}"
        return Move(line if ends_whole else b"\n" + line, resume, None)


SOURCE = PiSource()


def agent_folder(environment: Mapping[str, str], home: Path) -> Path:
    """pi's own folder: its settings, extensions and, mostly, sessions."""
    return _folder(environment.get("PI_CODING_AGENT_DIR"), home) or home / ".pi" / "agent"


def custom_entry(parent: str | None, data: object, ids: Collection[str], now: datetime) -> bytes:
    """A line, with its newline, for an entry of an extension's own that pi does not send to the model."""
    entry = secrets.token_hex(4)
    while entry in ids:
        entry = secrets.token_hex(4)
    line = {
        "type": "custom",
        "customType": CUSTOM_TYPE,
        "data": data,
        "id": entry,
        "parentId": parent,
        "timestamp": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    return msgspec.json.encode(line) + b"\n"


def _obstacle(reader: PiReader, ids: Collection[str], session: str, keep: str | None) -> str | None:
    if reader.header is None or reader.header.session != session:
        return f"the file does not hold the session {session} any more"
    if reader.header.version < 2:
        return (
            "the session file is of version 1, to whose entries pi gives ids only when it next opens it; "
            "open and close the session once in pi, then try again"
        )
    if keep is not None and keep not in ids:
        return f"the entry {keep} is not in the session file"
    return None


def _folder(name: object, home: Path) -> Path | None:
    """A folder as pi expands it, or None where it names none, or one relative to where pi is started."""
    if not isinstance(name, str) or "\0" in name:
        return None
    if name == "~" or name.startswith("~/"):
        return home / name[2:]
    return Path(name) if name.startswith("/") else None


def _setting(agent: Path, key: str) -> object:
    try:
        settings = json.loads((agent / "settings.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return settings.get(key) if isinstance(settings, dict) else None
