"""What a decision over some lines is made of: the lines as they came, and the facts that come of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from recorder.events import Body, Fact
from recorder.reading.moments import Clock
from recorder.reading.session import Session
from recorder.reading.tail import LongLine
from recorder.sources.base import BadLine, Record

Line = bytes | LongLine


class Read(msgspec.Struct):
    """One piece of a log with what its lines say, and how they came: `path` of the log, `one_leaf` and
    `flush_ns` of its source, `origin` resolves what a line says of the session it was forked from."""

    path: bytes
    lines: Sequence[Line]
    records: Sequence[Record | BadLine]
    start: int
    more: bool
    live: bool
    clock: Clock
    one_leaf: bool
    flush_ns: int
    origin: Callable[[str], str]


class Counts(msgspec.Struct):
    """`entries` lines = `new` + `duplicates` + the sum of `not_understood` (by raw type) + `bad_lines`."""

    entries: int = 0
    new: int = 0
    duplicates: int = 0
    not_understood: dict[str, int] = {}
    bad_lines: int = 0

    def add(self, other: Counts) -> None:
        self.entries += other.entries
        self.new += other.new
        self.duplicates += other.duplicates
        self.bad_lines += other.bad_lines
        for raw_type, count in other.not_understood.items():
            self.not_understood[raw_type] = self.not_understood.get(raw_type, 0) + count


class Decision:
    """The facts that some lines add to a session, which is folded forward as they are decided."""

    def __init__(self, session: Session, body_of: Callable[[bytes], Body]) -> None:
        self.session = session
        self.facts: list[Fact] = []
        self.bodies: list[tuple[Body, bytes]] = []
        self.counts = Counts()
        self._body_of = body_of

    def add(self, kind: type[Fact], at: int, /, **fields: Any) -> None:
        fact = kind(
            originator_id=self.session.stream,
            originator_version=self.session.state.version + 1,
            at=at,
            **fields,
        )
        self.session.apply(fact)
        self.facts.append(fact)

    def body(self, content: bytes) -> Body:
        body = self._body_of(content)
        self.bodies.append((body, content))
        return body
