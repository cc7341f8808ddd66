"""`recorder tree`: the conversation tree of a session."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from cli.options import with_at, with_json, with_session_argument

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from cli.options import Subparsers
    from cli.output import Console

SHOWN = frozenset({"prompt", "compaction", "summary", "command"})
"""What a person looks for in the tree; the rest is in `--json`."""


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "tree", description="Show the conversation tree: branches, the active leaf, checkpoints."
    )
    with_session_argument(parser)
    with_at(parser)
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording, the_session
    from projections.listing import tree_document

    with existing_recording(arguments) as recording:
        session = the_session(recording, arguments)
        document = tree_document(recording.views.connection, session.stream, session.session)
    if arguments.json:
        console.json(document)
    else:
        console.show(_drawn(document, session.agent, console.width))
    return 0


def _drawn(document: dict[str, Any], agent: str, width: int) -> Tree:
    """The shown entries, one below the other; only where the conversation branches is there a step in."""
    from rich.text import Text
    from rich.tree import Tree

    children = _children(document)
    root = Tree(Text(f"{agent} {document['session']}", style="bold"))
    pending: list[tuple[Tree, str | None]] = [(root, None)]
    while pending:
        parent, identifier = pending.pop()
        node, below = parent, children.get(identifier, [])
        while len(below) == 1:
            node = parent.add(_label(below[0], document["leaf"], width))
            below = children.get(below[0]["id"], [])
        pending += [(node.add(_label(one, document["leaf"], width)), one["id"]) for one in below]
    return root


def _children(document: dict[str, Any]) -> dict[str | None, list[dict[str, Any]]]:
    """What is shown, by the nearest ancestor that is shown too."""
    parents = {one["id"]: one["parent"] for one in document["entries"]}
    shown = [one for one in document["entries"] if one["kind"] in SHOWN or one["id"] == document["leaf"]]
    kept = {one["id"] for one in shown}
    children: dict[str | None, list[dict[str, Any]]] = {}
    for one in shown:
        ancestor, seen = one["parent"], {one["id"]}
        while ancestor is not None and ancestor not in kept and ancestor not in seen:
            seen.add(ancestor)
            ancestor = parents.get(ancestor)
        children.setdefault(ancestor if ancestor in kept else None, []).append(one)
    return children


def _label(one: dict[str, Any], leaf: str | None, width: int) -> Text:
    from rich.text import Text

    from cli.output import one_line

    number = f"#{one['checkpoint']} " if one["checkpoint"] else ""
    kind = "" if one["kind"] == "prompt" else f"{one['kind']}: "
    here = " ◀ here" if one["id"] == leaf else ""
    line = one_line(f"{number}{kind}{one['summary']}", max(width - 16 - len(here), 20)) + here
    return Text(line, style="" if one["on_active_branch"] else "dim")
