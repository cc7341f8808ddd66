"""The views: tables folded from the event log, with their position, in one database of the home.

A view is never written but by a fold, so it can always be folded anew, and as of any position. This
module owns the database and the folding; what is folded and asked stands in its sister modules.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from recorder.errors import IntegrityFailure, LogFailure
from recorder.eventlog.database import meaning
from recorder.events import Fact
from recorder.home import Home
from recorder.log import Stored

Fold = Callable[[sqlite3.Connection, int, Fact], None]
Tell = Callable[[str], None]
PAGE = 500

OF_ANOTHER_LOG = (
    "the views are of another event log than the one that is there (it was put back from an older copy, or "
    "made anew); they are folded anew from it"
)

_FOLDED = "CREATE TABLE folded (position INTEGER NOT NULL, digest TEXT NOT NULL)"
"""One row: the views' position, and the digest of the log's chain there, which tells one log from another."""

NOT_AS_MADE = "their tables are not as they were made"

_NO_DAMAGE = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""SQLite's codes of what keeps whole views from being used."""


class Projection(NamedTuple):
    """One family of tables: its DDL, and what each type of fact does to them."""

    name: str
    schema: str
    folds: Mapping[type[Fact], Fold]


class Facts(Protocol):
    """What the views need of the event log."""

    def read(self, *, after: int = 0, upto: int | None = None, limit: int = 500) -> list[Stored]: ...

    def digest_at(self, position: int) -> str | None: ...


VERSION = 10
"""Of all tables together: another number in the database means that they are folded anew."""


def projections() -> tuple[Projection, ...]:
    """Every projection, in the order in which each fact is folded into them."""
    from projections import changes, checkpoints, conversation, operations, steps

    return (
        conversation.PROJECTION,
        changes.PROJECTION,
        operations.PROJECTION,
        checkpoints.PROJECTION,
        steps.PROJECTION,
    )


def _in_silence(_: str) -> None:
    pass


class Views:
    """An open views database. Queries go through `connection`; `catch_up` folds what is new.

    Raises LogFailure where SQLite cannot read or write it, IntegrityFailure where it is damaged.
    """

    def __init__(self, connection: sqlite3.Connection, log: Facts, tell: Tell = _in_silence) -> None:
        self.connection = connection
        self._log = log
        self._tell = tell
        self._folds = _folds_by_type()

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Views:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def position(self) -> int:
        return _position(self.connection)

    def catch_up(self, *, upto: int | None = None, progress: Callable[[int], None] | None = None) -> int:
        """Fold everything that the log has and the views have not; returns the position reached.

        Views of another log are folded anew first.
        """
        while True:
            with _transaction(self.connection):
                ours = belong_to(self.connection, self._log)
                position = _position(self.connection) if ours else 0
                page = self._log.read(after=position, upto=upto, limit=PAGE) if ours else []
                for stored in page:
                    fold_each = self._folds.get(type(stored.fact), ())
                    for fold in fold_each:
                        fold(self.connection, stored.position, stored.fact)
                if page:
                    position = page[-1].position
                    self.connection.execute(
                        "UPDATE folded SET position = ?, digest = ?",
                        (position, self._log.digest_at(position) or ""),
                    )
            if not ours:
                self._tell(OF_ANOTHER_LOG)
                rebuild(self)
                continue
            if progress is not None:
                progress(position)
            if len(page) < PAGE:
                return position


def open_views(home: Home, log: Facts, *, tell: Tell = _in_silence) -> Views:
    """The home's views, caught up with the log; folded anew where an older version made them, or where they
    are of another log, which `tell` is then told. Raises LogFailure, and IntegrityFailure for damage."""
    try:
        connection = _connect(home.views)
        home.views.chmod(0o600)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            _create(connection)
        views = Views(connection, log, tell)
        if version not in (0, VERSION):
            rebuild(views)
        elif not as_made(connection):
            raise sqlite3.DatabaseError(NOT_AS_MADE)
        views.catch_up()
    except sqlite3.DatabaseError as error:
        if _cannot_write(error):
            return views_as_of(log, None)
        raise failure_of(error) from error
    return views


def remove(home: Home) -> None:
    """The views' files go, damaged or not; whoever opens views next folds them anew."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        home.views.with_name(home.views.name + suffix).unlink(missing_ok=True)


def belong_to(connection: sqlite3.Connection, log: Facts) -> bool:
    """Whether the log has, at the views' position, what was folded there: a log that was put back from an
    older copy, or made anew, may have grown past that position with other facts."""
    row = connection.execute("SELECT position, digest FROM folded").fetchone()
    if row is None:
        return False
    position, digest = row
    return bool(position == 0 or (log.digest_at(position) or "") == digest)


def failure_of(error: sqlite3.Error) -> LogFailure | IntegrityFailure:
    """What an error of the views' database means for who asked; code `views_damaged` for damage."""
    if _primary_code(error) not in _NO_DAMAGE:
        return IntegrityFailure(
            f"the views are damaged ({error}); “recorder rebuild” makes them anew from the log",
            code="views_damaged",
        )
    return LogFailure(f"the views cannot be used: {meaning(error)}")


def _primary_code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _cannot_write(error: sqlite3.Error) -> bool:
    return _primary_code(error) in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)


def views_as_of(log: Facts, position: int | None) -> Views:
    """The views as they stood at a position of the log, in memory."""
    connection = _connect(":memory:")
    _create(connection)
    views = Views(connection, log)
    views.catch_up(upto=position)
    return views


def rebuild(views: Views, progress: Callable[[int], None] | None = None) -> int:
    """Fold everything anew beside the live tables, then put it in their place in one transaction.

    Returns the position reached. A kill at any moment leaves the old tables or the new ones.
    """
    live = views.connection
    with contextlib.closing(_connect(":memory:" if _is_memory(live) else _scratch(live))) as fresh:
        _create(fresh)
        position = Views(fresh, views._log).catch_up(progress=progress)
        rows = {table: fresh.execute(f"SELECT * FROM {table}") for table in _tables(fresh)}
        with _transaction(live):
            for table in _tables(live):
                live.execute(f"DROP TABLE {table}")
            _run_schema(live)
            live.execute("DELETE FROM folded")
            for table, cursor in rows.items():
                marks = ",".join("?" * len(cursor.description))
                live.executemany(f"INSERT INTO {table} VALUES ({marks})", cursor)
            live.execute(f"PRAGMA user_version = {VERSION}")
    return position


def _folds_by_type() -> dict[type[Fact], tuple[Fold, ...]]:
    by_type: dict[type[Fact], tuple[Fold, ...]] = {}
    for projection in projections():
        for fact_type, fold in projection.folds.items():
            by_type[fact_type] = (*by_type.get(fact_type, ()), fold)
    return by_type


def _connect(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    return connection


def _is_memory(connection: sqlite3.Connection) -> bool:
    return not connection.execute("PRAGMA database_list").fetchone()["file"]


def _scratch(connection: sqlite3.Connection) -> str:
    """A private temporary database, which SQLite spills to disk and removes by itself."""
    return ""


def _create(connection: sqlite3.Connection) -> None:
    with _transaction(connection):
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
            _run_schema(connection)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _run_schema(connection: sqlite3.Connection) -> None:
    for statement in _statements():
        connection.execute(statement)
    connection.execute("INSERT INTO folded VALUES (0, '')")


def _statements() -> list[str]:
    theirs = ";".join(projection.schema for projection in projections()).split(";")
    return [_FOLDED, *filter(None, map(str.strip, theirs))]


def as_made(connection: sqlite3.Connection) -> bool:
    """Whether the database keeps the text of every table and index as it was given."""
    kept = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
    return sorted(row[0] for row in kept) == sorted(_statements())


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [row["name"] for row in rows]


def _position(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT position FROM folded").fetchone()[0])


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Raises LogFailure where there is no room for it, IntegrityFailure where the views are damaged; a
    database that is for reading only stays SQLite's error."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite ends it by itself where the disk is full
                connection.execute("ROLLBACK")
            raise
    except sqlite3.DatabaseError as error:
        if _cannot_write(error) or isinstance(error, sqlite3.ProgrammingError):
            raise
        raise failure_of(error) from error
