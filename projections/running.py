"""Whether a run of a session is under way: only on proof of life, never by the lack of an end."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from recorder.sources.base import Source

ACTIVE_NS = 600 * 10**9
"""A run without an end counts as alive while the log was written to within this time."""


def under_way(
    connection: sqlite3.Connection, stream: str, session: str, log: bytes, source: Source, now: int
) -> str | None:
    """Why a run of the session counts as under way, or None.

    Proof is the agent's own registry, or a run without an end in a log that was written to in the last
    ten minutes: with a tool call that has not returned, or, where the agent does not tell what it does,
    with a live agent that may have the session open (its model may be thinking).
    """
    path = Path(os.fsdecode(log))
    run = connection.execute(
        "SELECT run, ended_at FROM runs WHERE stream = ? ORDER BY position DESC LIMIT 1", (stream,)
    ).fetchone()
    unended = (
        run is not None
        and run["ended_at"] is None
        and now - _last_written(connection, stream, path) <= ACTIVE_NS
    )
    if not (unended or source.has_registry):
        return None
    closed = source.closed(path, session)
    if closed.state == "open" and closed.busy:
        return "its agent is at work"
    if not unended:
        return None
    open_call = connection.execute(
        "SELECT tool FROM calls WHERE stream = ? AND run = ? AND ended_at IS NULL"
        " ORDER BY position DESC LIMIT 1",
        (stream, run["run"]),
    ).fetchone()
    if open_call is not None:
        return f"its tool “{open_call['tool']}” has not returned yet"
    if closed.state != "closed" and closed.busy is None:
        return "its last prompt has no end yet, and an agent that may have it open is alive"
    return None


def _last_written(connection: sqlite3.Connection, stream: str, path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        row = connection.execute("SELECT last_at FROM sessions WHERE stream = ?", (stream,)).fetchone()
        return int(row["last_at"])
