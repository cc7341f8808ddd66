"""The recorded sessions: whether their prompts have anything to go back to."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from cli.checks.problem import Problem, counted
from projections.capture import UNWATCHED
from projections.running import ACTIVE_NS

UNANSWERED = "nobody captured its files when it was given"


_NEWEST = """
SELECT s.agent, s.session, s.cwd, s.foreign_why, COUNT(*) AS prompts,
    SUM(c.capture IS NOT NULL OR c.retired IS NOT NULL) AS captured, c.why, MAX(c.given_at) AS given_at
FROM sessions s JOIN prompts p USING (stream) JOIN checkpoints c USING (stream, entry)
WHERE NOT p.copied AND s.last_at >= ? GROUP BY s.stream ORDER BY s.last_at DESC
"""
"""`why` is of the last prompt: SQLite takes it from the row that has the maximum."""


def check_sessions(
    connection: sqlite3.Connection, since: int, now: int, why_off: Callable[[str], str | None]
) -> Iterator[Problem]:
    """No agent's newest session in a folder, active since a time (ns), has prompts and no checkpoint. What
    was not watched is as it was asked for, and so is what `why_off(agent)` gives the reason of."""
    from cli.commands.import_ import WHY as IMPORTED

    for row in _newest(connection, since):
        under_way = row["why"] is None and now - row["given_at"] < ACTIVE_NS
        if row["captured"] or under_way or row["why"] in (IMPORTED, UNWATCHED):
            continue
        unwanted = row["foreign_why"] or why_off(row["agent"])
        why = unwanted or row["why"] or UNANSWERED
        yield Problem(
            "no_checkpoints",
            f"0 checkpoints for {counted(row['prompts'], 'prompt')} of {row['agent']} session "
            f"{row['session']} in {row['cwd'] or 'an unknown folder'}: {why}",
            "nothing, if that is meant"
            if unwanted
            else "mend that, and see “recorder checkpoint status” there after the next prompt",
            "advice" if unwanted else "fault",
        )


def folders(connection: sqlite3.Connection, since: int) -> list[Path]:
    """The folders of sessions active since a time (ns) that are there."""
    rows = connection.execute(
        "SELECT DISTINCT cwd FROM sessions WHERE cwd IS NOT NULL AND last_at >= ? ORDER BY cwd", (since,)
    )
    return [Path(row["cwd"]) for row in rows if os.path.isdir(row["cwd"])]


def agents(connection: sqlite3.Connection) -> frozenset[str]:
    """The agents whose sessions were recorded."""
    return frozenset(row["agent"] for row in connection.execute("SELECT DISTINCT agent FROM sessions"))


def _newest(connection: sqlite3.Connection, since: int) -> list[sqlite3.Row]:
    """Each agent's newest session in each folder: it heals those before it."""
    found: dict[tuple[str, str], sqlite3.Row] = {}
    for row in connection.execute(_NEWEST, (since,)):
        found.setdefault((row["agent"], row["cwd"] or ""), row)
    return list(found.values())
