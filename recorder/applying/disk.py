"""The only way onto a work tree's files: by open folders, never by paths.

A path's folder is reached one component at a time, at the moment of the effect, and no link is
followed, so nothing can leave the tree, whatever happens to the folders meanwhile. Owns which paths a
rewind may write at all, and when what was written is on the disk; `recorder.applying.folder` has the effects.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

from recorder.applying.folder import OPEN_FOLDER, Folder, NoFolder, open_folder
from recorder.applying.renames import Hook, look
from recorder.errors import Refused
from recorder.private import is_private
from recorder.states import ABSENT, PathState

_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_ABOVE_ALL = b"/"

_AT_ONCE = 8
"""Folders that are synced at the same time: a file system ends many syncs with one write of its journal."""


class WorkTree:
    """A work tree during one operation, a context manager. `root` is its real path; `hook` is called around
    every effect.

    The root is opened once, so that all of an operation is done in one and the same tree.
    """

    def __init__(self, root: bytes, hook: Hook) -> None:
        self._path = root
        self._hook = hook
        self._root: int | None = None
        self._touched: dict[tuple[bytes, ...], set[bytes]] = {}

    def __enter__(self) -> WorkTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._root is not None:
            os.close(self._root)
            self._root = None

    @contextlib.contextmanager
    def folder(self, path: bytes) -> Iterator[tuple[Folder, bytes]]:
        """The open folder of a path, and the path's last name. Relative paths lie in the work tree,
        absolute ones where they say: no link is followed on the way to either.

        Raises Refused for a path that no rewind may write, NoFolder, OSError.
        """
        parts = _checked(path)
        with self._open(parts[:-1]) as folder:
            _no_repository(folder.descriptor, parts[-1])
            yield folder, parts[-1]

    def root(self) -> Folder:
        """The open root, a context manager. Raises NoFolder where it is gone, OSError."""
        return self._open([])

    def state(self, path: bytes) -> PathState:
        """What stands at a path; absent where a folder on the way is missing or is none."""
        try:
            with self.folder(path) as (folder, name):
                return folder.state(name)
        except NoFolder:
            return ABSENT

    def sync(self) -> list[tuple[bytes, OSError]]:
        """Make every effect since the last sync durable; the paths where that failed, private names among
        them. What is gone meanwhile needs none."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            failures = list(threads.map(self._sync, self._touched.items()))
        self._touched.clear()
        return [failure for some in failures for failure in some]

    def _sync(self, touched: tuple[tuple[bytes, ...], set[bytes]]) -> list[tuple[bytes, OSError]]:
        place, names = touched
        failed = []
        path = b"/".join(place[1:] if place[:1] == (_ABOVE_ALL,) else place)
        try:
            with self._open(place) as folder:
                for name in names:
                    try:
                        _sync_file(folder.descriptor, name)
                    except OSError as error:
                        failed.append((path + b"/" + name if path else name, error))
                os.fsync(folder.descriptor)
        except NoFolder:
            return failed
        except OSError as error:
            failed.append((path or b".", error))
        return failed

    def _open(self, parts: Sequence[bytes]) -> Folder:
        place = tuple(parts)
        return Folder(self._descend(place), self._hook, lambda: self._touched.setdefault(place, set()))

    def _descend(self, parts: tuple[bytes, ...]) -> int:
        if parts[:1] == (_ABOVE_ALL,):
            return _descend(None, parts)
        if self._root is None:
            self._root = _descend(None, (_ABOVE_ALL, *filter(None, self._path.split(b"/"))))
        return _descend(self._root, parts)


def _checked(path: bytes) -> list[bytes]:
    """The components of a path, `/` for the first where it is absolute. Raises Refused for one that is not
    plain or not a rewind's to write."""
    above = [_ABOVE_ALL] if path.startswith(b"/") else []
    parts = path[len(above) :].split(b"/")
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise Refused("it is not a plain path", code="path")
    if b".git" in parts:
        raise _belongs_to_git()
    if any(map(is_private, parts)):
        raise Refused("it is a name of the recorder's own", code="path")
    return above + parts


def _belongs_to_git() -> Refused:
    return Refused("it belongs to a git repository itself", code="path")


def _no_repository(folder: int, name: bytes) -> None:
    """Raises Refused for another spelling of `.git` that is the same on this file system."""
    if name.lower() == b".git" and (standing := look(folder, name)) is not None:
        git = look(folder, b".git")
        if git is not None and os.path.samestat(standing, git):
            raise _belongs_to_git()


def _descend(start: int | None, parts: tuple[bytes, ...]) -> int:
    """A descriptor of the folder, readable, `start` stays open. Raises NoFolder, Refused, OSError."""
    if not parts:
        return open_folder(b".", start, OPEN_FOLDER)
    current = start
    for index, part in enumerate(parts):
        flags = OPEN_FOLDER if index == len(parts) - 1 else _PASS_THROUGH
        try:
            if current is not None:
                _no_repository(current, part)
            below = open_folder(part, current, flags)
        finally:
            if current is not None and current != start:
                os.close(current)
        current = below
    assert current is not None
    return current


def _sync_file(folder: int, name: bytes) -> None:
    """Make the content and mode of the file or folder at a name durable. Raises OSError."""
    try:
        descriptor = os.open(name, _OPEN_ANY, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return
        raise
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
