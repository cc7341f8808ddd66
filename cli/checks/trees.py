"""The work trees: whether each is still the folder that it was, kept whole, and left in peace by rewinds."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cli.checks.problem import Problem, counted, listed
from recorder.errors import Failed

if TYPE_CHECKING:
    from recorder.home import Home
    from recorder.worktree import WorkTree


class Kept(NamedTuple):
    """A work tree with how many checkpoints of it can be gone back to, by what is recorded."""

    tree: WorkTree
    checkpoints: int


def kept_trees(connection: sqlite3.Connection) -> list[Kept]:
    """Every recorded work tree, the one captured last first."""
    from recorder.worktree import WorkTree

    rows = connection.execute(
        "SELECT trees.*, (SELECT COUNT(*) FROM checkpoints WHERE tree = trees.tree"
        " AND state IN ('complete', 'partial')) AS live FROM trees"
        " ORDER BY (SELECT MAX(position) FROM captures WHERE tree = trees.tree) DESC"
    )
    return [
        Kept(WorkTree(row["path"], row["device"], row["inode"], row["kind"], row["why"]), row["live"])
        for row in rows
    ]


def check_roots(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Checkpoints of a folder that is gone, or another one now, can be looked at and not gone back to."""
    from recorder.errors import Refused
    from recorder.worktree import still_there

    for one in kept_trees(connection):
        if not one.checkpoints:
            continue
        try:
            still_there(one.tree)
        except Refused as error:
            count = counted(one.checkpoints, "checkpoint")
            yield Problem(
                f"tree_{error.code}",
                f"{error.message}; its {count} can be looked at, and not gone back to",
                _ADVICE[error.code],
                "fault" if error.code == "unreadable" else "advice",
            )


_ADVICE = {
    "gone": "move it back to where it was; or read its files with “recorder cat --session SESSION”; the "
    "retention lets them go in time",
    "replaced": "what is recorded from now on is of the new folder; read the old one's files with "
    "“recorder cat --session SESSION”",
    "unreadable": "give yourself the right to read it",
}


def check_kinds(connection: sqlite3.Connection) -> Iterator[Problem]:
    """Where only the files that tools name are kept, and why; one problem a reason."""
    by_reason: dict[str, list[str]] = {}
    for one in kept_trees(connection):
        if one.tree.kind == "per-file":
            by_reason.setdefault(one.tree.why or "", []).append(os.fsdecode(one.tree.path))
    for why, paths in by_reason.items():
        yield Problem(
            "tree_per_file",
            f"of {listed(paths)} only the files that tools name are kept: {why}",
            "start the agent in the project's own folder, or make that a git repository",
            "advice",
        )


def check_rewinds(home: Home, connection: sqlite3.Connection) -> Iterator[Problem]:
    """No rewind was broken off; one at work right now is none."""
    from cli.recovering import half_done
    from recorder.recording import lock_name

    broken_off = set(half_done(connection))
    for one in kept_trees(connection):
        if one.tree.stream.hex in broken_off and not home.held(lock_name(one.tree.stream)):
            yield Problem(
                "rewind_unfinished",
                f"a rewind of {os.fsdecode(one.tree.path)} was broken off",
                "“recorder doctor --fix”, or whatever command is next, rolls it back",
                "fault" if os.path.isdir(one.tree.path) else "advice",
                lambda tree=one.tree: _roll_back(home, tree),  # type: ignore[misc]
            )


def _roll_back(home: Home, tree: WorkTree) -> str:
    from cli.context import open_recording
    from cli.recovering import half_done, recover

    with open_recording(home) as recording:
        told = recover(recording, tree.stream.hex)
        if tree.stream.hex in half_done(recording.views.connection):
            raise Failed("; ".join(told) or "another recorder process is at work there", code="unrecovered")
    return "; ".join(told) or f"a rewind of {os.fsdecode(tree.path)} was tidied up after"
