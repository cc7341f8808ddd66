"""What is mounted where: file systems that the system itself makes up, whose files are no one's work and may
not even end, and parts of a tree that are bound into it a second time.

Asked of Linux's list of mounts, mountinfo in proc(5); elsewhere none is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import msgspec

from recorder.capturing.repository import read_file

_MADE_UP = frozenset(
    b"autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs functionfs fusectl hugetlbfs"
    b" mqueue nsfs proc pstore rpc_pipefs securityfs selinuxfs smackfs sysfs tracefs".split()
)
_MOUNTS = b"/proc/self/mountinfo"
_ESCAPED = re.compile(rb"\\([0-7]{3})")


class Mount(msgspec.Struct, frozen=True):
    """One mount: its device's number, the folder of the file system that is shown, where, and the type."""

    device: int
    source: bytes
    point: bytes
    kind: bytes


def made_up() -> dict[int, str]:
    """The device numbers of file systems that the system makes up, each with its type."""
    return {mount.device: mount.kind.decode() for mount in _mounts() if mount.kind in _MADE_UP}


def reason(kind: str) -> str:
    """Why nothing of such a file system is captured."""
    return f"it lies in a file system that the system itself makes up ({kind})"


def twins(tree: bytes) -> frozenset[bytes]:
    """Mount points below a folder (a real path) that show a part of it once more, or something around it."""
    known = list(_mounts())
    below = [mount for mount in known if _within(mount.point, tree) and mount.point != tree]
    around = [mount for mount in known if _within(tree, mount.point)]
    if not below or not around:
        return frozenset()
    own = max(around, key=lambda mount: len(mount.point))
    place = os.path.normpath(own.source + b"/" + tree[len(own.point.rstrip(b"/")) :])
    return frozenset(
        mount.point
        for mount in below
        if mount.device == own.device and (_within(mount.source, place) or _within(place, mount.source))
    )


def _mounts() -> Iterator[Mount]:
    for line in read_file(_MOUNTS).splitlines():
        before, _, after = line.partition(b" - ")
        fields = before.split(b" ")
        if len(fields) > 4:
            major, _, minor = fields[2].partition(b":")
            device = os.makedev(int(major), int(minor))
            yield Mount(device, _plain(fields[3]), _plain(fields[4]), after.partition(b" ")[0])


def _plain(field: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), field)


def _within(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")
