"""`recorder redo`: forward again on the same path, until a new prompt is given."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.options import count, with_going_back, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("redo", description="Go forward again a number of prompts after an undo.")
    parser.add_argument("count", metavar="N", nargs="?", type=count, default=1, help="how many (default: 1)")
    with_going_back(parser)
    with_session_option(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.aims import to_checkpoint, to_tip
    from cli.context import existing_recording
    from cli.going_back import go
    from cli.position import redo_target
    from cli.stepping import step
    from projections.checkpoints import checkpoint_of_entry

    with existing_recording(arguments) as recording:
        session, at = step(arguments, recording)
        prompt = redo_target(at, arguments.count)
        if prompt is None:
            return go(arguments, recording, session, to_tip(recording, session, at), console)
        one = checkpoint_of_entry(recording.views.connection, session.stream, prompt.entry)
        assert one is not None
        aim = to_checkpoint(recording, session, one, at, "redo", "session", arguments.what)
        return go(arguments, recording, session, aim, console)
