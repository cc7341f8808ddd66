"""`recorder cat`: the bytes of one file at a checkpoint."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from cli.options import PLACE_HELP, with_at, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console
    from recorder.capture import Tree
    from recorder.errors import RecorderError


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "cat", description="Write the bytes of one file, as it stood at a checkpoint, to stdout."
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=PLACE_HELP)
    parser.add_argument(
        "path", metavar="PATH", type=os.fsencode, help="relative to the work tree, or absolute"
    )
    with_session_option(parser)
    with_at(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording
    from cli.files import commit_of, stored_files
    from cli.paths import relative_to_tree
    from cli.places import the_place
    from projections.capture import known_tree
    from recorder.errors import NotFound, Refused

    with existing_recording(arguments) as recording:
        place = the_place(recording, arguments, arguments.checkpoint)
        checkpoint = place.checkpoint
        commit = commit_of(checkpoint)
        assert checkpoint.tree is not None
        path = relative_to_tree(
            arguments.path, known_tree(recording.views, checkpoint.tree).path, os.getcwdb()
        )
        with stored_files(recording, checkpoint.tree) as files:
            state = files.stored_state(commit, path)
            name = os.fsdecode(path)
            if state.kind == "absent":
                raise NotFound(f"{name} did not exist at {place.name}", code="no_file")
            if not state.known:
                raise _unknown(files, commit, path, place.name)
            if state.kind == "dir":
                raise Refused(f"{name} was a folder at {place.name}", code="folder")
            sys.stdout.buffer.write(files.blob(state.oid))
    return 0


def _unknown(files: Tree, commit: str, path: bytes, place: str) -> RecorderError:
    """Why a capture has no content for a path: what is damaged is not what was left out. Raises
    IntegrityFailure where the capture itself is damaged."""
    from recorder.capturing.trees import LOST
    from recorder.errors import IntegrityFailure, NotFound
    from recorder.planning.spans import parents

    whys = {note.path: note.why for notes in files.notes(commit) for note in notes}
    why = next((whys[one] for one in (path, *parents(path), b".") if one in whys), "nothing is known of it")
    name = os.fsdecode(path)
    if why == LOST:
        return IntegrityFailure(f"{name} at {place} failed its integrity check: {why}")
    return NotFound(f"{name} was not captured at {place}: {why}", code="no_file")
