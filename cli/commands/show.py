"""`recorder show`: one checkpoint, or one step."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cli.options import PLACE_HELP, with_at, with_json, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "show",
        description="Show one checkpoint: its prompt, its state, the files that its run changed and by whom; "
        "or one step of a run.",
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=PLACE_HELP)
    with_session_option(parser)
    with_at(parser)
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording
    from cli.inspect import checkpoint_details, place_details, without_changes
    from cli.places import the_place
    from cli.standing import tell_out_of_reach, why_out_of_reach
    from projections.capture import known_tree

    with existing_recording(arguments) as recording:
        place = the_place(recording, arguments, arguments.checkpoint)
        if place.inside:
            document = place_details(recording, place)
        else:
            document, prompt = checkpoint_details(recording, place.session, place.checkpoint)
            nothing = without_changes(recording, place.checkpoint)
            if place.checkpoint.tree and arguments.at is None:
                why = why_out_of_reach(known_tree(recording.views, place.checkpoint.tree))
                tell_out_of_reach([document], why)
    if arguments.json:
        console.json(document)
    elif place.inside:
        _show_place(document, console)
    else:
        _show(document, prompt, nothing, console)
    return 0


def _show_place(document: dict[str, Any], console: Console) -> None:
    """The state before or after a step, or after a run."""
    from cli.output import local_time, relative_time

    step, when = document["step"], document["captured_at"]
    console.show(f"{document['name']}  session {document['session']}")
    console.show(f"{document['state']}  captured {relative_time(when)} ({local_time(when)})")
    if step is not None:
        console.show("\n" + (", ".join(call["tool"] for call in step["calls"]) or "no tools") + "\n")
        _show_files({"files": step["files"] or []}, _nothing(step), console)
    _show_notes("not known", document["unknown"], console)
    _show_notes("left out", document["skipped"], console)


def _nothing(step: dict[str, Any]) -> str:
    if step["files"] is None:
        return "What it changed was not captured by itself; see the whole run."
    return "It changed no file."


def _show(document: dict[str, Any], prompt: str, nothing: str, console: Console) -> None:
    from cli.inspect import NO_CHANGE
    from cli.output import local_time, relative_time

    console.show(f"#{document['number']}  {document['id']}  session {document['session']}")
    console.show(
        f"{document['state']}{', pinned' if document['pinned'] else ''}"
        f"{', label ' + document['label'] if document['label'] else ''}"
        f"  given {relative_time(document['created_at'])} ({local_time(document['created_at'])}),"
        f" captured by {document['source']}"
    )
    if document["why_not"]:
        console.show(document["why_not"])
    console.show("\n" + prompt.rstrip("\n") + "\n")
    if document["unknown"] and nothing == NO_CHANGE:
        nothing = "Of what is known, its run changed nothing."
    _show_files(document, nothing, console)
    _show_notes("not known", document["unknown"], console)
    _show_notes("left out", document["skipped"], console)


def on_one_line(path: str) -> str:
    """A path of the document for people: it cannot fake a line."""
    from cli.output import path_text

    return path_text(path.encode("utf-8", "replace"))


def _show_files(document: dict[str, Any], nothing: str, console: Console) -> None:
    if not document["files"]:
        console.show(nothing)
        return
    for one in document["files"]:
        whose = "" if one["by"] == "session" else f"  — {one['by']}: {one['why']}"
        console.show(f"  {one['change']:<9}{on_one_line(one['path'])}{whose}")


def _show_notes(title: str, notes: list[dict[str, str]], console: Console) -> None:
    if not notes:
        return
    console.show(f"\n{title} ({len(notes)}):")
    for one in notes[:20]:
        console.show(f"  {on_one_line(one['path'])}: {one['why']}")
    if len(notes) > 20:
        console.show(f"  … and {len(notes) - 20} more; see them all with --json")
