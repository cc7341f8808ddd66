"""What stands in a folder, read by open folders alone and without any code of the recorder: everything that
the file system tells of a name but the time of the last reading."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Mapping
from typing import NamedTuple

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
UNREADABLE = "unreadable"


class Entry(NamedTuple):
    """`content` is a file's digest, a link's target, or empty; times in ns."""

    kind: str
    mode: int
    content: bytes | str
    size: int
    inode: int
    links: int
    owner: tuple[int, int]
    attributes: tuple[tuple[str, bytes], ...]
    device: int
    modified: int
    changed: int

    @property
    def what(self) -> tuple[object, ...]:
        """What a person would say stands there."""
        return self.kind, oct(self.mode), self.content


Listing = dict[bytes, Entry]


def listing(root: bytes) -> Listing:
    """Everything below `root`, by relative path; of a folder that may not be read, nothing below it."""
    found: Listing = {}
    descriptor = os.open(root, _FOLDER)
    try:
        _list(descriptor, b"", found)
    finally:
        os.close(descriptor)
    return found


def _list(folder: int, above: bytes, found: Listing) -> None:
    with contextlib.suppress(PermissionError):
        for text in sorted(os.listdir(folder)):
            name = os.fsencode(text)
            path = above + name
            found[path] = _entry(folder, name)
            if found[path].kind == "dir":
                with contextlib.suppress(PermissionError):
                    below = os.open(name, _FOLDER, dir_fd=folder)
                    try:
                        _list(below, path + b"/", found)
                    finally:
                        os.close(below)


def _entry(folder: int, name: bytes) -> Entry:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    kind, content = _content(folder, name, status)
    return Entry(
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        content=content,
        size=status.st_size if kind == "file" else 0,
        inode=status.st_ino,
        links=status.st_nlink,
        owner=(status.st_uid, status.st_gid),
        attributes=_attributes(folder, name),
        device=status.st_rdev,
        modified=status.st_mtime_ns,
        changed=status.st_ctime_ns,
    )


def _content(folder: int, name: bytes, status: os.stat_result) -> tuple[str, bytes | str]:
    if stat.S_ISLNK(status.st_mode):
        return "link", os.readlink(name, dir_fd=folder)
    if stat.S_ISDIR(status.st_mode):
        return "dir", b""
    if not stat.S_ISREG(status.st_mode):
        return f"special {stat.S_IFMT(status.st_mode):o}", b""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
    except PermissionError:
        return "file", UNREADABLE
    with os.fdopen(descriptor, "rb") as file:
        return "file", hashlib.file_digest(file, "sha256").hexdigest()


def _attributes(folder: int, name: bytes) -> tuple[tuple[str, bytes], ...]:
    """Extended attributes, access lists among them, of what is no special file."""
    path = b"/proc/self/fd/%d/%s" % (folder, name)
    with contextlib.suppress(OSError):
        names = sorted(os.listxattr(path, follow_symlinks=False))
        return tuple((key, os.getxattr(path, key, follow_symlinks=False)) for key in names)
    return ()


def twins(entries: Listing) -> set[frozenset[bytes]]:
    """The groups of names that are one file."""
    groups: dict[int, set[bytes]] = {}
    for path, entry in entries.items():
        if entry.kind != "dir" and entry.links > 1:
            groups.setdefault(entry.inode, set()).add(path)
    return {frozenset(group) for group in groups.values()}


def same_thing(one: Entry | None, other: Entry | None) -> bool:
    """Whether it is the very same thing, untouched. A folder's times follow from what lies in it, a file's
    time of change from its other links where their number changed: they do not count then."""
    if one is None or other is None:
        return one is other
    if one.kind == "dir" or one.links != other.links:
        one, other = one._replace(changed=0, links=0), other._replace(changed=0, links=0)
    if one.kind == "dir":
        one, other = one._replace(modified=0), other._replace(modified=0)
    return one == other


def below(entries: Mapping[bytes, Entry], folder: bytes) -> Listing:
    return {path: one for path, one in entries.items() if path == folder or path.startswith(folder + b"/")}
