"""The event log: facts in streams, appended by several processes, never changed.

An application of the `eventsourcing` library on one SQLite database (the only module that imports
it), with what the library leaves open: positions that are never given twice, writers that wait for
each other, a digest chain, and subscriptions. Bodies and the positions reached in agents' log files
lie in the same database and move in the same transaction. What facts mean is not its business.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast
from uuid import UUID
from weakref import WeakSet

import msgspec
from eventsourcing.application import Application
from eventsourcing.domain import DomainEventProtocol, EventSourcingError
from eventsourcing.persistence import (
    InfrastructureFactory,
    IntegrityError,
    ListenNotifySubscription,
    Mapper,
    StoredEvent,
    Tracking,
)
from eventsourcing.sqlite import (
    SQLiteConnection,
    SQLiteConnectionPool,
    SQLiteCursor,
    SQLiteFactory,
    SQLiteProcessRecorder,
    SQLiteTransaction,
)
from eventsourcing.utils import Environment, EnvType

from recorder.errors import Conflict, IntegrityFailure, LogFailure
from recorder.eventlog import bodies as body_store
from recorder.eventlog import chain
from recorder.eventlog import reached as log_files
from recorder.eventlog.chain import (
    PAGE,
    Broken,
    Head,
    Walk,
    insert_facts,
    select_digest,
    select_head,
    select_page,
    select_version,
)
from recorder.eventlog.database import LOCK_TIMEOUT, address, meaning
from recorder.eventlog.mapper import Upcasts, decode, encode
from recorder.eventlog.reached import Reached
from recorder.events import Body, Fact
from recorder.home import Home, sync_folder

__all__ = ["Broken", "EventLog", "Head", "Reached", "Stored", "Subscription", "open_log"]

POLL = 0.05
"""Seconds between two looks for what other processes appended."""

WAL_LIMIT = 32 << 20
"""Bytes that the write-ahead log may keep on disk after a large transaction."""

_NO_UPCASTS: Upcasts = {}


class Stored(msgspec.Struct, frozen=True):
    """A fact and its position in the log: 1, 2, 3 … without a gap."""

    position: int
    fact: Fact


# ---- the library's extension points


class _Transaction(SQLiteTransaction):
    def __enter__(self) -> SQLiteCursor:
        """A writer takes the lock at once: one that first reads and then writes fails where another
        process wrote in between, instead of waiting for it."""
        cursor = self.connection.cursor()
        cursor.execute("BEGIN IMMEDIATE" if self.commit else "BEGIN")
        return cursor

    def __exit__(self, *error: Any) -> None:
        try:
            super().__exit__(*error)
        finally:
            self.connection.rollback()  # a commit that failed leaves the transaction open


class _Connection(SQLiteConnection):
    @contextlib.contextmanager
    def transaction(self, *, commit: bool) -> Iterator[SQLiteCursor]:
        with _Transaction(self, commit=commit) as cursor, cursor:
            yield cursor

    def data_version(self) -> int:
        """Changes when another connection commits."""
        return int(self._sqlite_conn.execute("PRAGMA data_version").fetchone()[0])


class _Pool(SQLiteConnectionPool):
    def get_connection(
        self, timeout: float | None = None, *, is_writer: bool | None = None
    ) -> SQLiteConnection:
        """The library does not give back the writer's turn where no connection came of it."""
        try:
            return super().get_connection(timeout, is_writer=is_writer)
        except sqlite3.Error:
            if is_writer:
                self._num_writers -= 1
                self._writer_lock.release()
            raise

    def _create_connection(self) -> SQLiteConnection:
        connection = sqlite3.connect(
            self.db_name,
            uri=True,
            timeout=LOCK_TIMEOUT,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=128,
        )
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT}")
        return _Connection(connection, max_age=None)


class _Recorder(SQLiteProcessRecorder):
    """Inserts facts, bodies and the position of a log file in one transaction."""

    def __init__(self, datastore: Any, **names: Any) -> None:
        super().__init__(datastore, **names)
        self.feeds: WeakSet[_Feed] = WeakSet()

    def construct_create_table_statements(self) -> list[str]:
        """Ours comes first, and the library's own for the same table then does nothing."""
        theirs = super().construct_create_table_statements()
        return [chain.TABLE, *theirs, body_store.TABLE, log_files.TABLE, log_files.INDEX]

    def insert_events(self, stored_events: Sequence[StoredEvent], **also: Any) -> Sequence[int] | None:
        positions = super().insert_events(stored_events, **also)
        for feed in tuple(self.feeds):
            feed.wake()
        return positions

    def _insert_events(
        self, c: SQLiteCursor, stored_events: Sequence[StoredEvent], **also: Any
    ) -> Sequence[int]:
        """The position goes first, so that a region read twice is told from a stream that moved."""
        if also["reached"] is not None:
            self._move(c, also["reached"])
        body_store.insert_bodies(c.sqlite_cursor, also["bodies"])
        return insert_facts(
            c.sqlite_cursor,
            (
                (cast(UUID, e.originator_id).hex, e.originator_version, e.topic, e.state)
                for e in stored_events
            ),
        )

    def _move(self, c: SQLiteCursor, reached: Reached) -> None:
        try:
            self._insert_tracking(c, Tracking(reached.generation, reached.offset))
        except IntegrityError as error:
            path = os.fsdecode(reached.path)
            raise Conflict(f"byte {reached.offset} of {path} is recorded already", code="position") from error
        log_files.put_file(c.sqlite_cursor, reached)

    def convert_originator_id(self, originator_id: str) -> UUID:
        try:
            return UUID(originator_id)
        except ValueError as error:
            raise IntegrityFailure(
                f"the event log holds a stream {originator_id!r}, which is none"
            ) from error

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> _Feed:
        feed = _Feed(self, gt=gt, topics=topics)
        self.feeds.add(feed)
        return feed


class _Feed(ListenNotifySubscription[_Recorder]):
    """The library's subscription, woken by this process's appends and by looking for others'."""

    def __init__(self, recorder: _Recorder, gt: int | None, topics: Sequence[str]) -> None:
        self._stopping = threading.Event()
        super().__init__(recorder, gt=gt, topics=topics)
        self._watch_thread = threading.Thread(target=self._watch)
        self._watch_thread.start()

    def wake(self) -> None:
        self._has_been_notified.set()

    def stop(self) -> None:
        super().stop()
        self._stopping.set()

    def end(self) -> None:
        self.stop()
        self._pull_thread.join()
        self._watch_thread.join()

    def _watch(self) -> None:
        try:
            with self._recorder.datastore.get_connection(commit=False) as connection:
                seen = None
                while not self._stopping.wait(POLL):
                    version = cast(_Connection, connection).data_version()
                    if version != seen:
                        self.wake()
                    seen = version
        except (EventSourcingError, sqlite3.Error) as error:
            self._thread_error = self._thread_error or error
            self.stop()


class _Mapper(Mapper[UUID]):
    def __init__(self, upcasts: Upcasts) -> None:
        self._upcasts = upcasts

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        topic, state = encode(cast(Fact, domain_event))
        return StoredEvent(domain_event.originator_id, domain_event.originator_version, topic, state)

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        stream = cast(UUID, stored_event.originator_id).hex
        return self.fact(stream, stored_event.originator_version, stored_event.topic, stored_event.state)

    def fact(self, stream: str, version: int, topic: str, state: bytes) -> Fact:
        return decode(topic, state, stream=stream, version=version, upcasts=self._upcasts)


class _Factory(SQLiteFactory):
    process_recorder_class = _Recorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        self.datastore.pool = _Pool(db_name=self.datastore.pool.db_name, pool_timeout=LOCK_TIMEOUT)


class _Application(Application[UUID]):
    name = "event log"

    def __init__(self, path: Path, upcasts: Upcasts, *, create: bool) -> None:
        self._upcasts = upcasts
        super().__init__({"SQLITE_DBNAME": address(path), "CREATE_TABLE": "yes" if create else "no"})

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        """Only what is given: the library would let `os.environ` point the log elsewhere."""
        return Environment(name, env)

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        return _Factory(env)

    def construct_mapper(self) -> _Mapper:
        return _Mapper(self._upcasts)

    def construct_recorder(self) -> _Recorder:
        return cast(_Recorder, self.factory.process_recorder())


# ---- the door


def open_log(home: Home, *, upcasts: Upcasts = _NO_UPCASTS) -> EventLog:
    """Open the home's event log, created where it is missing; for reading where it cannot be written.

    Raises LogFailure where it is not an event log, or can be neither opened nor created.
    """
    if not home.log.exists():
        _create(home)
    log = EventLog(home, upcasts)
    try:
        log.head()
    except LogFailure:
        log.close()
        raise
    return log


def _create(home: Home) -> None:
    """Made whole beside its place and moved there: processes that start at once see all of it or none."""
    fresh = home.log.with_name("log.db.new")
    with home.lock("home"), _failures(home.log):
        if home.log.exists():
            return
        if home.log.with_name("log.db-wal").exists():
            raise LogFailure(f"{home.log} is gone but its write-ahead log is there: restore both or neither")
        for suffix in ("", "-journal", "-wal", "-shm"):
            fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with _Application(fresh, {}, create=False) as application:
            recorder = application.construct_recorder()
            with recorder.datastore.get_connection(commit=False) as connection, connection.cursor() as cursor:
                cursor.execute("PRAGMA journal_mode=WAL")
            recorder.create_table()
        fresh.rename(home.log)
        sync_folder(home.folder)


@contextlib.contextmanager
def _failures(path: Path) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise Conflict(f"another writer appended first: {error}") from error
    except (EventSourcingError, sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise LogFailure(f"the event log {path} cannot be used: {meaning(error)}") from error


class EventLog:
    """The log of one home. Safe for several threads; close it, or use it as a context manager.

    Every method raises LogFailure where the database cannot be read or written.
    """

    def __init__(self, home: Home, upcasts: Upcasts) -> None:
        self._path = home.log
        self._secret = home.secret()
        self._application = _Application(home.log, upcasts, create=False)
        self._recorder = cast(_Recorder, self._application.recorder)
        self._mapper = cast(_Mapper, self._application.mapper)

    def close(self) -> None:
        """Ends its subscriptions too."""
        for feed in tuple(self._recorder.feeds):
            feed.end()
        self._application.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- writing

    def append(
        self,
        facts: Sequence[Fact],
        *,
        bodies: Sequence[tuple[Body, bytes]] = (),
        reached: Reached | None = None,
    ) -> list[int]:
        """Append facts, their bodies and the position of the log file they came from, all or nothing.

        Each fact's version is the next of its stream. Returns the positions; they are on disk then.
        Raises Conflict: with the code `position` where the log file's generation was read as far
        already, with `conflict` where another writer appended to a stream first.
        """
        events = list(map(self._mapper.to_stored_event, facts))
        with _failures(self._path):
            return list(self._recorder.insert_events(events, bodies=bodies, reached=reached) or ())

    # ---- facts

    def read(self, *, after: int = 0, upto: int | None = None, limit: int = PAGE) -> list[Stored]:
        """At most `limit` facts behind position `after`, up to and with `upto`, in log order."""
        with self._reading() as cursor:
            rows = select_page(cursor, after, upto, limit)
        fact = self._mapper.fact
        return [Stored(row[0], fact(row[1], row[2], row[3], row[4])) for row in rows]

    def stream(self, stream: UUID, *, after: int = 0) -> Iterator[Fact]:
        """A stream's facts behind version `after`, read in pages as they are asked for."""
        while True:
            with _failures(self._path):
                page = self._recorder.select_events(stream, gt=after, limit=PAGE)
            yield from map(self._mapper.to_domain_event, page)
            if len(page) < PAGE:
                return
            after = page[-1].originator_version

    def version(self, stream: UUID) -> int:
        """The newest version of a stream, 0 where it has none."""
        with self._reading() as cursor:
            return select_version(cursor, stream.hex)

    def subscribe(self, *, after: int) -> Subscription:
        """The facts behind position `after` and then new ones, of this process and of others."""
        return Subscription(self, after)

    # ---- the positions of agents' log files

    def reached(self, generation: str) -> Reached | None:
        with self._reading() as cursor:
            return log_files.select_generation(cursor, generation)

    def all_reached(self) -> list[Reached]:
        with self._reading() as cursor:
            return log_files.select_all(cursor)

    # ---- bodies

    def body_of(self, content: bytes) -> Body:
        """How a fact refers to this content; `append` stores it."""
        return body_store.body_of(self._secret, content)

    def body(self, digest: str) -> bytes:
        """A stored body. Raises NotFound where it is not there, IntegrityFailure where it was changed."""
        with self._reading() as cursor:
            return body_store.select_body(cursor, self._secret, digest)

    # ---- tamper evidence

    def head(self) -> Head:
        with self._reading() as cursor:
            return select_head(cursor)

    def digest_at(self, position: int) -> str | None:
        """The chain's digest (hex) at a position, which stands for all facts up to it; None where the log
        has no fact there."""
        with self._reading() as cursor:
            return select_digest(cursor, position)

    def check(self, *, after: int = 0) -> Iterator[Broken]:
        """Walk the chain over the stored bytes, whole or behind position `after`, and tell every place that
        is not as appended."""
        walk = Walk()
        while not walk.ended:
            try:
                with self._reading() as cursor:
                    if walk.position < after:
                        walk.skip(cursor, after)
                        after = 0
                    page = walk.page(cursor)
            except LogFailure as error:
                yield Broken(walk.position + 1, "", 0, error.message)
                return
            yield from page

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Cursor]:
        with _failures(self._path), self._recorder.datastore.transaction(commit=False) as cursor:
            cursor.sqlite_cursor.row_factory = None
            yield cursor.sqlite_cursor


class Subscription:
    """Iterate over it inside its `with`; `stop`, from any thread, ends the iteration."""

    def __init__(self, log: EventLog, after: int) -> None:
        self._log = log
        self._after = after
        self._feed: _Feed | None = None

    def __enter__(self) -> Self:
        self._feed = self._log._recorder.subscribe(self._after)
        return self

    def __exit__(self, *_: object) -> None:
        if self._feed is not None:
            self._feed.end()

    def __iter__(self) -> Iterator[Stored]:
        return self

    def __next__(self) -> Stored:
        if self._feed is None:
            raise StopIteration
        with _failures(self._log._path):
            notification = next(self._feed)
        return Stored(int(notification.id), self._log._mapper.to_domain_event(notification))

    def stop(self) -> None:
        if self._feed is not None:
            self._feed.stop()
