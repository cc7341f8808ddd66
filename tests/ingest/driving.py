"""Logs on disk taken into an event log, and what the log holds then."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from recorder.events import EntryAdded, Fact, LineUnread
from recorder.log import EventLog
from recorder.reading.decision import Counts
from recorder.reading.follow import Follower
from recorder.reading.ingest import Ingest, Outcome
from recorder.reading.logfile import NotALog
from recorder.sources.base import Record, Root
from tests.ingest.simple import SimpleSource, line, now
from tests.ingest.test_tail import append

_F = TypeVar("_F", bound=Fact)


class Driven:
    """Follows a folder of simple logs into an event log, as `watch` does."""

    def __init__(
        self, log: EventLog, folder: Path, *, one_leaf: bool = False, clock: Callable[[], int] = now
    ) -> None:
        self.log = log
        self.folder = folder
        self.source = SimpleSource(one_leaf=one_leaf)
        self.ingest = Ingest(log, [self.source], now=clock)
        self.follower = Follower([self.source], log, [Root(folder, "*.jsonl")])
        self.counts = Counts()

    def poll(self) -> list[Outcome]:
        outcomes = []
        for piece in self.follower.poll():
            assert not isinstance(piece, NotALog)
            outcomes.append(self.ingest.take(*piece))
            self.counts.add(outcomes[-1].counts)
        return outcomes

    def write(self, *records: Record, name: str = "a.jsonl") -> list[Fact]:
        """Append the records at once; the facts that came of them."""
        append(self.folder / name, b"".join(map(line, records)))
        return [stored.fact for outcome in self.poll() for stored in outcome.facts]

    def each(self, *records: Record, name: str = "a.jsonl") -> list[Fact]:
        """Append the records one by one."""
        return [fact for record in records for fact in self.write(record, name=name)]

    def close(self) -> None:
        self.follower.close()


def of(kind: type[_F], facts: Iterable[Fact]) -> list[_F]:
    return [fact for fact in facts if isinstance(fact, kind)]


def names(facts: Iterable[Fact]) -> list[str]:
    """The types of the facts, without those that every line has."""
    return [type(fact).__name__ for fact in facts if not isinstance(fact, EntryAdded | LineUnread)]


def all_facts(log: EventLog) -> list[Fact]:
    facts: list[Fact] = []
    position = 0
    while page := log.read(after=position):
        facts += [stored.fact for stored in page]
        position = page[-1].position
    return facts


def fields(fact: Fact, *wanted: str) -> tuple[Any, ...]:
    return tuple(getattr(fact, name) for name in wanted)
