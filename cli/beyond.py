"""What a session changed in work trees that are recorded by themselves and lie in its own, or around it.

Those changes are in the history of the other tree alone, so a rewind of the session leaves them: said, not
passed over.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from cli.left_out import listed
from cli.output import path_text
from recorder.history import Change, name_in, place_of
from recorder.planning.applied import takes_part
from recorder.planning.planned import Warned
from recorder.planning.routes import inside

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from cli.context import Recording
    from projections.checkpoints import Checkpoint


class Beyond(NamedTuple):
    """A change in another work tree, whose root is `root`; `path` is what the session's own tree would call
    the file."""

    root: bytes
    path: bytes
    change: Change


def changes_beyond(recording: Recording, stream: str, one: Checkpoint) -> list[Beyond]:
    """What a session changed since the state of a checkpoint of its own in the work trees that overlap with
    its own, without what captures of its own tree hold."""
    from projections.changes import root_of
    from projections.neighbours import trees_overlapping

    if one.tree is None or one.capture_position is None:
        return []
    connection = recording.views.connection
    root = root_of(connection, one.tree)
    around = {other: at for other, at in trees_overlapping(connection, root).items() if other != one.tree}
    return [
        Beyond(at, name_in(root, place), change)
        for other, at in sorted(around.items(), key=lambda around: around[1])
        for change in _of_session(recording, stream, other, one.capture_position)
        if not _held(connection, one.tree, place := place_of(at, change.path))
    ]


def of_runs(found: list[Beyond], stream: str, runs: Collection[str]) -> list[Beyond]:
    return [one for one in found if any((stream, run) in one.change.runs for run in runs)]


def runs_from(connection: sqlite3.Connection, stream: str, run: str) -> set[str]:
    """A run of a session and all that started after it."""
    rows = connection.execute(
        "SELECT run FROM runs WHERE stream = ? AND position >="
        " (SELECT COALESCE(MAX(position), 0) FROM runs WHERE stream = ? AND run = ?)",
        (stream, stream, run),
    )
    return {row["run"] for row in rows}


def beyond_warnings(found: list[Beyond], paths: tuple[bytes, ...]) -> list[Warned]:
    """One warning for each of those trees; `paths` narrows as in a plan."""
    by_root: dict[bytes, set[bytes]] = {}
    for one in found:
        if inside(one.path, paths):
            by_root.setdefault(one.root, set()).add(one.path)
    return [
        Warned(
            "other_tree",
            f"changed by this session too, but recorded with {os.fsdecode(root)}, so left as they are: "
            + listed([path_text(name) for name in sorted(names)]),
        )
        for root, names in by_root.items()
    ]


def _of_session(recording: Recording, stream: str, tree: str, after: int) -> list[Change]:
    from cli.files import attributed_in

    found = attributed_in(recording, tree, after, and_on_disk=True)
    return [change for change in found if takes_part(change, stream)]


def _held(connection: sqlite3.Connection, tree: str, place: bytes) -> bool:
    query = "SELECT 1 FROM transitions WHERE place = ? AND tree = ? LIMIT 1"
    return connection.execute(query, (place, tree)).fetchone() is not None
