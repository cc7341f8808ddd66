"""The stored files of a session's work tree, for the commands that look at them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.context import Recording
from projections.sessions import SessionRow
from recorder.errors import NotFound

if TYPE_CHECKING:
    from projections.checkpoints import Checkpoint
    from recorder.capture import Tree
    from recorder.history import Change


@contextlib.contextmanager
def stored_files(recording: Recording, tree: str) -> Iterator[Tree]:
    """The shadow store of a work tree (its stream's hex id), with the settings in force there."""
    from cli.policy import policy_of
    from projections.capture import known_tree
    from recorder.capture import Tree

    work_tree = known_tree(recording.views, tree)
    with Tree(recording.home, work_tree, policy_of(work_tree)) as opened:
        yield opened


def attributed(recording: Recording, session: SessionRow) -> list[Change]:
    """The changes of a session's work tree with their owners; none where nothing was captured."""
    from cli.ground import contains, locate
    from projections.history import adopt, inherited_runs, tree_history
    from recorder.planning.attribution import attribute

    if session.tree is None:
        return []
    connection = recording.views.connection
    with stored_files(recording, session.tree) as files:
        found = attribute(
            tree_history(connection, session.tree),
            locate=locate(files),
            contains=lambda oid, fragment: contains(recording, files, oid, fragment),
        )
    return adopt(found, session.stream, inherited_runs(connection, session.stream))


def commit_of(checkpoint: Checkpoint) -> str:
    """The capture of a checkpoint. Raises NotFound with the reason where there is none to look at."""
    if checkpoint.commit is None or not checkpoint.restorable:
        raise NotFound(
            f"checkpoint {checkpoint.number} has no files to look at: {checkpoint.why or checkpoint.state}",
            code="no_files",
        )
    return checkpoint.commit
