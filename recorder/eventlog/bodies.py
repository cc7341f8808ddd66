"""The bodies that facts refer to: prompts, answers, tool output, stored once each beside the log.

A body is known by a keyed digest, so that nobody without the home's secret can tell from the log
whether it held a given text. Large ones are stored in parts, so that memory stays bounded.
"""

from __future__ import annotations

import hmac
import io
import sqlite3
from collections.abc import Iterable, Iterator

import zstandard

from recorder.errors import IntegrityFailure, NotFound
from recorder.events import Body

TABLE = """
CREATE TABLE IF NOT EXISTS bodies (
    digest BLOB NOT NULL,
    part INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    content BLOB NOT NULL,
    UNIQUE (digest, part)
)
"""

PART = 1 << 20
"""Bytes of a body in one row, before compression."""

LEVEL = 1
"""On agents' logs and source code, level 3 is 1 to 8 % smaller and takes 15 to 40 % more time."""


_SELECT = "SELECT packed, content FROM bodies WHERE digest=? ORDER BY part"


def body_of(secret: bytes, content: bytes) -> Body:
    return Body(_digest(secret, content).hex(), len(content))


def _digest(secret: bytes, content: bytes | memoryview) -> bytes:
    return hmac.digest(secret, content, "sha256")


def insert_bodies(cursor: sqlite3.Cursor, bodies: Iterable[tuple[Body, bytes]]) -> None:
    """Store those that are not there yet, inside the caller's transaction."""
    missing = {}
    for body, content in bodies:
        digest = bytes.fromhex(body.digest)
        if digest not in missing and not _stored(cursor, digest):
            missing[digest] = content
    if missing:
        cursor.executemany("INSERT INTO bodies VALUES (?,?,?,?)", _rows(missing))


def _stored(cursor: sqlite3.Cursor, digest: bytes) -> bool:
    found = cursor.execute("SELECT 1 FROM bodies WHERE digest=? AND part=0", (digest,))
    return found.fetchone() is not None


def _rows(bodies: dict[bytes, bytes]) -> Iterator[tuple[bytes, int, bool, bytes | memoryview]]:
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    for digest, content in bodies.items():
        view = memoryview(content)
        for part, start in enumerate(range(0, max(len(view), 1), PART)):
            plain = view[start : start + PART]
            packed = compressor.compress(plain)
            if len(packed) < len(plain):
                yield digest, part, True, packed
            else:
                yield digest, part, False, plain


def select_body(cursor: sqlite3.Cursor, secret: bytes, digest: str) -> bytes:
    """The content. Raises NotFound where it is not stored, IntegrityFailure where it is not itself."""
    content = io.BytesIO()
    rows = cursor.execute(_SELECT, (_key(digest),))
    try:
        parts = _unpack_into(content, rows)
    except zstandard.ZstdError as error:
        raise _damaged(digest) from error
    if not parts:
        raise _missing(digest)
    if not hmac.compare_digest(_digest(secret, content.getbuffer()), _key(digest)):
        raise _damaged(digest)
    return content.getvalue()


def _unpack_into(content: io.BytesIO, rows: Iterable[tuple[bool, bytes]]) -> int:
    decompressor = zstandard.ZstdDecompressor()
    parts = 0
    for packed, stored in rows:
        content.write(decompressor.decompress(stored, max_output_size=PART) if packed else stored)
        parts += 1
    return parts


def _key(digest: str) -> bytes:
    try:
        return bytes.fromhex(digest)
    except ValueError:
        raise _missing(digest) from None


def _missing(digest: str) -> NotFound:
    return NotFound(f"the body {digest} is not stored: it was forgotten, or never there", digest=digest)


def _damaged(digest: str) -> IntegrityFailure:
    return IntegrityFailure(f"the stored body {digest} is not what was stored", digest=digest)
