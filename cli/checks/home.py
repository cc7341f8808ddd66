"""The home itself: whose it is, who can read it, and whether there is room."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from cli.checks.problem import Problem, counted, listed
from recorder.errors import Failed
from recorder.home import Home

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
ROOM = 1 << 30
"""Bytes that should be free beside the home."""
SCARCE = 100 << 20
"""With fewer free bytes captures will soon fail."""


LEVELS = 3
"""A closed folder shows what is in it only when it is open: the home, `trees`, a work tree's own."""


class _Place(NamedTuple):
    path: Path
    status: os.stat_result


def check_owner(home: Home) -> Iterator[Problem]:
    """Nothing in the home may be another user's: it could not be written, or not be trusted."""
    me = os.geteuid()
    foreign = [place for place in _places(home) if place.status.st_uid != me]
    if foreign:
        names = listed([str(place.path) for place in foreign])
        yield Problem(
            "home_foreign",
            f"{_counted(foreign)} of the home {'is' if len(foreign) == 1 else 'are'} another user's: {names}",
            f"make them yours: sudo chown -R {me} {home.folder}",
        )


def check_modes(home: Home) -> Iterator[Problem]:
    """0700 and 0600, down to the folders of the work trees: what lies in those is behind them."""
    for code, is_wrong, who in (
        ("home_open", _open_to_others, "can be read or entered by others"),
        ("home_closed", _closed_to_owner, "cannot be used by yourself"),
    ):
        wrong = [place for place in _mine(home) if is_wrong(place)]
        if wrong:
            yield Problem(
                code,
                f"{_counted(wrong)} of the home {who}: {listed([str(one.path) for one in wrong])}",
                "“recorder doctor --fix” gives folders the mode 0700 and files 0600",
                mend=lambda: _make_private(home),
            )


def check_room(home: Home, *, room: int = ROOM, scarce: int = SCARCE) -> Iterator[Problem]:
    """Room beside the home for what is captured next (bytes)."""
    from cli.output import size_text

    free = shutil.disk_usage(home.folder).free
    if free < room:
        yield Problem(
            "disk_low",
            f"only {size_text(free)} are free where the home {home.folder} lies"
            + ("; captures will soon fail" if free < scarce else ""),
            "free some space, or keep less: lower retention_days with “recorder config”, "
            "then “recorder prune”",
            "fault" if free < scarce else "advice",
        )


def _places(home: Home) -> list[_Place]:
    """The home, what is in it, and what is in its two folders; links are left alone."""
    found = [_Place(home.folder, home.folder.stat())]
    for folder in (home.folder, home.folder / "locks", home.trees):
        if os.access(folder, os.R_OK | os.X_OK):
            for path in folder.iterdir():
                with contextlib.suppress(FileNotFoundError):  # a database's own files come and go
                    status = path.lstat()
                    found += [] if stat.S_ISLNK(status.st_mode) else [_Place(path, status)]
    return found


def _mine(home: Home) -> list[_Place]:
    return [place for place in _places(home) if place.status.st_uid == os.geteuid()]


def _counted(places: Sequence[_Place]) -> str:
    return counted(len(places), "file or folder", "files or folders")


def _right_mode(place: _Place) -> int:
    return PRIVATE_FOLDER if stat.S_ISDIR(place.status.st_mode) else PRIVATE_FILE


def _open_to_others(place: _Place) -> bool:
    return bool(place.status.st_mode & 0o077)


def _closed_to_owner(place: _Place) -> bool:
    return place.status.st_mode & _right_mode(place) != _right_mode(place)


def _make_private(home: Home) -> str:
    made: set[Path] = set()
    for _ in range(LEVELS):
        for place in _mine(home):
            if _open_to_others(place) or _closed_to_owner(place):
                place.path.chmod(_right_mode(place))
                made.add(place.path)
    if any(_open_to_others(place) or _closed_to_owner(place) for place in _mine(home)):
        raise Failed(f"the file system of {home.folder} keeps no modes", code="home")
    count = counted(len(made), "file or folder", "files or folders")
    return f"{count} of the home can be used by yourself again, and by nobody else"
