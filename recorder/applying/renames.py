"""Two renames that lose nothing: exchange two names, and move to a name that must be free.

Both are one system call where kernel and file system have it: `renameat2` on Linux (renameat2(2)),
`renameatx_np` on macOS (its manual page). Elsewhere the nearest safe thing is done:

- *move* to a private name: a check and a plain rename, for nobody else makes such a name. From a
  private name: a hard link at the new name, which fails where that is taken, then the private one is
  removed. Folders, and file systems without hard links, get the plain rename here too: the one place
  with a gap in which something just made at the new name could be replaced.
- *exchange*: three moves over a spare name. The name stands free for an instant, and a crash can
  leave it so; `settle` makes such half-made moves whole again.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from functools import cache

from recorder.private import is_private

Hook = Callable[[str], None]
"""Called with a short name before and after every effect on the disk."""

_EXCHANGE = 2
_NO_CALL = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_NO_LINKS = frozenset({errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


class Unsupported(Exception):
    """The kernel or the file system has no such call."""


@contextlib.contextmanager
def effect(hook: Hook, name: str) -> Iterator[None]:
    """Frame one effect on the disk with its two calls of the hook."""
    hook(f"before {name}")
    yield
    hook(f"after {name}")


def exchange(folder: int, one: bytes, other: bytes, spare: bytes, hook: Hook) -> None:
    """Let two names of an open folder change places. `spare` is a free name. Raises OSError."""
    try:
        with effect(hook, "exchange"):
            _call(folder, one, other, _EXCHANGE)
    except Unsupported:
        move(folder, other, spare, hook)
        move(folder, one, other, hook)
        move(folder, spare, one, hook)


def move(folder: int, old: bytes, new: bytes, hook: Hook) -> None:
    """Rename within an open folder, one of the names a private one, to a name that is free.

    Raises FileExistsError where it is not, OSError.
    """
    try:
        with effect(hook, "move"):
            _call(folder, old, new, _exclusive())
    except Unsupported:
        if is_private(new) or not _move_by_link(folder, old, new, hook):
            _move_checked(folder, old, new, hook)


def settle(folder: int, names: tuple[bytes, ...], hook: Hook) -> None:
    """End the moves by link that a crash left half made: where two of the names are one file, the one
    that comes first in `names` is removed."""
    standing = [(name, status) for name in names if (status := look(folder, name)) is not None]
    for index, (name, status) in enumerate(standing):
        if any(os.path.samestat(status, later) for _, later in standing[index + 1 :]):
            with effect(hook, "unlink"):
                os.unlink(name, dir_fd=folder)


def _move_by_link(folder: int, private: bytes, new: bytes, hook: Hook) -> bool:
    """False where it cannot be done so."""
    standing = look(folder, private)
    if standing is None or stat.S_ISDIR(standing.st_mode):
        return False
    try:
        with effect(hook, "link"):
            os.link(private, new, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    with effect(hook, "unlink"):
        os.unlink(private, dir_fd=folder)
    return True


def _move_checked(folder: int, old: bytes, new: bytes, hook: Hook) -> None:
    if look(folder, new) is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new)
    with effect(hook, "rename"):
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)


def look(folder: int, name: bytes) -> os.stat_result | None:
    """What stands at a name of an open folder, links not followed; None where nothing does."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


@cache
def _library() -> tuple[Callable[..., int] | None, int]:
    """The C library's call, and its flag for "the new name must be free"."""
    library = ctypes.CDLL(None, use_errno=True)
    for symbol, exclusive in (("renameat2", 1), ("renameatx_np", 4)):
        call = getattr(library, symbol, None)
        if call is not None:
            call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
            return call, exclusive
    return None, 0


def _exclusive() -> int:
    return _library()[1]


def _call(folder: int, old: bytes, new: bytes, flags: int) -> None:
    call, _ = _library()
    if call is None:
        raise Unsupported
    if call(folder, old, folder, new, flags) == 0:
        return
    number = ctypes.get_errno()
    if number in _NO_CALL:
        raise Unsupported
    raise OSError(number, os.strerror(number), new)
