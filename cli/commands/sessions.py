"""`recorder sessions`: the recorded sessions of this folder and below."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from cli.options import with_at, with_folder, with_json

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.options import Subparsers
    from cli.output import Console
    from projections.sessions import SessionRow


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "sessions", description="Show the recorded sessions of this folder and below, newest activity first."
    )
    parser.add_argument("--all", action="store_true", help="sessions of every folder")
    parser.add_argument("--agent", metavar="AGENT", help="only this agent's: pi or claude")
    with_folder(parser)
    with_at(parser)
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.choice import short_ids
    from cli.context import existing_recording, has_recording
    from projections.sessions import sessions

    _check_agent(arguments.agent)
    documents: list[dict[str, object]] = []
    short: dict[str, str] = {}
    if has_recording(arguments):
        with existing_recording(arguments) as recording:
            documents = _documents(recording, arguments)
            short = short_ids([one.session for one in sessions(recording.views.connection)])
    if arguments.json:
        console.json(documents)
    else:
        _show(documents, short, console)
    return 0


def _check_agent(word: str | None) -> None:
    from recorder.errors import UsageProblem
    from recorder.sources import all_sources

    known = [source.agent for source in all_sources()]
    if word is not None and word not in known:
        raise UsageProblem(f"there is no agent {word!r}; choose from {', '.join(known)}", candidates=known)


def _documents(recording: Recording, arguments: argparse.Namespace) -> list[dict[str, object]]:
    from cli.context import current_folder
    from projections.listing import session_document
    from projections.running import under_way
    from projections.sessions import sessions
    from recorder.sources import source_of

    connection, now = recording.views.connection, time.time_ns()
    here = b"" if arguments.all else current_folder(arguments)
    chosen = [
        one
        for one in sessions(connection)
        if (arguments.all or _belongs(one, here)) and arguments.agent in (None, one.agent)
    ]
    return [
        session_document(
            connection,
            one,
            under_way(connection, one.stream, one.session, one.log, source_of(one.agent), now) is not None,
        )
        for one in chosen
    ]


def _belongs(session: SessionRow, folder: bytes) -> bool:
    """Whether a session's work tree is this folder, lies below it, or contains it."""
    from cli.choice import contains

    root = session.tree_path or (os.fsencode(session.cwd) if session.cwd else None)
    if root is None:
        return False
    return root.startswith(folder.rstrip(b"/") + b"/") or contains(session, folder)


def _show(documents: list[dict[str, object]], short: dict[str, str], console: Console) -> None:
    from cli.output import relative_time
    from cli.tables import table

    if not documents:
        console.show("No session is recorded here; “recorder sessions --all” shows those of other folders.")
        return
    rows = table(console, "session", "agent", "activity", "checkpoints", "first prompt")
    for one in documents:
        rows.add_row(
            short[str(one["id"])],
            str(one["agent"]),
            "running" if one["running"] else relative_time(str(one["last_activity"])),
            str(one["checkpoints"]),
            str(one["name"] or one["first_prompt"] or ""),
        )
    console.show(rows)
