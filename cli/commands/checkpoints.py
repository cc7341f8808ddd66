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
    from cli.inspect import step_documents
    from cli.standing import tell_out_of_reach, why_out_of_reach
    from projections.capture import known_tree
    from projections.listing import changes_by_run, checkpoint_documents

    with existing_recording(arguments) as recording:
        session = the_session(recording, arguments)
        found = attributed(recording, session)
        documents = checkpoint_documents(
            recording.views.connection,
            session.stream,
            session.session,
            found,
            all_branches=arguments.all_branches,
        )
        if session.tree and arguments.at is None:
            tell_out_of_reach(documents, why_out_of_reach(known_tree(recording.views, session.tree)))
        if arguments.steps:
            by_run = changes_by_run(found, session.stream)
            for one in documents:
                one["steps"] = step_documents(
                    recording.views.connection,
                    session.stream,
                    one["entry_id"],
                    one["number"],
                    by_run.get(one["entry_id"], []),
                )
        none = "" if documents else no_active_prompt(recording.views.connection, session)
    if arguments.json:
        console.json(documents)
    else:
        _show(documents, none, console)
    return 0


def _show(documents: list[dict[str, Any]], none: str, console: Console) -> None:
    if documents:
        show_checkpoints(documents, console)
    else:
        console.show(f"{none[0].upper()}{none[1:]}.")


def show_checkpoints(documents: list[dict[str, Any]], console: Console) -> None:
    """A row for each, and below them a line for each reason why some are not whole."""
    from cli.output import relative_time
    from cli.tables import table

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
            rows.add_row(step["name"], "", _captured(step), _changed(step), f"  step: {_tools(step)}")
    console.show(rows)
    for reason in _reasons(documents):
        console.show(reason)


def _tools(step: dict[str, Any]) -> str:
    return ", ".join(call["tool"] for call in step["calls"]) or "no tools"


def _captured(step: dict[str, Any]) -> str:
    """Which of a step's states were captured."""
    known = [side for side in ("before", "after") if step[side] is not None]
    return "captured" if len(known) == 2 else f"only {known[0]}" if known else "-"


def _changed(step: dict[str, Any]) -> str:
    if step["files"] is None:
        return "?"
    words = [{"added": "added", "deleted": "deleted"}.get(one["change"], "modified") for one in step["files"]]
    return changes_text({word: words.count(word) for word in ("added", "modified", "deleted")})


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
