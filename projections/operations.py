"""The operations on each work tree: rewinds, undos, redos and reverts, and what each can still undo."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from operator import itemgetter

import msgspec

from projections.changes import root_of, rows_with
from projections.views import Projection
from recorder import events
from recorder.events import Fact, FileStep
from recorder.history import Operation, place_of

SCHEMA = """
CREATE TABLE operations (
    operation TEXT PRIMARY KEY, tree TEXT, position INTEGER, verb TEXT, stream TEXT, checkpoint TEXT,
    safety TEXT, steps BLOB, takes_back BLOB, puts_on BLOB, inverts TEXT,
    position_before TEXT, position_after TEXT, leaf_before TEXT, leaf_after TEXT,
    state TEXT, applied_at INTEGER, conversation TEXT, why TEXT, left_as_it_was BLOB
) WITHOUT ROWID;
CREATE INDEX operations_by_tree ON operations (tree, position);
CREATE TABLE operation_places (place BLOB, operation TEXT, PRIMARY KEY (place, operation)) WITHOUT ROWID
"""

_encode = msgspec.msgpack.encode
_steps = msgspec.msgpack.Decoder(tuple[FileStep, ...]).decode
_paths = msgspec.msgpack.Decoder(tuple[bytes, ...]).decode
_ids = msgspec.msgpack.Decoder(tuple[str, ...]).decode

INVERSES = ("undo-rewind", "redo-rewind")


def _planned(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.RewindPlanned)
    connection.execute(
        "INSERT INTO operations VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,'planned',NULL,NULL,NULL,NULL)",
        (
            fact.operation,
            fact.originator_id.hex,
            position,
            fact.verb,
            fact.session.hex,
            fact.checkpoint,
            fact.safety,
            _encode(fact.steps),
            _encode(fact.takes_back),
            _encode(fact.puts_on),
            fact.inverts,
            fact.position_before,
            fact.position_after,
            fact.leaf_before,
            fact.leaf_after,
        ),
    )
    root = root_of(connection, fact.originator_id.hex)
    connection.executemany(
        "INSERT OR IGNORE INTO operation_places VALUES (?,?)",
        ((place_of(root, step.path), fact.operation) for step in fact.steps),
    )


def _applied(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.RewindApplied)
    connection.execute(
        "UPDATE operations SET state = 'applied', applied_at = ?, conversation = ?, left_as_it_was = ?"
        " WHERE operation = ?",
        (fact.at, fact.conversation, _encode([note.path for note in fact.left]), fact.operation),
    )


def _failed(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.RewindFailed)
    connection.execute(
        "UPDATE operations SET state = 'failed', why = ? WHERE operation = ?", (fact.why, fact.operation)
    )


PROJECTION = Projection(
    "operations",
    SCHEMA,
    {
        events.RewindPlanned: _planned,
        events.RewindApplied: _applied,
        events.RewindFailed: _failed,
    },
)


def operations_of(connection: sqlite3.Connection, tree: str) -> tuple[Operation, ...]:
    """The applied operations on a work tree, oldest first."""
    rows = connection.execute(
        "SELECT * FROM operations WHERE tree = ? AND state = 'applied' ORDER BY position", (tree,)
    )
    return tuple(_operation(row) for row in rows)


def operations_by_id(connection: sqlite3.Connection, names: Collection[str]) -> list[tuple[str, Operation]]:
    """Of these operations those that were applied, each with its work tree, oldest first."""
    query = "SELECT * FROM operations WHERE operation IN ({}) AND state = 'applied'"
    rows = sorted(rows_with(connection, query, names), key=itemgetter("position"))
    return [(row["tree"], _operation(row)) for row in rows]


def is_half_done(connection: sqlite3.Connection, tree: str) -> bool:
    """Whether an operation on a work tree was planned and has no outcome."""
    planned = "SELECT 1 FROM operations WHERE tree = ? AND state = 'planned'"
    return connection.execute(planned, (tree,)).fetchone() is not None


def to_undo(operations: Sequence[Operation]) -> Operation | None:
    """What `rewind --undo` takes back: the newest operation that is not yet taken back.

    An `undo-rewind` is itself taken back by `redo-rewind` alone, which makes its subject standing
    again; nothing is ever popped.
    """
    standing: list[Operation] = []
    for operation in operations:
        if operation.verb == "undo-rewind":
            standing = [one for one in standing if one.operation != operation.inverts]
        elif operation.verb == "redo-rewind":
            undone = _by_id(operations, operation.inverts)
            subject = _by_id(operations, undone.inverts) if undone else None
            standing += [subject] if subject else []
        else:
            standing.append(operation)
    return standing[-1] if standing else None


def to_redo(operations: Sequence[Operation]) -> Operation | None:
    """What `rewind --redo` takes back: the newest undo-rewind, until any new operation is made."""
    undone: list[Operation] = []
    for operation in operations:
        if operation.verb == "undo-rewind":
            undone.append(operation)
        elif operation.verb == "redo-rewind":
            undone = [one for one in undone if one.operation != operation.inverts]
        else:
            undone.clear()
    return undone[-1] if undone else None


def newest_of_session(operations: Sequence[Operation], stream: str) -> Operation | None:
    """The last operation that moved a session."""
    return next((one for one in reversed(operations) if one.session == stream), None)


def _by_id(operations: Sequence[Operation], operation: str | None) -> Operation | None:
    return next((one for one in operations if one.operation == operation), None)


def _operation(row: sqlite3.Row) -> Operation:
    return Operation(
        operation=row["operation"],
        position=row["position"],
        verb=row["verb"],
        session=row["stream"],
        checkpoint=row["checkpoint"],
        safety=row["safety"],
        steps=_steps(row["steps"]),
        takes_back=_ids(row["takes_back"]),
        puts_on=_ids(row["puts_on"]),
        inverts=row["inverts"],
        position_before=row["position_before"],
        position_after=row["position_after"],
        leaf_before=row["leaf_before"],
        leaf_after=row["leaf_after"],
        applied_at=row["applied_at"],
        left=_paths(row["left_as_it_was"]),
    )
