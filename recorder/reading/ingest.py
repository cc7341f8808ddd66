"""Takes pieces of agents' logs into the event log, exactly once, whoever else does the same.

A piece's facts, its bodies and the position reached in its file go into one transaction. Where another
process was first, the session is brought up to date and the piece is decided again: what is known by
then is a duplicate.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from recorder.errors import Conflict
from recorder.log import EventLog, Stored
from recorder.reading.deciding import decide
from recorder.reading.decision import Counts, Read
from recorder.reading.logfile import LogFile, session_in
from recorder.reading.moments import Clock
from recorder.reading.session import Session
from recorder.reading.signals import decide_signal, run_of
from recorder.reading.tail import Lines
from recorder.sources.base import BadLine, Record, Signal, Source

SESSIONS = 256
"""Sessions kept in memory."""

ENTRIES = 250_000
"""Entries of all of them together (about 300 bytes each)."""

ATTEMPTS = 1000
"""Each one that fails means that another writer got on."""


class Outcome(msgspec.Struct, frozen=True):
    """What came of one piece: the facts appended, with their positions, and its lines counted."""

    facts: list[Stored]
    counts: Counts


class Ingest:
    """Takes lines in. Holds the sessions used last, so that few lines cost little."""

    def __init__(
        self, log: EventLog, sources: Sequence[Source], *, now: Callable[[], int] = time.time_ns
    ) -> None:
        self._log = log
        self._sources = sources
        self._now = now
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._origins: dict[str, str] = {}

    def take(self, file: LogFile, lines: Lines) -> Outcome:
        """Append what the lines say; they are in the log then, or nothing is.

        Raises LogFailure where the log cannot take it: the same lines can be offered again.
        """
        records = file.records(lines.lines)
        session = self._session(file.source.agent, file.session)
        for _ in range(ATTEMPTS):
            mark = session.mark()
            done = False
            try:
                decision = decide(session, self._read(file, lines, records), self._log.body_of)
                positions = self._log.append(decision.facts, bodies=decision.bodies, reached=lines.reached)
                done = True
            except Conflict as conflict:
                if conflict.code == "position":
                    return Outcome([], Counts(entries=len(records), duplicates=len(records)))
            finally:
                if not done:
                    session.back_to(mark)
            if done:
                return Outcome(list(map(Stored, positions, decision.facts)), decision.counts)
            session.load(self._log.stream(session.stream, after=session.state.version))
        raise Conflict(f"other processes kept appending to the session {file.session}; try again")

    def take_signal(self, agent: str, signal: Signal) -> list[Stored]:
        """Append what a hook told; nothing where that is known. Raises LogFailure as `take`."""
        session = self._session(agent, signal.session)
        has_log = signal.log is not None and signal.log.exists()
        for _ in range(ATTEMPTS):
            mark = session.mark()
            done = False
            try:
                decision = decide_signal(session, signal, self._log.body_of, has_log=has_log)
                positions = self._log.append(decision.facts, bodies=decision.bodies) if decision.facts else []
                done = True
                return list(map(Stored, positions, decision.facts))
            except Conflict:
                pass
            finally:
                if not done:
                    session.back_to(mark)
            session.load(self._log.stream(session.stream, after=session.state.version))
        raise Conflict(f"other processes kept appending to the session {signal.session}; try again")

    def run_of(self, agent: str, session: str) -> str:
        """The run that is under way in a session, as `signals.run_of`."""
        return run_of(self._session(agent, session))

    def _read(self, file: LogFile, lines: Lines, records: Sequence[Record | BadLine]) -> Read:
        return Read(
            path=os.fsencode(file.path),
            lines=lines.lines,
            records=records,
            start=lines.start,
            more=lines.more,
            live=lines.live,
            clock=Clock(lines, self._now()),
            one_leaf=file.source.one_leaf,
            flush_ns=file.source.flush_ns,
            origin=self._origin,
        )

    def _session(self, agent: str, name: str) -> Session:
        session = self._sessions.get((agent, name))
        if session is None:
            session = Session(agent, name)
            session.load(self._log.stream(session.stream))
            self._let_go()
            self._sessions[agent, name] = session
        self._sessions.move_to_end((agent, name))
        return session

    def _let_go(self) -> None:
        """Makes room for one more."""
        held = sum(len(session.entries) for session in self._sessions.values())
        while self._sessions and (len(self._sessions) >= SESSIONS or held > ENTRIES):
            _, idle = self._sessions.popitem(last=False)
            held -= len(idle.entries)

    def _origin(self, written: str) -> str:
        """The session that a log says it was forked from: an id as it is, a path by that log's own first
        lines. A file's name is not trusted to say it."""
        known = self._origins.get(written)
        if known is None:
            path = Path(written)
            known = (session_in(path, self._sources) if path.is_absolute() else None) or written
            self._origins[written] = known
        return known
