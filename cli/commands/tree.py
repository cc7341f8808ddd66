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

HERE = " ◀ here"
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

    children, here = _children(document), _here(document)
    root = Tree(
        Text(f"{agent} {document['session']}{HERE if here is None and children else ''}", style="bold")
    )
    pending: list[tuple[Tree, str | None]] = [(root, None)]
    while pending:
        parent, identifier = pending.pop()
        node, below = parent, children.get(identifier, [])
        while len(below) == 1:
            node = parent.add(_label(below[0], here, width))
            below = children.get(below[0]["id"], [])
        pending += [(node.add(_label(one, here, width)), one["id"]) for one in below]
    return root


def _children(document: dict[str, Any]) -> dict[str | None, list[dict[str, Any]]]:
    """What is shown, by the nearest ancestor that is shown too."""
    by_id = {one["id"]: one for one in document["entries"]}
    children: dict[str | None, list[dict[str, Any]]] = {}
    for one in document["entries"]:
        if one["kind"] in SHOWN:
            children.setdefault(_nearest_shown(by_id, one["parent"]), []).append(one)
    return children


def _here(document: dict[str, Any]) -> str | None:
    """The entry to mark: the leaf, or what is shown above it; None for before them all."""
    return _nearest_shown({one["id"]: one for one in document["entries"]}, document["leaf"])


def _nearest_shown(by_id: dict[str, dict[str, Any]], entry: str | None) -> str | None:
    seen = set()
    while entry is not None and entry in by_id and entry not in seen:
        if by_id[entry]["kind"] in SHOWN:
            return entry
        seen.add(entry)
        entry = by_id[entry]["parent"]
    return None


def _label(one: dict[str, Any], marked: str | None, width: int) -> Text:
    from rich.text import Text

    from cli.output import one_line

    number = f"#{one['checkpoint']} " if one["checkpoint"] else ""
    kind = "" if one["kind"] == "prompt" else f"{one['kind']}: "
    here = HERE if one["id"] == marked else ""
    line = one_line(f"{number}{kind}{one['summary']}", max(width - 16 - len(here), 20)) + here
    return Text(line, style="" if one["on_active_branch"] else "dim")
