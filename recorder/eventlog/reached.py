"""How far each log file of an agent has been read, as it is kept beside the facts that came of it.

The offset itself is in the event store's tracking table, under the generation's name; here are the
path and the bytes by which a file is recognised.
"""

from __future__ import annotations

import sqlite3

import msgspec

TABLE = """
CREATE TABLE IF NOT EXISTS log_files (
    seen INTEGER PRIMARY KEY,
    generation TEXT NOT NULL UNIQUE,
    path BLOB NOT NULL,
    tail BLOB NOT NULL
)
"""

INDEX = "CREATE INDEX IF NOT EXISTS log_files_by_path ON log_files (path)"

_SELECT = """
SELECT generation, notification_id, path, tail
FROM log_files JOIN tracking ON application_name = generation
"""


class Reached(msgspec.Struct, frozen=True):
    """`generation` identifies the file and its incarnation: a rewritten or truncated file is a new one.
    `offset` counts the bytes consumed and is always just after a newline; `tail` is the last (at most
    64) bytes before it, to recognise a rewrite in place."""

    generation: str
    offset: int
    path: bytes
    tail: bytes


def put_file(cursor: sqlite3.Cursor, reached: Reached) -> None:
    cursor.execute(
        "INSERT INTO log_files (generation, path, tail) VALUES (?,?,?)"
        " ON CONFLICT (generation) DO UPDATE SET path=excluded.path, tail=excluded.tail",
        (reached.generation, reached.path, reached.tail),
    )


def select_generation(cursor: sqlite3.Cursor, generation: str) -> Reached | None:
    row = cursor.execute(_SELECT + "WHERE generation=?", (generation,)).fetchone()
    return None if row is None else Reached(*row)


def select_all(cursor: sqlite3.Cursor) -> list[Reached]:
    return [Reached(*row) for row in cursor.execute(_SELECT + "ORDER BY seen DESC")]
