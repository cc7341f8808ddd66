"""Extended attributes of open files, access lists and capabilities among them."""

from __future__ import annotations

import errno
import os

_LABELS = "security."
"""Set by the system itself on what is new; only overwritten, never removed."""

CAPABILITIES = "security.capability"
"""A program's, which every write to it takes away (capabilities(7))."""


def read(descriptor: int) -> dict[str, bytes]:
    """All of an open file's; none where the file system has none. Raises OSError."""
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {key: os.getxattr(descriptor, key) for key in os.listxattr(descriptor)}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return {}
        raise


def bring(descriptor: int, standing: dict[str, bytes], wanted: dict[str, bytes]) -> None:
    """Turn an open file's attributes from what they are into what they are to be. Raises OSError."""
    for key in standing.keys() - wanted.keys():
        if not key.startswith(_LABELS):
            os.removexattr(descriptor, key)
    for key, value in wanted.items():
        if standing.get(key) != value:
            os.setxattr(descriptor, key, value)
