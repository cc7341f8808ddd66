"""What a shell does to files, in a few words: every path is bytes, every effect is a plain system call."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator

Act = Callable[[bytes], object]


def both(*acts: Act) -> Act:
    """One after the other, in the same folder."""

    def act(here: bytes) -> None:
        for one in acts:
            one(here)

    return act


def nothing(_: bytes) -> None:
    pass


def put(name: bytes, content: bytes = b"", mode: int = 0o644) -> Act:
    """A file written over or made, with the folders above it."""

    def act(here: bytes) -> None:
        path = os.path.join(here, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)

    return act


def edit(name: bytes, content: bytes) -> Act:
    """Other bytes in the same file, its mode as it is."""

    def act(here: bytes) -> None:
        with open(os.path.join(here, name), "r+b") as file:
            file.write(content)
            file.truncate()

    return act


def replace(name: bytes, content: bytes, mode: int = 0o644) -> Act:
    """As editors save: written beside, renamed over."""
    return both(
        put(name + b"~" if len(name) < 255 else b"~", content, mode),
        lambda here: os.rename(
            os.path.join(here, name + b"~" if len(name) < 255 else b"~"), os.path.join(here, name)
        ),
    )


def folder(name: bytes, mode: int = 0o755) -> Act:
    def act(here: bytes) -> None:
        os.makedirs(os.path.join(here, name), exist_ok=True)
        os.chmod(os.path.join(here, name), mode)

    return act


def link(name: bytes, target: bytes) -> Act:
    return lambda here: os.symlink(target, os.path.join(here, name))


def twin(name: bytes, new: bytes) -> Act:
    """A hard link."""
    return lambda here: os.link(os.path.join(here, name), os.path.join(here, new), follow_symlinks=False)


def rename(old: bytes, new: bytes) -> Act:
    return lambda here: os.rename(os.path.join(here, old), os.path.join(here, new))


def mode(name: bytes, bits: int) -> Act:
    return lambda here: os.chmod(os.path.join(here, name), bits)


def remove(name: bytes) -> Act:
    """A file, a link, or a folder with all in it."""

    def act(here: bytes) -> None:
        path = os.path.join(here, name)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    return act


def pipe(name: bytes) -> Act:
    return lambda here: os.mkfifo(os.path.join(here, name))


def listener(name: bytes) -> Act:
    """A socket's file."""

    def act(here: bytes) -> None:
        with socket.socket(socket.AF_UNIX) as one, standing_in(here):
            one.bind(name)

    return act


def attribute(name: bytes, key: str, value: bytes) -> Act:
    return lambda here: os.setxattr(os.path.join(here, name), key, value)


def owner(name: bytes, user: int, group: int) -> Act:
    return lambda here: os.chown(os.path.join(here, name), user, group, follow_symlinks=False)


@contextlib.contextmanager
def standing_in(here: bytes) -> Iterator[None]:
    before = os.open(".", os.O_RDONLY)
    os.chdir(here)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)


@contextlib.contextmanager
def standing_deep(here: bytes, name: bytes, levels: int) -> Iterator[None]:
    """In a folder so many levels of `name` below, made where missing: also deeper than a path can name."""
    with standing_in(here):
        for _ in range(levels):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name)
            os.chdir(name)
        yield
