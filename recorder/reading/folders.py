"""Which log files below some folders appeared or changed; the folders need not exist yet.

By inotify where there is one, one watch per folder, so that waiting costs nothing however many files
there are. Elsewhere, and where the system has no watches left, by a slow scan. Files are not opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import translate
from pathlib import PurePath
from typing import Any

from recorder.sources.base import Root

SCAN_EVERY = 2.0
"""Seconds between two scans where there is no inotify; more where a scan takes long."""

SCAN_SHARE = 50
"""A scan may take one part in this many of the time."""

_WATCH_LIMIT = (errno.ENOSPC, errno.ENOMEM)


class Wanted:
    """A root: a folder with the logs below it, or one log file. Neither need exist."""

    def __init__(self, root: Root) -> None:
        self.path = os.fspath(root.folder.absolute())
        self._below = self.path.rstrip("/") + "/"
        self._pattern = root.pattern
        self._name = re.compile(translate(root.pattern)) if "/" not in root.pattern else None

    def matches(self, path: str) -> bool:
        """Whether a file at this path is a log that is wanted, by its name."""
        if path == self.path:
            return True
        if not path.startswith(self._below):
            return False
        if self._name is not None:
            return self._name.match(path, path.rindex("/") + 1) is not None
        return PurePath(path[len(self._below) :]).match(self._pattern)

    def concerns(self, path: str) -> bool:
        """Whether what happens to the folder at this path can make this root come or go."""
        return path == self.path or self.path.startswith(path.rstrip("/") + "/")

    def holds(self, folder: str) -> bool:
        return folder == self.path or folder.startswith(self._below)


class Folders:
    """Watches the roots. `lost` tells that changes may have been missed and a scan is due."""

    def __init__(
        self, roots: Sequence[Root], *, notify: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.lost = False
        self.unreadable: dict[str, str] = {}
        self._wanted = [Wanted(root) for root in roots]
        self._missing: list[Wanted] = []
        self._folders: dict[int, str] = {}
        self._clock = clock
        self._inotify = _inotify() if notify else None
        self._scans = self._inotify is None
        self._scan_at = 0.0
        self._woken, self._wake = os.pipe()
        for end in (self._woken, self._wake):
            os.set_blocking(end, False)
        self._poll = select.poll()
        self._poll.register(self._woken, select.POLLIN)
        if self._inotify is not None:
            self._poll.register(self._inotify.fileno(), select.POLLIN)

    def close(self) -> None:
        if self._inotify is not None:
            self._inotify.close()
        os.close(self._woken)
        wake, self._wake = self._wake, -1
        os.close(wake)

    def wait(self, timeout: float | None) -> None:
        """Return when something may have changed, after `timeout` seconds, or when woken."""
        if self._scans:
            until = max(0.0, self._scan_at - self._clock())
            timeout = until if timeout is None else min(timeout, until)
        for descriptor, _ in self._poll.poll(None if timeout is None else timeout * 1000):
            if descriptor == self._woken:
                os.read(self._woken, 4096)

    def wake(self) -> None:
        """End a `wait`, from any thread or a signal handler; nothing after `close`."""
        if self._wake >= 0:
            with contextlib.suppress(BlockingIOError):  # full of wakes already
                os.write(self._wake, b".")

    def scan(self) -> dict[str, os.stat_result]:
        """Every log that is there."""
        began = self._clock()
        self.lost = False
        found: dict[str, os.stat_result] = {}
        for wanted in self._wanted:
            found.update(self._arm(wanted))
        ended = self._clock()
        self._scan_at = ended + max(SCAN_EVERY, SCAN_SHARE * (ended - began))
        return found

    def changed(self) -> list[str]:
        """The logs that appeared or changed since the last time, each once, in that order; then `lost`
        says if that is all."""
        if self._scans and self._clock() >= self._scan_at:
            self.lost = True
        changed: dict[str, None] = {}
        if self._inotify is not None:
            for event in self._inotify.read(timeout=0):
                changed.update(dict.fromkeys(self._happened(event)))
        return list(changed)

    def _happened(self, event: Any) -> Iterator[str]:
        from inotify_simple import flags

        if event.mask & flags.Q_OVERFLOW:
            self.lost = True
        elif event.mask & flags.IGNORED:
            yield from self._gone(self._folders.pop(event.wd, None))
        elif event.mask & flags.MOVE_SELF:
            self._moved(event.wd)
        elif event.mask & (flags.CREATE | flags.MODIFY | flags.MOVED_TO) and event.wd in self._folders:
            yield from self._appeared(
                f"{self._folders[event.wd].rstrip('/')}/{event.name}", event.mask & flags.ISDIR
            )

    def _appeared(self, path: str, is_folder: int) -> Iterator[str]:
        for wanted in [wanted for wanted in self._missing if wanted.concerns(path)]:
            yield from self._arm(wanted)
        if not is_folder:
            if any(wanted.matches(path) for wanted in self._wanted):
                yield path
            return
        for wanted in self._wanted:
            if wanted.holds(path):
                yield from (log for log, _ in self._walk(path, wanted))

    def _gone(self, folder: str | None) -> Iterator[str]:
        """A watched folder was removed: a root in it is waited for again."""
        for wanted in self._wanted:
            if folder is not None and wanted.concerns(folder):
                yield from self._arm(wanted)

    def _moved(self, watch: int) -> None:
        """A folder that moved within the roots has been walked at its new place already."""
        folder = self._folders.get(watch)
        if self._inotify is not None and folder is not None and not os.path.isdir(folder):
            self._inotify.rm_watch(watch)

    def _arm(self, wanted: Wanted) -> dict[str, os.stat_result]:
        """Watch a root and return its logs; where it is missing, watch for it."""
        while True:
            try:
                status = os.stat(wanted.path)
            except OSError:
                if wanted not in self._missing:
                    self._missing.append(wanted)
                if self._watch_for(wanted.path):
                    return {}
                continue
            if wanted in self._missing:
                self._missing.remove(wanted)
            if stat.S_ISDIR(status.st_mode):
                return dict(self._walk(wanted.path, wanted))
            self._watch(os.path.dirname(wanted.path), appearing=False)
            return {wanted.path: status}

    def _watch_for(self, path: str) -> bool:
        """Watch the nearest folder above that exists; False where the next one below appeared meanwhile."""
        below, above = path, os.path.dirname(path)
        while not os.path.isdir(above) and above != below:
            below, above = above, os.path.dirname(above)
        watched = self._watch(above, appearing=True)
        return not watched or not (os.path.exists(path) if below == path else os.path.isdir(below))

    def _walk(self, folder: str, wanted: Wanted) -> Iterator[tuple[str, os.stat_result]]:
        """Each folder is watched before it is listed, so that nothing appears unseen in between."""
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            self._watch(here, appearing=False)
            try:
                with os.scandir(here) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        elif wanted.matches(entry.path) and (status := _status(entry)) is not None:
                            yield entry.path, status
            except FileNotFoundError:
                continue
            except OSError as error:
                self.unreadable[here] = f"{here} cannot be read: {error.strerror}"

    def _watch(self, folder: str, *, appearing: bool) -> bool:
        """False where the folder cannot be watched; `appearing` asks only for what is new in it."""
        if self._inotify is None:
            return False
        from inotify_simple import flags

        mask = flags.CREATE | flags.MOVED_TO | flags.DELETE_SELF | flags.MOVE_SELF | flags.ONLYDIR
        mask |= flags.MASK_ADD if appearing else flags.MODIFY
        try:
            self._folders[self._inotify.add_watch(folder, mask)] = folder
        except OSError as error:
            if error.errno in _WATCH_LIMIT:
                self._scans = True
            return False
        return True


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """None for a file that is gone meanwhile, or a link to nothing."""
    try:
        return entry.stat()
    except OSError:
        return None


def _inotify() -> Any:
    """None where the system has no inotify, or none left for this user."""
    if sys.platform != "linux":
        return None
    from inotify_simple import INotify

    try:
        return INotify()
    except OSError:
        return None
