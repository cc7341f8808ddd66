"""What most commands need first: the home, the log and the views, opened and caught up."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cli.choice import choose_session
from projections.sessions import SessionRow
from projections.views import Views, open_views, views_as_of
from recorder.errors import NotFound
from recorder.home import Home, find_home, open_home
from recorder.log import EventLog, open_log


class Recording(NamedTuple):
    """An open recording."""

    home: Home
    log: EventLog
    views: Views


def home_folder(arguments: argparse.Namespace) -> Path:
    """Where the home is; absolute."""
    return Path(arguments.home)


def has_recording(arguments: argparse.Namespace) -> bool:
    return find_home(home_folder(arguments)) is not None


@contextlib.contextmanager
def existing_recording(arguments: argparse.Namespace) -> Iterator[Recording]:
    """The recording of a home that exists; with `--at`, as it stood then. Raises NotFound."""
    folder = home_folder(arguments)
    home = find_home(folder)
    if home is None:
        raise NotFound(
            f"nothing is recorded in {folder} yet; run `recorder watch` beside your agent", code="no_home"
        )
    at = getattr(arguments, "at", None)
    with open_recording(home, at=at) as recording:
        if at is None:
            _recover(recording)
        yield recording


@contextlib.contextmanager
def new_recording(arguments: argparse.Namespace) -> Iterator[Recording]:
    """The recording of a home, which is created where it is missing."""
    with open_recording(open_home(home_folder(arguments))) as recording:
        _recover(recording)
        yield recording


def _recover(recording: Recording) -> None:
    """Whatever starts next ends what a crash left half done. Raises Unrecovered (exit 6)."""
    from cli.output import write_error
    from cli.recovering import recover

    for sentence in recover(recording):
        write_error(f"recorder: {sentence}")


@contextlib.contextmanager
def open_recording(home: Home, *, at: int | None = None) -> Iterator[Recording]:
    """The log and views of a home; `at` a position of the log (None: now)."""
    from cli.output import write_error
    from migrations.upcasts import UPCASTS

    def tell(sentence: str) -> None:
        write_error(f"recorder: {sentence}")

    with open_log(home, upcasts=UPCASTS) as log:
        views = open_views(home, log, tell=tell) if at is None else views_as_of(log, at)
        with views:
            yield Recording(home, log, views)


def current_folder(arguments: argparse.Namespace) -> bytes:
    """The real path of the folder that a command is about: `--cwd`, else the current one."""
    return os.path.realpath(os.fsencode(getattr(arguments, "cwd", None) or os.getcwd()))


def the_session(
    recording: Recording, arguments: argparse.Namespace, *, changing_now: int | None = None
) -> SessionRow:
    """The session that a command is about: SESSION or `--session`, else by the surroundings."""
    named = getattr(arguments, "session", None) or getattr(arguments, "word", None)
    return choose_session(
        recording.views.connection,
        named,
        current_folder(arguments),
        os.environ,
        changing_now=changing_now,
    )
