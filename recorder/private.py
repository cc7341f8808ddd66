"""Names that are never captured: git's own folders, and the names that a rewind uses while it works."""

from __future__ import annotations

import re

PRIVATE_PREFIX = b".recorder-"
"""A rewind's names beside the files that it writes: this, the operation's token, a dash, a digest of the
path, and a letter for the use."""

TOKEN = "[0-9a-f]{16,64}"
"""What an operation's token looks like."""

_PRIVATE = re.compile(re.escape(PRIVATE_PREFIX) + TOKEN.encode() + b"-[0-9a-f]{20}[a-z]")


def is_private(name: bytes) -> bool:
    """Whether a name is one that a rewind uses while it works: the whole shape, for what else begins with
    `.recorder` is somebody's own file."""
    return name.startswith(PRIVATE_PREFIX) and _PRIVATE.fullmatch(name) is not None


def never_captured(name: bytes) -> bool:
    """Whether one component of a path is left out of every capture, without a note in it."""
    return name == b".git" or is_private(name)


def inside_never_captured(path: bytes) -> bool:
    """Whether any component of a path is one that no capture holds."""
    return any(never_captured(name) for name in path.split(b"/"))
