"""One log file: which of its bytes were read, and which complete lines are new.

A *generation* is one incarnation of a file: its inode, the start of its first line, and how often it
was rewritten in place. Bytes are read once and in order; a half-written last line waits. What the
lines say, and whose file it is, is not known here.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Protocol

import msgspec

from recorder.eventlog.reached import Reached

HEAD = 512
"""Bytes of the first line by which a file is recognised."""

CHECK = 512
"""Bytes before the position by which a rewrite in place is found: lines of one log often end alike."""

CHUNK = 1 << 20
"""Bytes read at once."""

MOST_LINES = 250
"""Lines handed on at once."""

LARGE = 4 << 20
"""A line above this is handed on alone."""

LONGEST = 64 << 20
"""A longer line is no record: it is not held, only measured and digested."""

KEPT = 64 << 10
"""Bytes kept of the start of such a line."""


class Positions(Protocol):
    """How far files were read: the event log."""

    def reached(self, generation: str) -> Reached | None: ...
    def all_reached(self) -> list[Reached]: ...


class LongLine(msgspec.Struct, frozen=True):
    """A line above LONGEST: its size in bytes, sha256 (hex), first KEPT and last CHECK bytes."""

    size: int
    digest: str
    start: bytes
    end: bytes


class Lines(msgspec.Struct, frozen=True):
    """Complete lines in order, without their newlines; they fill the bytes from `start` to `end`.

    `more` tells that the file went on after `end` when it was looked at. Times are ns: `written_at` of
    the file's last change then, `previous_at` of the last change at the look before (of the file's
    beginning, at the first one). `live` tells that the lines were written while the file was followed.
    """

    lines: list[bytes | LongLine]
    start: int
    end: int
    more: bool = False
    written_at: int = 0
    previous_at: int = 0
    live: bool = False
    reached: Reached | None = None


class Opened(msgspec.Struct):
    """An open file as it was when it was opened: what is appended later is not looked at."""

    descriptor: int
    device: int
    inode: int
    size: int
    written_at: int
    born_at: int
    bytes_read: int = 0

    def at(self, start: int, length: int) -> bytes:
        """At most `length` bytes; none past the size at opening, fewer where the file shrank since."""
        data = os.pread(self.descriptor, max(0, min(length, self.size - start)), start)
        self.bytes_read += len(data)
        return data


@contextlib.contextmanager
def opened(path: str) -> Iterator[Opened]:
    """Open a regular file for reading. Raises OSError, also where the path is something else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        yield Opened(
            descriptor, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, _born_at(status)
        )
    finally:
        os.close(descriptor)


def _born_at(status: os.stat_result) -> int:
    """The earliest moment that the file system still knows of the file."""
    return min(status.st_mtime_ns, status.st_ctime_ns, status.st_atime_ns)


class Tail:
    """How far one generation of a file has been read."""

    def __init__(
        self, path: str, file: Opened, head: bytes, generation: str, reached: Reached | None
    ) -> None:
        self.path = path
        self.device = file.device
        self.inode = file.inode
        self.head = head
        self.generation = generation
        self.offset = reached.offset if reached else 0
        self._check = reached.tail[8:] if reached else _check(b"")
        self._last = b""
        self.previous_at = read_at(reached) if reached else file.born_at
        self._searched = 0

    def holds(self, file: Opened) -> bool:
        """Whether the file is still what was read, with or without more after it."""
        if (self.device, self.inode) != (file.device, file.inode):
            return False
        length = int.from_bytes(self._check[:2], "big")
        last = file.at(self.offset - length, length)
        if _check(last) != self._check or file.at(0, len(self.head)) != self.head:
            return False
        self._last = last
        return True

    def read(self, file: Opened, *, live: bool = False) -> Iterator[Lines]:
        """The new complete lines, piece by piece. The position moves when the next piece is asked for,
        so a caller that fails gets the same piece again."""
        if self._searched > self.offset and not _has_newline(file, self._searched):
            self._searched = file.size
            return
        for piece in pieces(file, self.offset, file.size):
            last = _last_bytes(self._last, piece.lines)
            check = _check(last)
            reached = Reached(
                self.generation, piece.end, os.fsencode(self.path), _time(file.written_at) + check
            )
            yield msgspec.structs.replace(
                piece,
                written_at=file.written_at,
                previous_at=self.previous_at,
                live=live,
                reached=reached,
            )
            self.offset, self._last, self._check = piece.end, last, check
        self._searched = file.size
        self.previous_at = file.written_at


def open_tail(path: str, file: Opened, positions: Positions) -> Tail | None:
    """The tail of an open file, at the position reached earlier; None before its first line is whole.

    Content that does not fit any position reached earlier is a new generation, read from its start.
    """
    head = file.at(0, HEAD)
    newline = head.find(b"\n")
    if newline < 0 and len(head) < HEAD:
        return None
    head = head[: newline + 1] or head
    name = f"{file.device:x}-{file.inode:x}-{hashlib.blake2b(head, digest_size=8).hexdigest()}"
    rewritten = 0
    while True:
        generation = f"{name}-{rewritten}"
        reached = positions.reached(generation)
        tail = Tail(path, file, head, generation, reached)
        if reached is None or tail.holds(file):
            return tail
        rewritten += 1


def unchanged_since(positions: Positions) -> set[tuple[int, int, int]]:
    """(inode, size, time of last change in ns) of every file that was read to its end."""
    return {
        (int(reached.generation.split("-")[1], 16), reached.offset, read_at(reached))
        for reached in positions.all_reached()
    }


def read_at(reached: Reached) -> int:
    """When the file had last been changed, at the read that reached this position (ns)."""
    return int.from_bytes(reached.tail[:8], "big")


def _time(written_at: int) -> bytes:
    return max(0, written_at).to_bytes(8, "big")


def _check(last: bytes) -> bytes:
    """What is kept of the bytes before a position: how many they are, and their digest."""
    return len(last).to_bytes(2, "big") + hashlib.blake2b(last, digest_size=16).digest()


def pieces(file: Opened, start: int, end: int) -> Iterator[Lines]:
    """The complete lines between two offsets (`start` at the beginning of one), each byte read once."""
    parts: list[bytes] = []
    measured: _Measured | None = None
    position = at = start
    while at < end:
        data = file.at(at, min(CHUNK, end - at))
        if not data:
            return
        at += len(data)
        if b"\n" not in data:
            parts.append(data)
            if measured is None and at - position > LONGEST:
                measured = _Measured()
            if measured is not None:
                measured.add(parts)
            continue
        if at - position > LARGE:
            rest, data = data.split(b"\n", 1)
            parts.append(rest)
            line, after = _finished(parts, measured), at - len(data)
            measured = None
            yield Lines([line], position, after, more=after < file.size)
            position = after
        whole, newline, rest = b"".join([*parts, data]).rpartition(b"\n")
        parts = [rest] if rest else []
        if newline:
            yield from _split(whole, position, file.size)
            position = at - len(rest)


def _finished(parts: list[bytes], measured: _Measured | None) -> bytes | LongLine:
    """The line that ends here; takes the parts out of the list, so that a large line is held once."""
    if measured is not None:
        measured.add(parts)
        return measured.line()
    line = b"".join(parts)
    parts.clear()
    return line


def _split(whole: bytes, start: int, size: int) -> Iterator[Lines]:
    lines: list[bytes | LongLine] = [*whole.split(b"\n")]
    for first in range(0, len(lines), MOST_LINES):
        some = lines[first : first + MOST_LINES]
        end = start + sum(map(len, some)) + len(some)  # type: ignore[arg-type]
        yield Lines(some, start, end, more=end < size)
        start = end


class _Measured:
    """A line that is being read and let go."""

    def __init__(self) -> None:
        self._size = 0
        self._hash = hashlib.sha256()
        self._start = b""
        self._end = b""

    def add(self, parts: list[bytes]) -> None:
        """Takes the parts out of the list."""
        for part in parts:
            self._size += len(part)
            self._hash.update(part)
            self._start += part[: max(0, KEPT - len(self._start))]
            self._end = (self._end + part[-CHECK:])[-CHECK:]
        parts.clear()

    def line(self) -> LongLine:
        return LongLine(self._size, self._hash.hexdigest(), self._start, self._end)


def _has_newline(file: Opened, start: int) -> bool:
    while data := file.at(start, CHUNK):
        if b"\n" in data:
            return True
        start += len(data)
    return False


def _last_bytes(before: bytes, lines: list[bytes | LongLine]) -> bytes:
    end = b""
    for line in reversed(lines):
        end = (line.end if isinstance(line, LongLine) else line[-CHECK:]) + b"\n" + end
        if len(end) >= CHECK:
            return end[-CHECK:]
    return (before + end)[-CHECK:]
