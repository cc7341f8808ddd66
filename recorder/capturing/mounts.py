"""Which file systems the system itself makes up: their files are no one's work and may not even end.

Asked of Linux's list of mounts, mountinfo in proc(5); elsewhere none is known.
"""

from __future__ import annotations

import os

from recorder.capturing.repository import read_file

_MADE_UP = frozenset(
    b"autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs functionfs fusectl hugetlbfs"
    b" mqueue nsfs proc pstore rpc_pipefs securityfs selinuxfs smackfs sysfs tracefs".split()
)
_MOUNTS = b"/proc/self/mountinfo"


def made_up() -> dict[int, str]:
    """The device numbers of such file systems that are mounted now, each with its type."""
    found: dict[int, str] = {}
    for line in read_file(_MOUNTS).splitlines():
        before, _, after = line.partition(b" - ")
        fields, kind = before.split(b" "), after.partition(b" ")[0]
        if kind in _MADE_UP and len(fields) > 2:
            major, _, minor = fields[2].partition(b":")
            found[os.makedev(int(major), int(minor))] = kind.decode()
    return found


def reason(kind: str) -> str:
    """Why nothing of such a file system is captured."""
    return f"it lies in a file system that the system itself makes up ({kind})"
