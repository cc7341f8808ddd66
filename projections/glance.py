"""The views for who only looks: nothing is written, and no lock is waited for.

Stored views that stand at the log's head are read as they are; else a copy in memory is brought there.
"""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from projections.views import NOT_AS_MADE, VERSION, Facts, Views, as_made, belong_to, views_as_of
from recorder.errors import LogFailure, RecorderError
from recorder.eventlog.database import address, meaning
from recorder.home import Home

PATIENCE = 1.0
"""Seconds to wait for SQLite's own short locks."""

CHECKED_BYTES = 256 << 20
"""A larger database is believed to be whole: looking through it takes long."""


def glance(home: Home, log: Facts, head: int, *, thorough: bool = False) -> Views:
    """The views as of a position of the log; folded anew in memory where the stored ones are of no use.
    `thorough` as in `open_stored`: without it, damage shows when a query raises sqlite3.DatabaseError."""
    try:
        connection = open_stored(home.views, thorough=thorough)
    except LogFailure:
        return views_as_of(log, head)
    try:
        position = position_of(connection) if belong_to(connection, log) else None
        if position == head:
            return Views(connection, log)
        if position is not None and position < head:
            return _brought_to(connection, log, head)
    except (sqlite3.Error, RecorderError):
        connection.close()
        return views_as_of(log, head)
    connection.close()
    return views_as_of(log, head)


def open_stored(file: Path, *, thorough: bool = False) -> sqlite3.Connection:
    """The stored views, for reading. Raises LogFailure with the reason where they are of no use: not there,
    damaged, or (code `outdated`) those of another version. `thorough` looks at every page for damage."""
    try:
        connection = sqlite3.connect(
            address(file).replace("mode=rw", "mode=ro"), uri=True, timeout=PATIENCE, isolation_level=None
        )
    except sqlite3.Error as error:
        raise LogFailure(meaning(error)) from error
    try:
        connection.row_factory = sqlite3.Row
        _check(connection, file, thorough)
    except (sqlite3.Error, LogFailure) as error:
        connection.close()
        raise error if isinstance(error, LogFailure) else LogFailure(meaning(error)) from error
    return connection


def position_of(connection: sqlite3.Connection) -> int:
    """How far the views are folded. Raises sqlite3.Error where they do not say it."""
    row = connection.execute("SELECT position FROM folded").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("they do not say how far they are folded")
    return int(row["position"])


def _check(connection: sqlite3.Connection, file: Path, thorough: bool) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != VERSION:
        raise LogFailure(f"they are of version {version}, not {VERSION}", code="outdated")
    position_of(connection)
    if not as_made(connection):
        raise LogFailure(NOT_AS_MADE)
    if thorough and file.stat().st_size <= CHECKED_BYTES:
        said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if said != "ok":
            raise LogFailure(str(said))


def _brought_to(connection: sqlite3.Connection, log: Facts, head: int) -> Views:
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.row_factory = sqlite3.Row
    with contextlib.closing(connection):
        connection.backup(copy)
    views = Views(copy, log)
    views.catch_up(upto=head)
    return views
