"""Names that are never captured: git's own folders, and the names that a rewind uses while it works."""

from __future__ import annotations

PRIVATE_PREFIX = b".recorder-"
"""A rewind's names beside the files that it writes: this, the operation's token, and what it likes."""


def never_captured(name: bytes) -> bool:
    """Whether one component of a path is left out of every capture, without a note in it."""
    return name == b".git" or name.startswith(PRIVATE_PREFIX)


def inside_never_captured(path: bytes) -> bool:
    """Whether any component of a path is one that no capture holds."""
    return any(never_captured(name) for name in path.split(b"/"))
