"""`recorder log`: the events, oldest first."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.options import with_at, with_json, with_session_argument

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.options import Subparsers
    from cli.output import Console
    from projections.sessions import SessionRow
    from recorder.log import Stored


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "log", description="Show the recorded events of a session and of its work tree, oldest first."
    )
    with_session_argument(parser)
    parser.add_argument("--type", metavar="T", help="only events of this type, such as PromptGiven")
    parser.add_argument("--path", metavar="P", type=os.fsencode, help="only events that touch this file")
    with_at(parser)
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording, the_session
    from cli.events import event_document

    _check_type(arguments.type)
    with existing_recording(arguments) as recording:
        session = the_session(recording, arguments)
        chosen = _chosen(recording, session, arguments)
        documents = (event_document(stored, session.session) for stored in chosen)
        if arguments.json:
            console.json(list(documents))
        else:
            _show(documents, console)
    return 0


def _check_type(word: str | None) -> None:
    """Raises UsageProblem for a type that no event has, naming those that come near."""
    from difflib import get_close_matches

    from recorder.errors import UsageProblem
    from recorder.events import FACTS, Fact, Unread

    kinds: list[type[Fact]] = [*FACTS, Unread]
    names = {kind.__name__.lower(): kind.__name__ for kind in kinds}
    if word is None or word.lower() in names:
        return
    near = get_close_matches(word.lower(), names, n=3) or sorted(names)
    listed = ", ".join(names[one] for one in near)
    raise UsageProblem(
        f"no event is of type {word!r}; there is {listed}", candidates=[names[o] for o in near]
    )


def _chosen(recording: Recording, session: SessionRow, arguments: argparse.Namespace) -> Iterator[Stored]:
    from cli.events import touches

    streams = {session.stream, session.tree}
    upto = arguments.at
    position = 0
    while page := recording.log.read(after=position, upto=upto):
        position = page[-1].position
        for stored in page:
            if stored.fact.originator_id.hex not in streams:
                continue
            if arguments.type and type(stored.fact).__name__.lower() != arguments.type.lower():
                continue
            if arguments.path and not touches(stored.fact, arguments.path):
                continue
            yield stored


def _show(documents: Iterator[dict[str, object]], console: Console) -> None:
    from cli.output import local_time, one_line

    for one in documents:
        line = f"{one['position']:>7}  {local_time(str(one['time']))}  {one['type']:<18} {one['summary']}"
        console.show(one_line(line, console.width))
