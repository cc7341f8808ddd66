"""What earlier captures and the agent's log tell a new capture: since when the last state stands, what a
capture costs, what stood in files that tools named."""

from __future__ import annotations

import contextlib
import sqlite3
from uuid import UUID

import msgspec

from projections.views import Views
from recorder import events
from recorder.errors import NotFound
from recorder.log import EventLog


def standing_since(connection: sqlite3.Connection, tree: UUID) -> int | None:
    """When the first of the captures ended (ns) that found a work tree as the newest one has it."""
    row = connection.execute(
        "SELECT MIN(ended_at) AS ended_at FROM captures WHERE tree = ? AND position >="
        " (SELECT COALESCE(MAX(position), 0) FROM transitions WHERE tree = ?)",
        (tree.hex, tree.hex),
    ).fetchone()
    return None if row["ended_at"] is None else int(row["ended_at"])


def last_cost(connection: sqlite3.Connection, tree: str) -> int | None:
    """How long the newest capture of a work tree took (ns)."""
    row = connection.execute(
        "SELECT ended_at - began_at AS cost FROM captures WHERE tree = ? ORDER BY position DESC LIMIT 1",
        (tree,),
    ).fetchone()
    return int(row["cost"]) if row else None


def captured_since(connection: sqlite3.Connection, stream: UUID, run: str | None, at: int) -> bool:
    """Whether the state after a run was captured since a moment (ns)."""
    row = connection.execute(
        "SELECT 1 FROM checkpoints JOIN captures ON captures.capture = checkpoints.after_capture"
        " WHERE checkpoints.stream = ? AND checkpoints.entry = ? AND captures.began_at >= ?",
        (stream.hex, run, at),
    ).fetchone()
    return row is not None


def earlier_contents(views: Views, log: EventLog, stream: str) -> dict[bytes, bytes]:
    """What the log says stood in named files before the session's last run touched them, by path."""
    rows = views.connection.execute(
        "SELECT files FROM calls WHERE stream = ? AND run ="
        " (SELECT run FROM runs WHERE stream = ? ORDER BY position DESC LIMIT 1) ORDER BY position DESC",
        (stream, stream),
    )
    bodies = {
        file.path: file.before_body.digest
        for row in rows
        for file in msgspec.msgpack.decode(row["files"], type=tuple[events.NamedFile, ...])
        if file.before_body is not None
    }
    contents: dict[bytes, bytes] = {}
    for path, digest in bodies.items():
        with contextlib.suppress(NotFound):
            contents[path] = log.body(digest)
    return contents
