"""A log file with the agent's source that reads it: whose file it is, which session, its reader.

`recorder.reading.tail` knows bytes, the sources know lines; here they meet. Nothing is decided or stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from recorder.reading.tail import LONGEST, Lines, LongLine, Opened, Positions, Tail, open_tail, opened, pieces
from recorder.sources.base import BadLine, Reader, Record, Source

ENOUGH = 100
"""Lines in which a log must have named its session."""


class NotALog(msgspec.Struct, frozen=True):
    """A file that is left alone, and why, as one clear sentence."""

    path: str
    why: str


class LogFile:
    """One log being read. `source`, `session` and `reader` are set before the first lines are handed
    on, and `first` holds the first line of the file until then."""

    def __init__(self, tail: Tail, sources: Sequence[Source]) -> None:
        self.tail = tail
        self.source: Source
        self.session = ""
        self.refused: NotALog | None = None
        self._sources = sources
        self._reader: Reader | None = None
        self._ahead = False

    @property
    def path(self) -> str:
        return self.tail.path

    def read(self, file: Opened, *, live: bool = False) -> Iterator[Lines]:
        """The new complete lines; none when the file is no log, which `refused` then says."""
        if self._ahead:
            self._reader = None
        for lines in self.tail.read(file, live=live):
            if self._reader is None and not self._begin(file, lines):
                return
            self._ahead = True
            yield lines
            self._ahead = False

    def rest(self, file: Opened) -> Lines | None:
        """A last line that is a whole record but for its newline; the position stays before it, so the
        finished line will be a duplicate. To be asked last, after everything was read."""
        start = self.tail.offset
        if self._reader is None or not 0 < file.size - start <= LONGEST:
            return None
        line = file.at(start, file.size - start)
        if isinstance(self._reader.read(line), BadLine):
            return None
        return Lines([line], start, file.size, written_at=file.written_at, previous_at=self.tail.previous_at)

    def recorded(self, file: Opened) -> int:
        """How many lines were recorded earlier. Finds out whose the file is."""
        count = 0
        for lines in pieces(file, 0, self.tail.offset):
            if not self.session and not self._identify(lines.lines):
                break
            count += len(lines.lines)
        return count

    def records(self, lines: Sequence[bytes | LongLine]) -> list[Record | BadLine]:
        """What the lines say; to be asked once for each piece, in order."""
        if self._reader is None:
            self._reader = self.source.reader(Path(self.path))
        return [_read(self._reader, line) for line in lines]

    def _begin(self, file: Opened, lines: Lines) -> bool:
        """A reader knows its file from the first line on, so it is shown what was recorded earlier."""
        if lines.start == 0:
            return self._identify(lines.lines)
        for earlier in pieces(file, 0, lines.start):
            if self._reader is None and not self._identify(earlier.lines):
                return False
            self.records(earlier.lines)
        return True

    def _identify(self, lines: Sequence[bytes | LongLine]) -> bool:
        path = Path(self.path)
        first = [line for line in lines[:ENOUGH] if isinstance(line, bytes)]
        source = _claiming(self._sources, path, first[0] if isinstance(lines[0], bytes) else b"")
        if source is None:
            self.refused = NotALog(
                self.path, f"{self.path} is no session log of an agent that the recorder knows"
            )
            return False
        session = source.session_of(path, first)
        if session is None:
            if len(lines) >= ENOUGH:
                self.refused = NotALog(self.path, f"{self.path} does not say which session it belongs to")
            return False
        self.source, self.session = source, session
        return True


def _claiming(sources: Sequence[Source], path: Path, first_line: bytes) -> Source | None:
    return next((source for source in sources if source.claims(path, first_line)), None)


def _read(reader: Reader, line: bytes | LongLine) -> Record | BadLine:
    if isinstance(line, bytes):
        return reader.read(line)
    return BadLine(f"the line is too long to be read as a record: {line.size} bytes, sha256 {line.digest}")


def session_in(path: Path, sources: Sequence[Source]) -> str | None:
    """The id of the session that a log holds; None where the file is gone or is no log."""
    try:
        with opened(os.fspath(path)) as file:
            lines = next(pieces(file, 0, file.size), None)
    except OSError:
        return None
    if lines is None or not isinstance(lines.lines[0], bytes):
        return None
    first = [line for line in lines.lines[:ENOUGH] if isinstance(line, bytes)]
    source = _claiming(sources, path, first[0])
    return None if source is None else source.session_of(path, first)


def log_file(path: str, file: Opened, positions: Positions, sources: Sequence[Source]) -> LogFile | None:
    """The log file at a path; None before its first line is whole."""
    tail = open_tail(path, file, positions)
    return None if tail is None else LogFile(tail, sources)
