"""Files that are on the disk, whole and private, before the call that writes them returns."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import BinaryIO

from recorder.errors import StoreFailure


def write_durably(file: Path, content: bytes, temporary: Path | None = None) -> None:
    """Replace a file as a whole; it is on the disk, under its name, before this returns. It is written
    beside, or as `temporary` where a half-written file beside it would be taken for something.

    Raises StoreFailure, and leaves nothing behind then.
    """
    temporary = temporary or file.with_name(f"{file.name}.new")
    try:
        with private_file(temporary) as opened:
            opened.write(content)
            flush(opened)
        temporary.replace(file)
        sync_folder(file.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise StoreFailure(f"{file} cannot be written: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_file(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w+b")


def flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def put_aside(path: Path, quarantine: Path) -> Path:
    """Move a file or folder that is not what it should be out of the way, into the folder `quarantine`; where
    it is then. Nothing is ever written over there. Raises OSError."""
    quarantine.mkdir(mode=0o700, exist_ok=True)
    aside = quarantine / f"{time.time_ns()}-{path.name}"
    path.rename(aside)
    return aside
