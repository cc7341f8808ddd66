"""What is known of one folder, for the screen `recorder checkpoint`: read from the views alone.

Whether somebody watches, whether the folder is there, and how large its store is, the caller sees for itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

from projections.listing import iso
from projections.operations import operations_of, to_undo
from projections.sessions import SessionRow

RECENT = 5
"""Checkpoints that the screen shows."""

_FAILED = """
SELECT c.*, s.session FROM checkpoints c JOIN sessions s USING (stream) JOIN prompts p USING (stream, entry)
WHERE (c.stream = :stream OR c.tree = :tree) AND NOT p.copied
    AND (c.state = 'lost' AND c.why IS NOT NULL OR c.after_why IS NOT NULL)
ORDER BY c.given_at DESC
"""


def counts(connection: sqlite3.Connection, session: SessionRow) -> dict[str, int]:
    """`checkpoints` and `steps` of a session."""
    one = connection.execute(
        "SELECT (SELECT COUNT(*) FROM checkpoints WHERE stream = ?1),"
        " (SELECT COUNT(*) FROM steps WHERE stream = ?1)",
        (session.stream,),
    ).fetchone()
    return {"checkpoints": one[0], "steps": one[1]}


def captured_by_hook(connection: sqlite3.Connection, tree: str) -> bool:
    """Whether the checkpoint that was captured last in a work tree was captured by an agent's hook."""
    row = connection.execute(
        "SELECT source FROM captures WHERE tree = ? AND moment = 'prompt' ORDER BY position DESC LIMIT 1",
        (tree,),
    ).fetchone()
    return row is not None and row["source"] == "hook"


def can_undo(connection: sqlite3.Connection, tree: str) -> bool:
    """Whether `rewind --undo` has something to take back in a work tree."""
    return to_undo(operations_of(connection, tree)) is not None


def last_failure(
    connection: sqlite3.Connection, session: SessionRow, unasked: Collection[str]
) -> dict[str, Any] | None:
    """The newest capture of a session's work tree that failed, `healed` where a later one did not; None where
    none failed. `unasked` are the reasons of checkpoints that nobody meant to capture."""
    rows = connection.execute(_FAILED, {"stream": session.stream, "tree": session.tree or ""})
    row = next((row for row in rows if row["after_why"] or row["why"] not in unasked), None)
    if row is None:
        return None
    return {
        "at": iso(row["given_at"]),
        "session": row["session"],
        "checkpoint": {"number": row["number"], "id": row["id"]},
        "why": row["why"] if row["state"] == "lost" else f"what its run changed: {row['after_why']}",
        "healed": _captured_since(connection, session, row["given_at"]),
    }


def _captured_since(connection: sqlite3.Connection, session: SessionRow, moment: int) -> bool:
    row = connection.execute(
        "SELECT 1 FROM captures WHERE (stream = ? OR tree = ?) AND ended_at > ? LIMIT 1",
        (session.stream, session.tree, moment),
    ).fetchone()
    return row is not None
