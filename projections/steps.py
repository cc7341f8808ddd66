"""The steps of each run: their place in it, when their tools could write, and the captures around them.

A step is one answer of the model with the tools that it calls. What stood before and after it is told
by time: a capture is the state after a step where it began after the step's tools had returned and
ended before the next tool that may write was called, whatever it was made for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from projections.checkpoints import checkpoint_of_entry
from projections.history import inherited_runs
from projections.views import Projection
from recorder import events
from recorder.events import Fact

SCHEMA = """
CREATE TABLE steps (
    stream TEXT, run TEXT, step TEXT, ordinal INTEGER, position INTEGER, began_at INTEGER,
    writes_at INTEGER, over_at INTEGER,
    PRIMARY KEY (stream, run, step)
) WITHOUT ROWID;
CREATE INDEX steps_by_position ON steps (stream, position)
"""

EVER = 2**63 - 1


class Capture(NamedTuple):
    """A capture of a work tree; times in ns. `whole`: nothing is unknown in it."""

    capture: str
    tree: str
    position: int
    commit: str
    began_at: int
    ended_at: int
    whole: bool


class Step(NamedTuple):
    """`ordinal` counts the steps of a run from 1. `writes`: it called a tool that may write. `before` and
    `after` are None where no capture shows that state."""

    step: str
    ordinal: int
    writes: bool
    before: Capture | None
    after: Capture | None


class _Times(NamedTuple):
    """When a step began, when the first of its tools that may write was called (None: none was), and when
    the last of them had returned (None: not all have)."""

    step: str
    ordinal: int
    began_at: int
    writes_at: int | None
    over_at: int | None


def _step_started(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.StepStarted)
    connection.execute(
        "INSERT OR IGNORE INTO steps SELECT ?1, ?2, ?3, COUNT(*) + 1, ?4, ?5, NULL, NULL FROM steps"
        " WHERE stream = ?1 AND run = ?2",
        (fact.originator_id.hex, fact.run, fact.step, position, fact.at),
    )


def _tool_called(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.ToolCalled)
    connection.execute(
        "UPDATE steps SET writes_at = (SELECT MIN(began_at) FROM calls WHERE calls.stream = steps.stream"
        " AND calls.run = steps.run AND calls.step = steps.step AND writes != 'none')"
        f" WHERE {_OF_CALL}",
        (fact.originator_id.hex, fact.call),
    )


def _tool_returned(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    """What still runs in the background when the next step has begun does not hold a step open."""
    assert isinstance(fact, events.ToolReturned)
    connection.execute(
        "UPDATE steps SET over_at = (SELECT MAX(returned_at) FROM calls WHERE calls.stream = steps.stream"
        " AND calls.run = steps.run AND calls.step = steps.step AND writes != 'none')"
        f" WHERE {_OF_CALL} AND NOT EXISTS"
        " (SELECT 1 FROM steps n WHERE n.stream = ?1 AND n.run = steps.run AND n.ordinal > steps.ordinal)",
        (fact.originator_id.hex, fact.call),
    )


_OF_CALL = (
    "stream = ?1 AND (run, step) = (SELECT run, step FROM calls"
    " WHERE stream = ?1 AND call = ?2 AND writes != 'none')"
)


PROJECTION = Projection(
    "steps",
    SCHEMA,
    {
        events.StepStarted: _step_started,
        events.ToolCalled: _tool_called,
        events.ToolReturned: _tool_returned,
    },
)
"""Folded after `changes`, which knows the step of a call that returns."""


class Returned(NamedTuple):
    """A step whose tools have all returned; times in ns."""

    step: str
    writes_at: int
    over_at: int


def just_returned(connection: sqlite3.Connection, stream: str) -> Returned | None:
    """The session's newest step, where a tool of it may have written, all of them have returned, and its
    run goes on: what comes next is the model's."""
    newest = connection.execute(
        "SELECT steps.*, runs.ended_at FROM steps LEFT JOIN runs USING (stream, run)"
        " WHERE stream = ? ORDER BY steps.position DESC LIMIT 1",
        (stream,),
    ).fetchone()
    if newest is None or newest["ended_at"] is not None:
        return None
    times = _times(newest, _waiting(connection, stream, newest["run"]))
    if times.writes_at is None or times.over_at is None:
        return None
    return Returned(times.step, times.writes_at, times.over_at)


def steps_of(connection: sqlite3.Connection, stream: str, run: str) -> list[Step]:
    """The steps of a run (the entry of its prompt), in order; an inherited prompt has those of the session
    that it comes from."""
    stream = ran_in(connection, stream, run)
    waiting = _waiting(connection, stream, run)
    rows = connection.execute(
        "SELECT * FROM steps WHERE stream = ? AND run = ? ORDER BY ordinal", (stream, run)
    )
    times = [_times(row, waiting) for row in rows]
    if not times:
        return []
    found = _captures_around(connection, stream, run)
    return [_step(index, times, found) for index in range(len(times))]


def ran_in(connection: sqlite3.Connection, stream: str, run: str) -> str:
    """The session in which a prompt's run took place: the one that a fork inherited it from, else its own."""
    return inherited_runs(connection, stream).get(run, stream)


def capture_with_id(connection: sqlite3.Connection, capture: str | None) -> Capture | None:
    row = connection.execute("SELECT * FROM captures WHERE capture = ?", (capture,)).fetchone()
    return _capture(row) if row else None


def _waiting(connection: sqlite3.Connection, stream: str, run: str) -> frozenset[str]:
    """The steps of a run with a call that may write, made before the next step began, that has not
    returned."""
    rows = connection.execute(
        "SELECT DISTINCT step FROM calls JOIN steps USING (stream, run, step)"
        " WHERE stream = ? AND run = ? AND writes != 'none' AND failed IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM steps n WHERE n.stream = steps.stream AND n.run = steps.run"
        " AND n.ordinal > steps.ordinal AND n.position < calls.position)",
        (stream, run),
    )
    return frozenset(row["step"] for row in rows)


def _times(row: sqlite3.Row, waiting: frozenset[str]) -> _Times:
    over_at = None if row["step"] in waiting else row["over_at"]
    return _Times(row["step"], row["ordinal"], row["began_at"], row["writes_at"], over_at)


def _captures_around(connection: sqlite3.Connection, stream: str, run: str) -> list[Capture]:
    """From the capture before a run's prompt to the first one that began after the run's end."""
    one = checkpoint_of_entry(connection, stream, run)
    if one is None or one.tree is None or one.capture_position is None:
        return []
    after = connection.execute(
        "SELECT position FROM captures WHERE tree = ? AND position > ? AND began_at >="
        " (SELECT ended_at FROM runs WHERE stream = ? AND run = ?) ORDER BY position LIMIT 1",
        (one.tree, one.capture_position, stream, run),
    ).fetchone()
    rows = connection.execute(
        "SELECT * FROM captures WHERE tree = ? AND position BETWEEN ? AND ? ORDER BY position",
        (one.tree, one.capture_position, after["position"] if after else EVER),
    )
    return [_capture(row) for row in rows]


def _capture(row: sqlite3.Row) -> Capture:
    return Capture(
        capture=row["capture"],
        tree=row["tree"],
        position=row["position"],
        commit=row["commit_id"],
        began_at=row["began_at"],
        ended_at=row["ended_at"],
        whole=row["unknown"] == _NONE,
    )


_NONE = b"\x90"
"""An empty MessagePack array."""


def _step(index: int, times: Sequence[_Times], found: Sequence[Capture]) -> Step:
    own, earlier = times[index], [one for one in times[:index] if one.writes_at is not None]
    next_writes_at = _first_write(times[index + 1 :])
    before = _before(own, earlier, next_writes_at, found)
    after = before
    if own.writes_at is not None:
        after = None if own.over_at is None else _first(_within(found, own.over_at, next_writes_at))
    return Step(own.step, own.ordinal, own.writes_at is not None, before, after)


def _before(
    own: _Times, earlier: Sequence[_Times], next_writes_at: int, found: Sequence[Capture]
) -> Capture | None:
    """The newest capture before a step of what the steps before it had left; that of the prompt, before any
    of them wrote."""
    limit = next_writes_at if own.writes_at is None else own.writes_at
    began_at = own.began_at if own.writes_at is None else own.writes_at
    if not earlier:
        standing = [*found[:1], *(one for one in found[1:] if one.ended_at <= limit)]
    elif any(one.over_at is None for one in earlier):
        return None
    else:
        standing = list(_within(found, max(one.over_at or 0 for one in earlier), limit))
    in_time = [one for one in standing if one.ended_at <= began_at]
    return in_time[-1] if in_time else _first(standing)


def _within(found: Iterable[Capture], since: int, until: int) -> Iterable[Capture]:
    return (one for one in found if since <= one.began_at and one.ended_at <= until)


def _first(found: Iterable[Capture]) -> Capture | None:
    return next(iter(found), None)


def _first_write(times: Iterable[_Times]) -> int:
    return next((one.writes_at for one in times if one.writes_at is not None), EVER)
