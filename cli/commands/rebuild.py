"""`recorder rebuild`: fold every view anew from the log."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.options import with_json

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "rebuild",
        description="Fold every view anew from the log; the old views serve until the new ones are whole.",
    )
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    import sqlite3

    from recorder.errors import IntegrityFailure

    try:
        position = _rebuilt(arguments, console)
    except (IntegrityFailure, sqlite3.DatabaseError) as error:
        if isinstance(error, IntegrityFailure) and error.code != "views_damaged":
            raise
        _remove_damaged(arguments)
        position = _rebuilt(arguments, console)
    if arguments.json:
        console.json({"events": position})
    else:
        console.show(f"The views are folded anew from {position} events.")
    return 0


def _rebuilt(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording
    from cli.progress import counting
    from projections.views import rebuild

    with existing_recording(arguments) as recording:
        total = recording.log.head().position
        with counting("events", total, console) as advance:
            return rebuild(recording.views, progress=_absolute(advance))


def _remove_damaged(arguments: argparse.Namespace) -> None:
    from cli.context import home_folder
    from projections.views import remove
    from recorder.home import find_home

    home = find_home(home_folder(arguments))
    if home is not None:
        remove(home)


def _absolute(advance: Callable[[int], None]) -> Callable[[int], None]:
    """The bar moves by steps, the fold tells positions."""
    reached = 0

    def tell(position: int) -> None:
        nonlocal reached
        advance(position - reached)
        reached = position

    return tell
