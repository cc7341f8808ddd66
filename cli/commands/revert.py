"""`recorder revert`: take back what one prompt's run changed, and keep all that came later."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from cli.options import CHECKPOINT_HELP, with_going_back_files, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "revert", description="Take back only what one prompt's run changed, and keep all that came later."
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT_HELP)
    with_going_back_files(parser)
    parser.set_defaults(what="files")
    with_session_option(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.aims import of_one_run
    from cli.catching_up import catch_up_log
    from cli.context import existing_recording
    from cli.going_back import go
    from cli.pick import the_checkpoint
    from cli.position import standing
    from projections import operations

    with existing_recording(arguments) as recording:
        session, _ = the_checkpoint(recording, arguments, arguments.checkpoint, changing_now=time.time_ns())
        catch_up_log(recording, session, arguments=arguments)
        session, one = the_checkpoint(recording, arguments, arguments.checkpoint)
        done = operations.operations_of(recording.views.connection, one.tree or "")
        at = standing(recording.views.connection, session.stream, done)
        return go(arguments, recording, session, of_one_run(recording, session, one, at), console)
