"""The only way onto a work tree's files: by open folders, never by paths.

A path's folder is reached one component at a time, at the moment of the effect, and no link is
followed, so nothing can leave the tree, whatever happens to the folders meanwhile. Owns which paths a
rewind may write at all; `recorder.applying.folder` has the effects.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from recorder.applying.folder import OPEN_FOLDER, Folder, NoFolder, open_folder
from recorder.applying.renames import Hook
from recorder.errors import Refused
from recorder.private import PRIVATE_PREFIX
from recorder.states import ABSENT, PathState

_PASS_THROUGH = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkTree:
    """A work tree during one operation. `root` is its real path; `hook` is called around every effect."""

    def __init__(self, root: bytes, hook: Hook) -> None:
        self._root = root
        self._hook = hook
        self._real_parents: dict[bytes, bytes] = {}
        self._touched: set[tuple[bytes, ...]] = set()

    @contextlib.contextmanager
    def folder(self, path: bytes) -> Iterator[tuple[Folder, bytes]]:
        """The open folder of a path, and the path's last name. Relative paths lie in the work tree,
        absolute ones where the real path of their folder says.

        Raises Refused for a path that no rewind may write, NoFolder, OSError.
        """
        start, parts = self._place(path)
        with self._open(start, *parts[:-1]) as folder:
            yield folder, parts[-1]

    def root(self) -> Folder:
        """The open root, a context manager. Raises NoFolder where it is gone, OSError."""
        return self._open(self._root)

    def state(self, path: bytes) -> PathState:
        """What stands at a path; absent where a folder on the way is missing or is none."""
        try:
            with self.folder(path) as (folder, name):
                return folder.state(name)
        except NoFolder:
            return ABSENT

    def sync(self) -> None:
        """Make every effect on names durable; a folder that is gone needs none. Raises OSError."""
        for place in self._touched:
            with contextlib.suppress(NoFolder), self._open(*place) as folder:
                os.fsync(folder.descriptor)

    def _open(self, start: bytes, *parts: bytes) -> Folder:
        return Folder(_descend(start, parts), self._hook, lambda: self._touched.add((start, *parts)))

    def _place(self, path: bytes) -> tuple[bytes, list[bytes]]:
        if not path.startswith(b"/"):
            return self._root, _checked(path)
        _checked(path[1:])
        parent, _, name = path.rpartition(b"/")
        if parent not in self._real_parents:
            self._real_parents[parent] = os.path.realpath(parent or b"/")
        real = self._real_parents[parent].rstrip(b"/") + b"/" + name
        return b"/", _checked(real[1:])


def _checked(path: bytes) -> list[bytes]:
    """The components of a path. Raises Refused for one that is not plain or not a rewind's to write."""
    parts = path.split(b"/")
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise Refused("it is not a plain path", code="path")
    if any(part.lower() == b".git" for part in parts):
        raise Refused("it belongs to a git repository itself", code="path")
    if any(part.startswith(PRIVATE_PREFIX) for part in parts):
        raise Refused("it is a name of the recorder's own", code="path")
    return parts


def _descend(start: bytes, parts: tuple[bytes, ...]) -> int:
    """A descriptor of the folder, readable. Raises NoFolder, OSError."""
    current = open_folder(start, None, _PASS_THROUGH if parts else OPEN_FOLDER)
    for index, part in enumerate(parts):
        flags = OPEN_FOLDER if index == len(parts) - 1 else _PASS_THROUGH
        try:
            below = open_folder(part, current, flags)
        finally:
            os.close(current)
        current = below
    return current
