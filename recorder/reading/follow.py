"""Follows all logs at once: finds them, reads what is new in each, and hands it on piece by piece.

What was read earlier is taken from the event log's positions, so that a start opens only files that
changed. A log being written comes before one that is only caught up with. Nothing is stored here.
"""

from __future__ import annotations

import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from recorder.reading.folders import Folders
from recorder.reading.logfile import LogFile, NotALog, log_file
from recorder.reading.tail import Lines, Opened, Positions, opened, unchanged_since
from recorder.sources.base import Root, Source

OPEN_LOGS = 512
"""Logs whose reader is kept; one that is let go has to be read again from its start when it grows."""

BACKLOG = 4 << 20
"""With more unread bytes than this a log is caught up with, when no other has news."""

Piece = tuple[LogFile, Lines] | NotALog

_Signature = tuple[int, int, int]


def all_roots(
    sources: Sequence[Source], environment: Mapping[str, str], home: Path, paths: Sequence[Path] = ()
) -> list[Root]:
    """Where to look: the files and folders given, else the folders of all agents."""
    if paths:
        return [Root(path, "*.jsonl") for path in paths]
    return [root for source in sources for root in source.roots(environment, home)]


class Follower:
    """Call `poll` for what is new and then `wait`, over and over. `ready` is set when everything that was
    there at the start has been handed on; `bytes_read` counts what was read of all files."""

    def __init__(
        self,
        sources: Sequence[Source],
        positions: Positions,
        roots: Sequence[Root],
        *,
        notify: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ready = False
        self.bytes_read = 0
        self._sources = sources
        self._positions = positions
        self._folders = Folders(roots, notify=notify, clock=clock)
        self._folders.lost = True
        self._files: OrderedDict[tuple[int, int], LogFile] = OrderedDict()
        self._seen: dict[str, _Signature] = {}
        self._fresh: dict[str, None] = {}
        self._backlog: dict[str, None] = {}
        self._told: set[str] = set()
        self._scanned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._folders.close()

    def wait(self, timeout: float | None = None) -> None:
        """Return when there may be news, after `timeout` seconds, or when woken."""
        if not self._fresh and not self._backlog:
            self._folders.wait(timeout)

    def wake(self) -> None:
        """End a `wait`, from any thread or a signal handler."""
        self._folders.wake()

    def poll(self) -> Iterator[Piece]:
        """Hand on all news. A piece counts as taken when the next one is asked for: where the caller
        fails before, a later `poll` gives it again."""
        yield from self._poll_fresh()
        while self._backlog:
            path, _ = self._backlog.popitem()
            for piece in self._read(path, live=False, whole=True):
                yield piece
                yield from self._poll_fresh(busy=path)
            yield from self._poll_fresh()
        self.ready = True

    def read(self, path: str) -> Iterator[Piece]:
        """Hand on the news of one log at once, also of one in a folder that is not followed; nothing where
        there is none yet."""
        self._fresh.pop(path, None)
        yield from self._read(path, live=path not in self._backlog)

    def _poll_fresh(self, busy: str | None = None) -> Iterator[Piece]:
        """News of every log but the one that is being caught up with."""
        self._look()
        for folder, why in self._folders.unreadable.items():
            yield from self._tell(NotALog(folder, why))
        while path := next((path for path in self._fresh if path != busy), None):
            del self._fresh[path]
            yield from self._read(path, live=path not in self._backlog)
            self._look()

    def _look(self) -> None:
        self._fresh.update(dict.fromkeys(self._folders.changed()))
        if self._folders.lost:
            self._scan()

    def _scan(self) -> None:
        """Find what changed by size and time. The first time that is against the log's positions, and
        what has news is only caught up with, the newest first."""
        found = self._folders.scan()
        read_whole = set() if self._scanned else unchanged_since(self._positions)
        news = self._fresh if self._scanned else self._backlog
        for path, status in sorted(found.items(), key=lambda each: each[1].st_mtime_ns):
            signature = status.st_ino, status.st_size, status.st_mtime_ns
            if signature in read_whole:
                self._seen[path] = signature
            elif stat.S_ISREG(status.st_mode) and status.st_size and self._seen.get(path) != signature:
                news[path] = None
        self._scanned = True

    def _read(self, path: str, *, live: bool, whole: bool = False) -> Iterator[Piece]:
        """The news of one log; put off where it is much, unless it is asked for as a `whole`."""
        done = False
        try:
            with opened(path) as content:
                self._seen[path] = content.inode, content.size, content.written_at
                file = self._file(path, content)
                if file is not None and not whole and content.size - file.tail.offset > BACKLOG:
                    self._backlog[path] = None
                elif file is not None:
                    self._backlog.pop(path, None)
                    yield from ((file, lines) for lines in file.read(content, live=live))
                    if file.refused is not None:
                        yield from self._tell(file.refused)
                self.bytes_read += content.bytes_read
            done = True
        except FileNotFoundError:
            done = True
        except OSError as error:
            done = True
            yield from self._tell(NotALog(path, f"{path} cannot be read: {error.strerror}"))
        finally:
            if not done:
                (self._fresh if live else self._backlog)[path] = None

    def _file(self, path: str, content: Opened) -> LogFile | None:
        """The log at a path, known by its inode where it was renamed, anew where it was rewritten; None
        where nothing can be read of it."""
        key = content.device, content.inode
        file = self._files.get(key)
        if file is None or not file.tail.holds(content):
            file = log_file(path, content, self._positions, self._sources)
            if file is None:
                return None
            self._files[key] = file
        elif file.path != path and not _is_at(file.path, key):
            file.tail.path = path
        self._files.move_to_end(key)
        if len(self._files) > OPEN_LOGS:
            self._files.popitem(last=False)
        return None if file.refused is not None else file

    def _tell(self, notice: NotALog) -> Iterator[NotALog]:
        """Once for each file and reason."""
        if notice.why not in self._told:
            self._told.add(notice.why)
            yield notice


def _is_at(path: str, key: tuple[int, int]) -> bool:
    """Whether a file is still there under another name too: a link, not a rename."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == key
