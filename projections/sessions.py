"""The sessions, each with the work tree that its first capture bound it to."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple


class SessionRow(NamedTuple):
    """A session as the views know it; `tree` is its work tree's stream, None before its first capture."""

    stream: str
    agent: str
    session: str
    agent_version: str | None
    cwd: str | None
    name: str | None
    parent_session: str | None
    foreign_why: str | None
    log: bytes
    started_time: str
    started_at: int
    last_time: str
    last_at: int
    first_prompt: str | None
    leaf: str | None
    ended: str | None
    position: int
    tree: str | None
    tree_path: bytes | None


def sessions(connection: sqlite3.Connection) -> list[SessionRow]:
    """Every session, newest activity first."""
    rows = connection.execute(
        "SELECT sessions.*, session_trees.tree, trees.path FROM sessions"
        " LEFT JOIN session_trees USING (stream)"
        " LEFT JOIN trees USING (tree) ORDER BY last_at DESC, sessions.position DESC"
    )
    return [SessionRow(*row) for row in rows]
