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

from recorder.errors import LogFailure
from recorder.events import Fact
from recorder.home import Home
from recorder.log import Stored

Fold = Callable[[sqlite3.Connection, int, Fact], None]
PAGE = 500


class Projection(NamedTuple):
    """One family of tables: its DDL, and what each type of fact does to them."""

    name: str
    schema: str
    folds: Mapping[type[Fact], Fold]


class Facts(Protocol):
    """What the views need of the event log."""

    def read(self, *, after: int = 0, upto: int | None = None, limit: int = 500) -> list[Stored]: ...


VERSION = 9
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


class Views:
    """An open views database. Queries go through `connection`; `catch_up` folds what is new.

    Raises LogFailure where SQLite cannot read or write it.
    """

    def __init__(self, connection: sqlite3.Connection, log: Facts) -> None:
        self.connection = connection
        self._log = log
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
        """Fold everything that the log has and the views have not; returns the position reached."""
        while True:
            with _transaction(self.connection):
                position = _position(self.connection)
                page = self._log.read(after=position, upto=upto, limit=PAGE)
                for stored in page:
                    fold_each = self._folds.get(type(stored.fact), ())
                    for fold in fold_each:
                        fold(self.connection, stored.position, stored.fact)
                if page:
                    position = page[-1].position
                    self.connection.execute("UPDATE folded SET position = ?", (position,))
            if progress is not None:
                progress(position)
            if len(page) < PAGE:
                return position


def open_views(home: Home, log: Facts) -> Views:
    """The home's views, caught up with the log; folded anew where an older version made them."""
    try:
        connection = _connect(home.views)
        home.views.chmod(0o600)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            _create(connection)
        views = Views(connection, log)
        if version not in (0, VERSION):
            rebuild(views)
        views.catch_up()
    except sqlite3.OperationalError as error:
        if "readonly" in str(error) or "unable to open" in str(error):
            return views_as_of(log, None)
        raise LogFailure(f"the views in {home.views} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise LogFailure(
            f"the views in {home.views} are damaged ({error}); remove that file, they are folded anew"
        ) from error
    return views


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
    connection.execute("CREATE TABLE folded (position INTEGER NOT NULL)")
    connection.execute("INSERT INTO folded VALUES (0)")
    for projection in projections():
        for statement in filter(str.strip, projection.schema.split(";")):
            connection.execute(statement)


def _tables(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return [row["name"] for row in rows]


def _position(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT position FROM folded").fetchone()[0])


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Raises LogFailure where there is no room for it; one that is for reading only stays SQLite's error."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite ends it by itself where the disk is full
                connection.execute("ROLLBACK")
            raise
    except sqlite3.OperationalError as error:
        if "readonly" in str(error) or "unable to open" in str(error):
            raise
        raise LogFailure(f"the views cannot be written: {error}") from error
