"""A tiny agent whose log lines are records, spelled out as JSON: what ingest is tried with."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from recorder.sources.base import BadLine, Closed, Move, Record, Root

SESSION = "s-1"


class SimpleReader:
    """Counts the lines that it was shown, in `seen`."""

    def __init__(self) -> None:
        self.seen = 0

    def read(self, line: bytes) -> Record | BadLine:
        self.seen += 1
        try:
            return msgspec.json.decode(line, type=Record)
        except msgspec.MsgspecError as error:
            return BadLine(f"it is no record: {error}")


class SimpleSource:
    agent = "simple"
    flush_ns = 100_000_000

    def __init__(self, *, one_leaf: bool = False) -> None:
        self.one_leaf = one_leaf
        self.has_registry = False
        self.readers: list[SimpleReader] = []

    def roots(self, environment: Mapping[str, str], home: Path) -> list[Root]:
        return [Root(home / "logs", "*.jsonl")]

    def claims(self, path: Path, first_line: bytes) -> bool:
        record = SimpleReader().read(first_line)
        return isinstance(record, Record) and record.raw_type == "session"

    def reader(self, path: Path) -> SimpleReader:
        self.readers.append(SimpleReader())
        return self.readers[-1]

    def session_of(self, path: Path, first_lines: list[bytes]) -> str | None:
        records = map(SimpleReader().read, first_lines)
        return next(
            (record.session for record in records if isinstance(record, Record) and record.session), None
        )

    def closed(self, log: Path, session: str) -> Closed:
        return Closed("unknown", "nobody keeps a list")

    def move(self, log: Path, session: str, keep: str | None, prompt: str, cwd: str | None) -> Move:
        return Move(None, None, "it cannot be moved")


def header(session: str = SESSION, **fields: Any) -> Record:
    return Record(entry=f"h-{session}", kind="session", raw_type="session", session=session, **fields)


def entry(entry_id: str, kind: str = "note", /, **fields: Any) -> Record:
    return Record(entry=entry_id, kind=kind, raw_type=kind, in_tree=True, **fields)


def prompt(entry_id: str, parent: str | None = None, /, **fields: Any) -> Record:
    return entry(entry_id, "prompt", parent=parent, prompt="typed", text=f"text of {entry_id}", **fields)


def line(record: Record) -> bytes:
    return msgspec.json.encode(record) + b"\n"


def lines(records: Iterable[Record]) -> bytes:
    return b"".join(map(line, records))


def iso(ns: int) -> str:
    """To the microsecond."""
    return (
        datetime.fromtimestamp(ns // 1000 / 1_000_000, UTC)
        .isoformat(timespec="microseconds")
        .replace("+00:00", "Z")
    )


def now() -> int:
    return time.time_ns() // 1000 * 1000
