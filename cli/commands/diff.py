"""`recorder diff`: between two recorded states, or one and the work tree."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from cli.options import PLACE_HELP, with_at, with_json, with_session_option

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.differences import Difference
    from cli.options import Subparsers
    from cli.output import Console


TAKES_PATHS = True
"""What stands after `--` is files."""


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "diff",
        usage="recorder diff [A] [B] [--stat] [--session SESSION] [--json] [-- PATH …]",
        description="Show what differs between two checkpoints or steps, or between one (default: the latest "
        "checkpoint) and the work tree.",
    )
    parser.add_argument("words", metavar="A B", nargs="*", help=PLACE_HELP)
    parser.add_argument("--stat", action="store_true", help="lines added and removed per file")
    with_session_option(parser)
    with_at(parser)
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import existing_recording
    from cli.paths import path_word
    from recorder.errors import UsageProblem

    words, paths = arguments.words, [path_word(word) for word in arguments.paths_after_dashes]
    if len(words) > 2:
        raise UsageProblem("diff takes at most two checkpoints; files come after “--”")
    with existing_recording(arguments) as recording:
        found = _differences(recording, arguments, words or ["latest"], paths)
        if arguments.json:
            console.json([one.document() for one in found])
            return 0
        _show(found, arguments.stat, console)
    return 0


def _differences(
    recording: Recording, arguments: argparse.Namespace, words: list[str], paths: list[bytes]
) -> list[Difference]:
    from cli.differences import between, to_disk
    from cli.files import commit_of, stored_files
    from cli.paths import check_paths, relative_to_tree
    from cli.places import the_place
    from projections.capture import known_tree
    from recorder.errors import Refused
    from recorder.planning.routes import inside

    chosen = [the_place(recording, arguments, word).checkpoint for word in words]
    commits = [commit_of(one) for one in chosen]
    trees = {one.tree for one in chosen}
    if len(trees) > 1:
        raise Refused("the two checkpoints are of different work trees", code="different_trees")
    tree = chosen[0].tree
    assert tree is not None
    work_tree = known_tree(recording.views, tree)
    wanted = tuple(relative_to_tree(path, work_tree.path, os.getcwdb()) for path in paths)
    with stored_files(recording, tree) as files:
        check_paths(recording, files, work_tree, wanted, commits)
        found = between(files, *commits) if len(commits) == 2 else to_disk(files, work_tree, commits[0])
        return [one for one in found if inside(one.path, wanted)]


def _show(found: list[Difference], stat: bool, console: Console) -> None:
    if not found:
        console.show("No difference.")
    for one in found:
        console.show(one.stat() if stat else _coloured(one.unified()))


def _coloured(lines: list[str]) -> Any:
    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    text = Text()
    for line in lines:
        head = line.startswith(("+++", "---", "diff "))
        text.append(line + "\n", style="bold" if head else styles.get(line[:1], ""))
    text.rstrip()
    return text
