"""What a capture takes in and what it leaves out, as numbers and patterns."""

from __future__ import annotations

import msgspec

KIB = 1024
MIB = 1024 * KIB

MAX_NESTED_FILES = 20_000
"""A nested repository with more files is captured per file."""
MAX_FOLDER_FILES = 50_000
"""A plain folder with more files is captured per file."""
MAX_REPOSITORY_FILES = 500_000
"""So is a repository with more: each capture would take a minute, and gigabytes of memory."""
MAX_DEPTH = 1_000
"""Folders below this level are left out: no tool that reads the store follows them."""

SMALL_IGNORED = (b".env*", b"*.local*")
"""Ignored files of these names are captured all the same: they are what a person cannot get back."""
MAX_SMALL_IGNORED_BYTES = 64 * KIB
MAX_SMALL_IGNORED_FILES = 100


class Policy(msgspec.Struct, frozen=True):
    """The settings that a capture goes by. `exclude` and `include_ignored` are lines in the syntax of
    a gitignore file, relative to the work tree; an ignored folder is entered only for a line with a
    slash before its end that leads into it, or one that names the folder itself."""

    max_untracked_bytes: int = 2 * MIB
    max_outside_bytes: int = 8 * MIB
    exclude: tuple[str, ...] = ()
    include_ignored: tuple[str, ...] = ()


def size(count: int) -> str:
    """A number of bytes, for a reason: `2 MiB`, `64 KiB`, `10 bytes`."""
    for unit, name in ((MIB, "MiB"), (KIB, "KiB")):
        if count >= unit and count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count:,} bytes"
