"""The reading half of a scan: gives every listed file and link its leaf, from the stat cache where that is
sure, else by reading it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from recorder.capturing.found import Folder
from recorder.capturing.looking import CHANGING, Contents, Leaf, OpenFolders, failed, look
from recorder.capturing.statcache import Folder as CachedFolder
from recorder.capturing.statcache import StatCache, known_id, record
from recorder.capturing.store import LARGE

Listed = tuple[bytes, bytes, os.stat_result]
"""A path, its last name, and its status when it was listed."""


def fill(
    unread: Iterable[tuple[Folder, list[Listed]]],
    folders: OpenFolders,
    cache: StatCache,
    contents: Contents,
    now: int,
) -> None:
    """Hang the leaves into their folders, and let the cache know what was read; `now` is when the scan
    began (ns). Raises StoreFailure where the process is out of means."""
    known, fresh, changed = cache.folders, {}, False
    for folder, names in unread:
        cached = known.get(folder.path, {})
        records, left = _from_cache(folder, names, cached, contents)
        for name in left:
            leaf, status = _look(folder, name, folders, contents)
            hang(folder, name, leaf)
            if status is not None and leaf.oid:
                records[name] = record(status, leaf.oid, now)
        fresh[folder.path] = records
        changed = changed or bool(left) or len(records) != len(cached)
    cache.replace(fresh, changed=changed or len(fresh) != len(known))


def hang(folder: Folder, name: bytes, leaf: Leaf) -> None:
    """Put a leaf into its folder; what is gone has no entry."""
    if leaf.kind == "absent":
        folder.entries.pop(name, None)
    else:
        folder.entries[name] = leaf


def _from_cache(
    folder: Folder, names: list[Listed], cached: CachedFolder, contents: Contents
) -> tuple[CachedFolder, list[bytes]]:
    """Hang what the cache is sure of; its records, and the names that are left to be read."""
    records: CachedFolder = {}
    left = []
    for _, name, status in names:
        standing = cached.get(name)
        oid = known_id(standing, status)
        if oid is None or standing is None or not contents.holds(oid):
            left.append(name)
            continue
        records[name] = standing
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            folder.entries[name] = Leaf("link", 0, oid, status.st_ctime_ns)
        else:
            folder.entries[name] = Leaf("file", mode & 0o7777, oid, status.st_ctime_ns)
    return records, left


def _look(
    folder: Folder, name: bytes, folders: OpenFolders, contents: Contents
) -> tuple[Leaf, os.stat_result | None]:
    try:
        descriptor = folders.open(folder.path)
    except OSError as error:
        return failed(error), None
    leaf, status = look(descriptor, name, contents, LARGE)
    if leaf.kind == "dir":
        return Leaf("unknown", ctime=leaf.ctime, why=CHANGING), None
    return leaf, status
