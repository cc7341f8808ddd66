"""Whether a run of a session is under way: only on proof of life, never by the lack of an end."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from recorder.sources.base import Source

ACTIVE_NS = 600 * 10**9
"""An open tool call counts as alive while the log was written to within this time."""


def under_way(
    connection: sqlite3.Connection, stream: str, session: str, log: bytes, source: Source | None, now: int
) -> str | None:
    """Why a run of the session counts as under way, or None.

    Proof is the agent's own registry, or a tool call that has not returned while the log was written to
    in the last ten minutes.
    """
    path = Path(os.fsdecode(log))
    if source is not None:
        closed = source.closed(path, session)
        if closed.state == "open" and closed.busy:
            return closed.why
    open_call = connection.execute(
        "SELECT tool FROM calls JOIN runs USING (stream, run) WHERE stream = ? AND calls.ended_at IS NULL"
        " AND runs.ended_at IS NULL AND runs.position ="
        " (SELECT MAX(position) FROM runs WHERE stream = ?) ORDER BY calls.position DESC LIMIT 1",
        (stream, stream),
    ).fetchone()
    if open_call is None or now - _last_written(connection, stream, path) > ACTIVE_NS:
        return None
    return f"its tool “{open_call['tool']}” has not returned yet"


def _last_written(connection: sqlite3.Connection, stream: str, path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        row = connection.execute("SELECT last_at FROM sessions WHERE stream = ?", (stream,)).fetchone()
        return int(row["last_at"])
