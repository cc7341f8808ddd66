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
    from cli.context import existing_recording
    from cli.progress import counting
    from projections.views import rebuild

    with existing_recording(arguments) as recording:
        total = recording.log.head().position
        with counting("events", total, console) as advance:
            position = rebuild(recording.views, progress=_absolute(advance))
    if arguments.json:
        console.json({"events": position})
    else:
        console.show(f"The views are folded anew from {position} events.")
    return 0


def _absolute(advance: Callable[[int], None]) -> Callable[[int], None]:
    """The bar moves by steps, the fold tells positions."""
    reached = 0

    def tell(position: int) -> None:
        nonlocal reached
        advance(position - reached)
        reached = position

    return tell
