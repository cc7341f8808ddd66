"""`recorder checkpoints`: the checkpoints of a session, newest first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cli.options import with_at, with_json, with_session_argument

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "checkpoints", description="Show the checkpoints of the active branch, newest first."
    )
    with_session_argument(parser)
    parser.add_argument("--all-branches", action="store_true", help="also those of branches that were left")
    parser.add_argument("--steps", action="store_true", help="also the steps of each run and their tools")
    with_at(parser)
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.choice import no_active_prompt
    from cli.context import existing_recording, the_session
    from cli.files import attributed
    from projections.listing import checkpoint_documents, steps_of

    with existing_recording(arguments) as recording:
        session = the_session(recording, arguments)
        documents = checkpoint_documents(
            recording.views.connection,
            session.stream,
            session.session,
            attributed(recording, session),
            all_branches=arguments.all_branches,
        )
        if arguments.steps:
            for one in documents:
                one["steps"] = steps_of(recording.views.connection, session.stream, one["entry_id"])
        none = "" if documents else no_active_prompt(recording.views.connection, session)
    if arguments.json:
        console.json(documents)
    else:
        _show(documents, none, console)
    return 0


def _show(documents: list[dict[str, Any]], none: str, console: Console) -> None:
    from cli.output import relative_time
    from cli.tables import table

    if not documents:
        console.show(f"{none[0].upper()}{none[1:]}.")
        return
    rows = table(console, "#", "when", "state", "changes", "prompt")
    for one in documents:
        rows.add_row(
            str(one["number"]),
            relative_time(one["created_at"]),
            _state(one),
            changes_text(one["changes"]),
            ("" if one["on_active_branch"] else "(left branch) ")
            + (f"[{one['label']}] " if one["label"] else "")
            + one["prompt"],
        )
        for step in one.get("steps", []):
            tools = ", ".join(call["tool"] for call in step["calls"])
            rows.add_row("", "", "", "", f"  step: {tools}")
    console.show(rows)
    for reason in _reasons(documents):
        console.show(reason)


def _state(one: dict[str, Any]) -> str:
    return f"{one['state']}{' ⚑' if one['pinned'] else ''}"


def changes_text(counts: dict[str, int]) -> str:
    """`+1 ~2 -0` without the zeroes; `-` for a run that changed nothing."""
    parts = [f"{sign}{counts[word]}" for word, sign in (("added", "+"), ("modified", "~"), ("deleted", "-"))]
    return " ".join(part for part in parts if part[1:] != "0") or "-"


def _reasons(documents: list[dict[str, Any]]) -> list[str]:
    """One line for each reason why checkpoints are not whole."""
    from recorder.plain import one_line

    by_reason: dict[str, list[str]] = {}
    for one in documents:
        if one["why_not"] and one["state"] != "retired":
            by_reason.setdefault(one["why_not"], []).append(str(one["number"]))
    return [
        f"#{', #'.join(numbers[:5])}{' …' if len(numbers) > 5 else ''}: {one_line(why)}"
        for why, numbers in by_reason.items()
    ]
