"""What stands at one name of an open folder, read so that no link is followed and no half-written file is
taken for a whole one. Knows nothing of trees, rules or stores beyond where bytes go.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from typing import Protocol

import msgspec

from recorder.errors import StoreFailure
from recorder.states import PathState

OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

CHANGING = "changing while it was read"
_ATTEMPTS = 4
_PAUSE = 0.005

_OUT_OF_MEANS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing of the path: the whole capture is lost."""


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """What was found at a name: a state's kind with the mode and the raw blob id of PathState, the change
    time (ns), and the reason why it is skipped or unknown."""

    kind: str
    mode: int = 0
    oid: bytes = b""
    ctime: int = 0
    why: str = ""

    @property
    def state(self) -> PathState:
        return PathState(self.kind, self.mode, self.oid.hex())


GONE = Leaf("absent")


class Contents(Protocol):
    """Where the bytes that are read go; both ways in give the raw id of their blob."""

    def holds(self, oid: bytes) -> bool:
        """Whether the blob need not be read again."""

    def whole(self, content: bytes) -> bytes:
        """Takes a content in."""

    def large(self, descriptor: int, size: int) -> bytes | None:
        """Takes an open file's content in; None when what was read is not of one piece."""


class Unstable(Exception):
    """What stands at the name changed under the reading."""


def look(folder: int, name: bytes, contents: Contents, large: int) -> tuple[Leaf, os.stat_result | None]:
    """The leaf at `name` in the open `folder`, and its status as of the reading.

    A file of more than `large` bytes is not held in memory. A folder is a leaf of kind `dir`; what
    cannot be read is `unknown`. Raises StoreFailure where it is the process that is out of means.
    """
    try:
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE)
            with contextlib.suppress(Unstable):
                return _look_once(folder, name, contents, large)
    except OSError as error:
        return failed(error), None
    return Leaf("unknown", why=CHANGING), None


def failed(error: OSError) -> Leaf:
    """The leaf for a name that could not be read. Raises StoreFailure as `look`."""
    if error.errno in _OUT_OF_MEANS:
        raise StoreFailure(f"the work tree cannot be read: {error.strerror}") from error
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return GONE
    return Leaf("unknown", why=f"cannot be read: {error.strerror}")


def left_out(mode: int) -> str | None:
    """Why what has this file type is never captured, or None."""
    if stat.S_ISSOCK(mode):
        return "a socket"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        return "a device"
    return None


def _look_once(folder: int, name: bytes, contents: Contents, large: int) -> tuple[Leaf, os.stat_result]:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISREG(status.st_mode):
        return _read_file(folder, name, contents, large)
    if stat.S_ISLNK(status.st_mode):
        return _read_link(folder, name, contents, status)
    if stat.S_ISDIR(status.st_mode):
        return Leaf("dir", mode, ctime=status.st_ctime_ns), status
    why = left_out(status.st_mode) or "of a kind that cannot be captured"
    return Leaf("skipped", ctime=status.st_ctime_ns, why=why), status


def _read_file(folder: int, name: bytes, contents: Contents, large: int) -> tuple[Leaf, os.stat_result]:
    with _opened(folder, name) as descriptor:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise Unstable
        if before.st_size > large:
            oid = contents.large(descriptor, before.st_size)
        else:
            oid = _read_whole(descriptor, before.st_size, contents)
        if oid is None or not _same(before, os.fstat(descriptor)):
            raise Unstable
    return Leaf("file", stat.S_IMODE(before.st_mode), oid, before.st_ctime_ns), before


def _read_whole(descriptor: int, size: int, contents: Contents) -> bytes | None:
    pieces, wanted = [], size + 1
    while wanted and (piece := os.read(descriptor, wanted)):
        pieces.append(piece)
        wanted -= len(piece)
    content = b"".join(pieces)
    return contents.whole(content) if len(content) == size else None


def _read_link(
    folder: int, name: bytes, contents: Contents, before: os.stat_result
) -> tuple[Leaf, os.stat_result]:
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise Unstable from error
        raise
    return Leaf("link", 0, contents.whole(target), before.st_ctime_ns), before


@contextlib.contextmanager
def _opened(folder: int, name: bytes) -> Iterator[int]:
    try:
        descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise Unstable from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _same(before: os.stat_result, after: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns, before.st_mode) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_mode,
    )


class OpenFolders:
    """Folders below a root, opened one component at a time and without following links.

    The way to the last folder is kept open, so that going through a tree in its order costs one open
    per folder; of a very deep way only the end.
    """

    KEPT = 64

    def __init__(self, root: bytes) -> None:
        """Raises OSError when the root cannot be opened."""
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._way: list[tuple[bytes, int]] = []

    def __enter__(self) -> OpenFolders:
        return self

    def __exit__(self, *_: object) -> None:
        self._leave(0)
        os.close(self._root)

    @property
    def root(self) -> int:
        return self._root

    def open(self, path: bytes) -> int:
        """The open folder at a relative path, good until the next call. Raises OSError."""
        names = path.split(b"/") if path else []
        common = 0
        while common < min(len(names), len(self._way)) and self._way[common][0] == names[common]:
            common += 1
        self._leave(common)
        if self._way and self._way[-1][1] < 0:
            self._leave(0)
        for name in names[len(self._way) :]:
            descriptor = os.open(name, OPEN_FOLDER, dir_fd=self._way[-1][1] if self._way else self._root)
            self._way.append((name, descriptor))
            self._thin()
        return self._way[-1][1] if self._way else self._root

    def _leave(self, length: int) -> None:
        while len(self._way) > length:
            _, descriptor = self._way.pop()
            if descriptor >= 0:
                os.close(descriptor)

    def _thin(self) -> None:
        if len(self._way) > self.KEPT:
            name, descriptor = self._way[-self.KEPT - 1]
            if descriptor >= 0:
                os.close(descriptor)
                self._way[-self.KEPT - 1] = (name, -1)
