"""The table of stored facts and the digest chain through it.

Each row's digest covers its bytes and the digest before it. That finds any changed, removed, swapped
or inserted row; a cut tail is found by the database's own count of the positions it gave, a log
rewritten as a whole only against a head that was written down elsewhere.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

import msgspec

from recorder.errors import Conflict

TABLE = """
CREATE TABLE IF NOT EXISTS stored_events (
    rowid INTEGER PRIMARY KEY AUTOINCREMENT,
    originator_id TEXT NOT NULL,
    originator_version INTEGER NOT NULL,
    topic TEXT NOT NULL,
    state BLOB NOT NULL,
    digest BLOB NOT NULL,
    UNIQUE (originator_id, originator_version)
)
"""
"""The columns are named as the event store's library reads them; `rowid` is the position."""

GENESIS = hashlib.sha256(b"agent-recorder event log, digest chain 1").digest()
"""Stands for the digest before position 1."""

TYPES = "text integer text blob blob"
"""The storage classes of a row that nobody tampered with."""

PAGE = 500
"""Rows read at once: larger pages are slower."""

_FRAME = Struct(">QQIII")

_GIVEN = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name='stored_events'), 0)"

_NEWEST = "SELECT rowid, digest FROM stored_events ORDER BY rowid DESC LIMIT 1"

_NEWEST_UPTO = "SELECT rowid, digest FROM stored_events WHERE rowid <= ? ORDER BY rowid DESC LIMIT 1"

_DIGEST = "SELECT digest FROM stored_events WHERE rowid = ?"

_VERSION = "SELECT coalesce(max(originator_version), 0) FROM stored_events WHERE originator_id=?"

_INSERT = "INSERT INTO stored_events VALUES (?,?,?,?,?,?)"

_PAGE = """
SELECT rowid, originator_id, originator_version, topic, state FROM stored_events
WHERE rowid > ? AND rowid <= coalesce(?, rowid) ORDER BY rowid LIMIT ?
"""

_AS_THEY_LIE = """
SELECT rowid, CAST(originator_id AS BLOB), originator_version, CAST(topic AS BLOB), state, digest,
    typeof(originator_id) || ' ' || typeof(originator_version) || ' ' || typeof(topic)
    || ' ' || typeof(state) || ' ' || typeof(digest)
FROM stored_events WHERE rowid > ? ORDER BY rowid LIMIT ?
"""


class Head(msgspec.Struct, frozen=True):
    """The newest position (0 in an empty log) and its digest (hex)."""

    position: int
    digest: str


class Broken(msgspec.Struct, frozen=True):
    """A place where the log is not what was appended. `stream` is a hex id, empty (and `version` 0)
    where no row is left to say it."""

    position: int
    stream: str
    version: int
    why: str


class Row(NamedTuple):
    """A row as it lies in the database: texts as their bytes, `types` as SQLite names them."""

    position: int
    stream: bytes
    version: int
    topic: bytes
    state: bytes
    digest: bytes
    types: str


def link(previous: bytes, position: int, stream: bytes, version: int, topic: bytes, state: bytes) -> bytes:
    """SHA-256 of: previous digest (32 bytes); position and version (8 bytes each, big-endian); the
    lengths of stream, topic and state (4 bytes each); stream (32 hex digits), topic, state."""
    frame = _FRAME.pack(position, version, len(stream), len(topic), len(state))
    return hashlib.sha256(b"".join((previous, frame, stream, topic, state))).digest()


def insert_facts(cursor: sqlite3.Cursor, facts: Iterable[tuple[str, int, str, bytes]]) -> range:
    """Insert (stream as hex, version, topic, state) in the caller's transaction, which must hold the
    write lock; returns the positions. Raises Conflict where a version is not the next of its stream."""
    given = cursor.execute(_GIVEN).fetchone()[0]
    newest, digest = _newest(cursor)
    first = position = max(given, newest) + 1
    versions: dict[str, int] = {}
    rows = []
    for stream, version, topic, state in facts:
        expected = (versions.get(stream) or select_version(cursor, stream)) + 1
        if version != expected:
            raise _moved(stream, version, expected)
        digest = link(digest, position, stream.encode(), version, topic.encode(), state)
        rows.append((position, stream, version, topic, state, digest))
        versions[stream] = version
        position += 1
    cursor.executemany(_INSERT, rows)
    return range(first, position)


def _moved(stream: str, version: int, expected: int) -> Conflict:
    return Conflict(
        f"another writer appended first: stream {stream} goes on with version {expected}, not {version}",
        stream=stream,
        version=version,
        expected=expected,
    )


def select_page(
    cursor: sqlite3.Cursor, after: int, upto: int | None, limit: int
) -> list[tuple[int, str, int, str, bytes]]:
    """Position, stream, version, topic and state of the rows behind position `after`, up to `upto`."""
    return cursor.execute(_PAGE, (after, upto, limit)).fetchall()


def select_version(cursor: sqlite3.Cursor, stream: str) -> int:
    """The newest version of a stream, 0 where it has none."""
    return int(cursor.execute(_VERSION, (stream,)).fetchone()[0])


def select_head(cursor: sqlite3.Cursor) -> Head:
    position, digest = _newest(cursor)
    return Head(position, digest.hex())


def select_digest(cursor: sqlite3.Cursor, position: int) -> str | None:
    """The digest (hex) of the row at a position; None where there is no row, or none with a digest."""
    row = cursor.execute(_DIGEST, (position,)).fetchone()
    return row[0].hex() if row is not None and isinstance(row[0], bytes) else None


def _newest(cursor: sqlite3.Cursor) -> tuple[int, bytes]:
    position, digest = cursor.execute(_NEWEST).fetchone() or (0, GENESIS)
    return position, digest


class Walk:
    """One pass over the chain, a page at a time, from its beginning on or from behind a position, whose own
    digest is then believed."""

    def __init__(self) -> None:
        self.position = 0
        self.ended = False
        self._digest = GENESIS

    def skip(self, cursor: sqlite3.Cursor, upto: int) -> None:
        """Begin behind the newest row up to this position."""
        self.position, digest = cursor.execute(_NEWEST_UPTO, (upto,)).fetchone() or (0, GENESIS)
        self._digest = digest if isinstance(digest, bytes) else b""

    def page(self, cursor: sqlite3.Cursor) -> list[Broken]:
        """Check the next rows; `ended` is set when there were none."""
        rows = [Row(*row) for row in cursor.execute(_AS_THEY_LIE, (self.position, PAGE))]
        if rows:
            return [broken for row in rows for broken in self._over(row)]
        self.ended = True
        given = cursor.execute(_GIVEN).fetchone()[0]
        return [self._missing(upto=given)] if given > self.position else []

    def _over(self, row: Row) -> Iterator[Broken]:
        if row.position != self.position + 1:
            yield self._missing(upto=row.position - 1)
        why = self._fault(row)
        if why is not None:
            version = row.version if isinstance(row.version, int) else 0
            yield Broken(row.position, _text(row.stream), version, why)
        self.position = row.position
        self._digest = row.digest if isinstance(row.digest, bytes) else b""

    def _missing(self, *, upto: int) -> Broken:
        first = self.position + 1
        what = f"position {first} is" if upto <= first else f"positions {first} to {upto} are"
        return Broken(first, "", 0, f"{what} missing")

    def _fault(self, row: Row) -> str | None:
        if row.types != TYPES:
            return f"its columns are {row.types}, not {TYPES}"
        if row.position < 1 or row.version < 1:
            return "its position or version is not a counting number"
        if row.digest != link(self._digest, row.position, row.stream, row.version, row.topic, row.state):
            return "its digest does not fit its bytes and the digest before it"
        return None


def _text(stream: object) -> str:
    return stream.decode("utf-8", "replace") if isinstance(stream, bytes) else ""
