"""What SQLite's errors mean for a person, and how a database file is named to it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

LOCK_TIMEOUT = 30
"""Seconds that a writer waits for another process."""

_MEANINGS = {
    "SQLITE_FULL": "there is no room left on its disk",
    "SQLITE_READONLY": "it is not writable",
    "SQLITE_CANTOPEN": "it cannot be opened",
    "SQLITE_PERM": "access to it is denied",
    "SQLITE_AUTH": "access to it is denied",
    "SQLITE_NOTADB": "it is not a database",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_BUSY": f"another process has held it for {LOCK_TIMEOUT} seconds",
    "SQLITE_LOCKED": f"another process has held it for {LOCK_TIMEOUT} seconds",
    "SQLITE_TOOBIG": "a value is too large for it",
}


def address(path: Path) -> str:
    """The URI by which to open a database file, for reading only where it cannot be written.

    SQLite reads a write-ahead log only where it can write beside it or finds its index there. Where
    there is no such log nothing is missing from the file, and it may be read as it is.
    """
    where = path.absolute().as_uri()
    if writable(path) and writable(path.parent):
        return f"{where}?mode=rw"
    if writable(path.parent) or path.with_name(f"{path.name}-wal").exists():
        return f"{where}?mode=ro"
    return f"{where}?mode=ro&immutable=1"


def writable(path: Path) -> bool:
    return os.access(path, os.W_OK)


def meaning(error: BaseException) -> str:
    """Why a database did not do what it was asked, as the end of a sentence."""
    if isinstance(error, UnicodeDecodeError):  # sqlite3 could not even decode SQLite's message of it
        return _MEANINGS["SQLITE_CORRUPT"]
    cause = _sqlite_error(error)
    if cause is None:
        return str(error) or type(error).__name__
    name: str = getattr(cause, "sqlite_errorname", "")
    known = next((text for prefix, text in _MEANINGS.items() if name.startswith(prefix)), None)
    if str(cause).startswith("no such"):
        return f"it is another database ({cause})"
    return known or str(cause)


def _sqlite_error(error: BaseException | None) -> sqlite3.Error | None:
    while error is not None and not isinstance(error, sqlite3.Error):
        error = error.__cause__
    return error
