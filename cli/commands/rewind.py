"""`recorder rewind`: take files and conversation back to just before a prompt."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from cli.options import PLACE_HELP, with_going_back, with_session_option

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.options import Subparsers
    from cli.output import Console
    from projections.sessions import SessionRow


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "rewind", description="Take files and conversation back to the state just before a prompt."
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", nargs="?", help=PLACE_HELP)
    inverse = parser.add_mutually_exclusive_group()
    inverse.add_argument(
        "--undo", action="store_true", help="take back the newest rewind, undo, redo or revert here"
    )
    inverse.add_argument("--redo", action="store_true", help="take back the newest --undo")
    parser.add_argument(
        "--scope",
        choices=("session", "tree"),
        default="session",
        help="what the session changed (default), or the whole work tree as it was captured",
    )
    with_going_back(parser)
    with_session_option(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording
    from recorder.errors import UsageProblem

    if (arguments.undo or arguments.redo) and (arguments.checkpoint or arguments.scope == "tree"):
        raise UsageProblem("--undo and --redo take no checkpoint and no scope")
    if not (arguments.undo or arguments.redo or arguments.checkpoint) and (
        arguments.json or not console.interactive
    ):
        raise UsageProblem("no checkpoint is named; see “recorder checkpoints”")
    with existing_recording(arguments) as recording:
        if arguments.undo or arguments.redo:
            return _invert(arguments, recording, console)
        return _rewind(arguments, recording, console)


def _rewind(arguments: argparse.Namespace, recording: Recording, console: Console) -> int:
    from cli.aims import to_place
    from cli.catching_up import catch_up_log
    from cli.going_back import go
    from cli.places import the_place
    from cli.position import standing
    from projections import operations

    word = arguments.checkpoint or _picked(arguments, recording)
    if word is None:
        console.show("Nothing was changed.")
        return 0
    session = the_place(recording, arguments, word, changing_now=time.time_ns()).session
    catch_up_log(recording, session, arguments=arguments)
    place = the_place(recording, arguments, word)
    done = operations.operations_of(recording.views.connection, place.checkpoint.tree or "")
    at = standing(recording.views.connection, place.session.stream, done)
    aim = to_place(recording, place, at, arguments.scope, arguments.what)
    return go(arguments, recording, place.session, aim, console)


def _picked(arguments: argparse.Namespace, recording: Recording) -> str | None:
    """The id of the checkpoint that a person picks, or None."""
    from cli.context import the_session
    from cli.picker import pick_checkpoint

    session = the_session(recording, arguments, changing_now=time.time_ns())
    return pick_checkpoint(recording, session)


def _invert(arguments: argparse.Namespace, recording: Recording, console: Console) -> int:
    from cli.aims import inverse, session_of
    from cli.catching_up import catch_up_log
    from cli.going_back import go
    from projections.operations import operations_of, to_redo, to_undo
    from recorder.errors import NotFound

    tree, newest = _tree_here(arguments, recording)
    catch_up_log(recording, newest, arguments=arguments)
    done = operations_of(recording.views.connection, tree)
    operation = to_undo(done) if arguments.undo else to_redo(done)
    if operation is None:
        word = "no rewind to undo" if arguments.undo else "no undo to redo"
        raise NotFound(f"there is {word} in this work tree", code="nothing_to_undo")
    session = session_of(recording.views.connection, operation.session)
    verbs = {one.operation: one.verb for one in done}
    subject = operation.verb if arguments.undo else verbs.get(operation.inverts or "", "operation")
    aim = inverse(recording, operation, "undo-rewind" if arguments.undo else "redo-rewind", subject)
    return go(arguments, recording, session, aim, console)


def _tree_here(arguments: argparse.Namespace, recording: Recording) -> tuple[str, SessionRow]:
    """The work tree that is meant, and a session of it: the newest with files captured."""
    from cli.choice import choose_session, contains, tree_stream_of
    from cli.context import current_folder
    from projections.sessions import sessions

    connection = recording.views.connection
    here = current_folder(arguments)
    captured = [one for one in sessions(connection) if one.tree is not None and contains(one, here)]
    if captured and not arguments.session:
        session = captured[0]
    else:
        session = choose_session(connection, arguments.session, here, os.environ)
    return tree_stream_of(connection, session), session
