"""Files that the work tree's own capture cannot see and that a tool named: ignored ones, those outside, and
all there is of a tree that is captured per file. Each is kept at its real place.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

import msgspec

from recorder.capturing.looking import Contents, Leaf, OpenFolders, failed, look
from recorder.capturing.statcache import Folder as CachedFolder
from recorder.capturing.statcache import StatCache, known_id, record
from recorder.capturing.store import LARGE
from recorder.policy import size
from recorder.private import inside_never_captured

CACHE = b"\0outside"
"""The stat cache's folder for these; no folder has this name."""


class Roots(msgspec.Struct, frozen=True):
    """Real paths: the work tree's root, and the recorder's home."""

    tree: bytes
    home: bytes

    def key(self, path: bytes) -> bytes | None:
        """What a tool's absolute path is called: its real place, relative where it lies in the work tree;
        None for what is never captured."""
        if not path.startswith(b"/") or b"\0" in path:
            return None
        real = os.path.realpath(path)
        prefix = self.tree.rstrip(b"/") + b"/"
        key = real[len(prefix) :] if real.startswith(prefix) else real
        if real in (self.tree, self.home) or real.startswith(self.home + b"/") or inside_never_captured(key):
            return None
        return key

    def absolute(self, key: bytes) -> bytes:
        return key if key.startswith(b"/") else self.tree.rstrip(b"/") + b"/" + key

    def keys(self, paths: Iterable[bytes]) -> set[bytes]:
        return {key for path in paths if (key := self.key(path)) is not None}


def look_at(
    keys: Iterable[bytes],
    roots: Roots,
    cache: StatCache,
    contents: Contents,
    limit: int,
    held: Callable[[bytes], bool],
    now: int,
) -> dict[bytes, Leaf]:
    """The leaf at each key. A file larger than `limit` is skipped unless `held` says it was captured."""
    cached = cache.folders.get(CACHE, {})
    records: CachedFolder = {}
    leaves: dict[bytes, Leaf] = {}
    with OpenFolders(b"/") as folders:
        for key in sorted(keys):
            allowed = None if held(key) else limit
            leaf, seen = _look(roots.absolute(key), folders, contents, allowed, cached.get(key), now)
            leaves[key] = leaf
            if seen:
                records[key] = seen
    if records != cached:
        cache.replace(cache.folders | {CACHE: records}, changed=True)
    return leaves


def _look(
    path: bytes,
    folders: OpenFolders,
    contents: Contents,
    limit: int | None,
    cached: bytes | None,
    now: int,
) -> tuple[Leaf, bytes | None]:
    above, _, name = path[1:].rpartition(b"/")
    try:
        folder = folders.open(above)
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if limit is not None and stat.S_ISREG(status.st_mode) and status.st_size > limit:
            why = f"outside of what is captured and larger than {size(limit)}"
            return Leaf("skipped", ctime=status.st_ctime_ns, why=why), None
        oid = known_id(cached, status)
        if oid is not None and contents.holds(oid) and stat.S_ISREG(status.st_mode):
            return Leaf("file", stat.S_IMODE(status.st_mode), oid, status.st_ctime_ns), cached
    except OSError as error:
        leaf = failed(error)
        return (_absent(path) if leaf.kind == "absent" else leaf), None
    leaf, seen = look(folder, name, contents, LARGE)
    if leaf.kind == "absent":
        return _absent(path), None
    return leaf, record(seen, leaf.oid, now) if seen and leaf.oid else None


def _absent(path: bytes) -> Leaf:
    """Absent, since the last change of the nearest folder that is there."""
    while path != b"/":
        path = os.path.dirname(path)
        try:
            return Leaf("absent", ctime=os.lstat(path).st_mtime_ns)
        except OSError:
            continue
    return Leaf("absent")


def look_now(path: bytes, contents: Contents) -> Leaf:
    """The leaf at an absolute path, whatever its size."""
    above, _, name = path[1:].rpartition(b"/")
    try:
        with OpenFolders(b"/") as folders:
            return look(folders.open(above), name, contents, LARGE)[0]
    except OSError as error:
        return failed(error)
