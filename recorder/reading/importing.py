"""Whole histories: every log below some paths, read once from start to end into the event log.

Safe to repeat and to go on with after a kill: what is recorded is not read as news again, only counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from recorder.log import EventLog
from recorder.reading.decision import Counts
from recorder.reading.ingest import Ingest
from recorder.reading.logfile import LogFile, log_file
from recorder.reading.tail import Opened, opened
from recorder.sources.base import Source

SUFFIX = ".jsonl"
"""Files that are looked at in a folder; a file named by hand may have any name."""


class FileReport(msgspec.Struct, frozen=True):
    """One file. `path` is raw bytes; `waiting` counts the bytes of a half-written last line, left for
    later; `error` is a sentence where it was no log, or could not be read; `no_log` where it was read,
    and is none."""

    path: bytes
    agent: str | None
    session: str | None
    counts: Counts
    waiting: int
    error: str | None
    no_log: bool = False


class Progress(msgspec.Struct, frozen=True):
    """Bytes of all files done so far, of how many, and the file that is being read."""

    path: bytes
    done: int
    total: int


class ImportReport(msgspec.Struct, frozen=True):
    files: list[FileReport]
    totals: Counts
    bytes_read: int


def import_paths(
    log: EventLog,
    sources: Sequence[Source],
    paths: Sequence[Path],
    progress: Callable[[Progress], None] = lambda _: None,
) -> ImportReport:
    """Read the logs among these files and below these folders.

    A file that is no log, or cannot be read, is reported and the others go on. Raises LogFailure where
    the event log cannot take them; what was taken stays.
    """
    ingest = Ingest(log, sources)
    found = [(path, _size(path)) for path in _files(paths)]
    total = sum(size for _, size in found)
    reports, totals, done, read = [], Counts(), 0, 0
    for path, size in found:

        def tell(at: int, path: str = path, done: int = done) -> None:
            progress(Progress(os.fsencode(path), done + at, total))

        tell(0)
        one = _import_file(ingest, log, sources, path, tell)
        reports.append(one.report())
        totals.add(one.counts)
        done += size
        read += one.bytes_read
    return ImportReport(reports, totals, read)


def _files(paths: Sequence[Path]) -> Iterator[str]:
    """A session's own log comes before those of its child agents, which lie in a folder of its name."""
    seen = set()
    for path in paths:
        for file in _below(path) if os.path.isdir(path) else [os.fspath(path)]:
            if file not in seen:
                seen.add(file)
                yield file


def _below(folder: Path) -> list[str]:
    found = []
    for where, _, names in os.walk(folder):
        found += [f"{where}/{name}" for name in names if name.endswith(SUFFIX)]
    return sorted(found)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


class _Import:
    """One file while it is imported."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file: LogFile | None = None
        self.counts = Counts()
        self.error: str | None = None
        self.waiting = 0
        self.bytes_read = 0

    def report(self) -> FileReport:
        known = self.file if self.file is not None and self.file.session else None
        return FileReport(
            os.fsencode(self.path),
            known.source.agent if known else None,
            known.session if known else None,
            self.counts,
            self.waiting,
            self.error,
            self.file is not None and self.file.refused is not None,
        )


def _import_file(
    ingest: Ingest, log: EventLog, sources: Sequence[Source], path: str, progress: Callable[[int], None]
) -> _Import:
    one = _Import(path)
    try:
        with opened(path) as content:
            try:
                _import_content(ingest, log, sources, one, content, progress)
            finally:
                one.bytes_read = content.bytes_read
    except OSError as error:
        one.error = f"{path} cannot be read: {error.strerror}"
    return one


def _import_content(
    ingest: Ingest,
    log: EventLog,
    sources: Sequence[Source],
    one: _Import,
    content: Opened,
    progress: Callable[[int], None],
) -> None:
    one.file = file = log_file(one.path, content, log, sources)
    if file is None:
        one.error = f"{one.path} holds no complete line"
        return
    known = file.recorded(content)
    one.counts.add(Counts(entries=known, duplicates=known))
    for lines in file.read(content):
        one.counts.add(ingest.take(file, lines).counts)
        progress(lines.end)
    if file.refused is not None:
        one.error = file.refused.why
    elif not file.session:
        one.error = f"{one.path} does not say which session it belongs to"
    elif (rest := file.rest(content)) is not None:
        one.counts.add(ingest.take(file, rest).counts)
    else:
        one.waiting = content.size - file.tail.offset
