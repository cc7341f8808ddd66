"""Frames that hooks left for a daemon that was not there: each a file of its own, handed on once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from cli.frames import BadFrame, Frame, parse


def spooled(home: Path) -> Iterator[Frame]:
    """What lies in the spool, oldest first. A frame counts as taken when the next one is asked for; one that
    is none is let go."""
    folder = home / "spool"
    try:
        names = sorted((name for name in folder.iterdir() if not name.name.startswith(".")), key=_age)
    except (FileNotFoundError, NotADirectoryError):
        return
    for path in names:
        try:
            frame = parse(path.read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, BadFrame):
            frame = None
        if frame is not None:
            yield frame
        with contextlib.suppress(OSError):
            path.unlink()


def _age(path: Path) -> tuple[int, str]:
    when = path.name.partition("-")[0]
    return (int(when) if when.isdecimal() else 0, path.name)
