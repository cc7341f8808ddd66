"""`recorder checkpoint`: one screen on this folder; `checkpoint undo` takes the newest rewind back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cli.options import with_going_back, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console

OF_STATUS = ("action", "session", "cwd", "json")
"""What `status` takes; the other options are of `undo`."""


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "checkpoint",
        description="Show on one screen what is recorded of this folder, and how; or take the newest rewind "
        "here back, as “recorder rewind --undo” does, whose other options are for “undo” alone.",
    )
    parser.add_argument("action", metavar="status|undo", nargs="?", choices=("status", "undo"), help="")
    with_going_back(parser)
    with_session_option(parser)
    parser.set_defaults(unsaid=parser.parse_args([]))


def run(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.action == "undo":
        from cli.commands import rewind

        vars(arguments).update(undo=True, redo=False, checkpoint=None, scope="session")
        return rewind.run(arguments, console)
    _refuse_others_options(arguments)
    from cli.status import status_document

    document = status_document(arguments)
    if arguments.json:
        console.json(document)
    else:
        _show(document, console)
        if arguments.action is None:
            console.show("\nUsage: recorder checkpoint [status|undo]")
    return 0


def _refuse_others_options(arguments: argparse.Namespace) -> None:
    from recorder.errors import UsageProblem

    for name, unsaid in vars(arguments.unsaid).items():
        if name not in OF_STATUS and getattr(arguments, name) != unsaid:
            raise UsageProblem("that option is for “recorder checkpoint undo”")


def _show(document: dict[str, Any], console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    from cli.commands.checkpoints import show_checkpoints

    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for name, text in _rows(document):
        rows.add_row(name, Text(text))
    console.show(rows)
    if document["recent"]:
        console.show("")
        show_checkpoints(document["recent"], console)


def _rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    from cli.checks.problem import counted
    from cli.output import path_text, size_text
    from recorder.plain import one_line

    rows = [("folder", path_text(document["work_tree"]))] if document["work_tree"] else []
    rows += [("files", _files(document)), ("captured by", _HOW[document["how"]])]
    if document["session"]:
        checkpoints = counted(document["checkpoints"], "checkpoint")
        counts = f"{checkpoints}, {counted(document['steps'], 'step')}"
        rows.append(("session", f"{document['session']}: {counts}"))
    if document["recorded"]:
        limits = (
            f"kept for {document['retention_days']} days, "
            f"and {document['max_checkpoints']} checkpoints a session"
        )
        rows.append(("store", f"{size_text(document['store']['bytes'])}; {limits}"))
        undo = "recorder checkpoint undo" if document["can_undo"] else "no rewind to take back"
        rows += [("last failure", _failure(document["last_failure"])), ("undo", undo)]
    return rows + [("note", one_line(note)) for note in document["notes"]]


_HOW = {
    "hook": "the agent's own hook",
    "watch": "“recorder watch”, which runs",
    "none": "nobody right now: run “recorder watch” beside your agent",
}
_KINDS = {
    "repository": "the whole git work tree, at every prompt",
    "folder": "the whole folder, at every prompt",
    "per-file": "only those that tools name",
    "disabled": "none",
}


def _files(document: dict[str, Any]) -> str:
    from recorder.plain import one_line

    words = _KINDS[document["kind"]] + (f": {one_line(document['why'])}" if document["why"] else "")
    if document["recorded"]:
        return words
    return f"nothing is kept yet{'' if document['kind'] == 'disabled' else '; it would be'} {words}"


def _failure(failure: dict[str, Any] | None) -> str:
    from cli.output import relative_time
    from recorder.plain import one_line

    if failure is None:
        return "none"
    healed = "; what came later was captured" if failure["healed"] else ""
    number, when = failure["checkpoint"]["number"], relative_time(failure["at"])
    return f"#{number}, {when}: {one_line(failure['why'])}{healed}"
