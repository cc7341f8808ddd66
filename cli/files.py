"""The stored files of a session's work tree, for the commands that look at them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from cli.context import Recording
from projections.sessions import SessionRow
from recorder.errors import NotFound, RecorderError, Refused, StoreFailure
from recorder.recording import lock_name
from recorder.states import PathNote

if TYPE_CHECKING:
    from projections.checkpoints import Checkpoint
    from recorder.capture import Tree
    from recorder.history import Change, Transition


@contextlib.contextmanager
def stored_files(recording: Recording, tree: str) -> Iterator[Tree]:
    """The shadow store of a work tree (its stream's hex id), with the settings in force there. Where a
    capture finds it damaged, the log is told what is lost."""
    from cli.policy import policy_of
    from projections.capture import known_tree
    from projections.past import past
    from recorder.capture import Tree

    work_tree = known_tree(recording.views, tree)
    with Tree(
        recording.home, work_tree, policy_of(work_tree), partial(past, recording.views, tree)
    ) as opened:
        try:
            yield opened
        finally:
            if opened.damaged:
                _account_for(recording, tree)


def _account_for(recording: Recording, tree: str) -> None:
    """What cannot be told now, `doctor` finds and tells."""
    from projections.mending import account_for

    with (
        contextlib.suppress(StoreFailure, Refused),
        recording.home.lock(lock_name(UUID(tree)), timeout=0),
    ):
        recording.views.catch_up()
        account_for(recording.home, recording.log, recording.views, tree)


def attributed(recording: Recording, session: SessionRow) -> list[Change]:
    """The changes of a session's work tree with their owners; none where nothing was captured."""
    from projections.history import adopt, inherited_runs

    if session.tree is None:
        return []
    inherited = inherited_runs(recording.views.connection, session.stream)
    return adopt(attributed_in(recording, session.tree), session.stream, inherited)


def attributed_in(
    recording: Recording, tree: str, after: int = 0, *, and_on_disk: bool = False
) -> list[Change]:
    """The changes of a work tree behind a position of the log, with their owners; with `and_on_disk` also
    those that no capture has seen yet, where the tree can be looked at."""
    from cli.ground import contains, locate, pending
    from projections.capture import last_commit
    from projections.changes import last_look
    from projections.history import tree_history
    from recorder.planning.attribution import attribute

    connection = recording.views.connection
    with stored_files(recording, tree) as files:
        fresh: tuple[Transition, ...] = ()
        if and_on_disk:
            with contextlib.suppress(RecorderError):
                look = files.look(previous=last_commit(recording.views, UUID(tree)))
                fresh = pending(look, last_look(connection, tree))
        history = tree_history(connection, tree, after, pending=fresh)
        if not history.transitions:
            return []
        return attribute(
            history,
            locate=locate(files),
            contains=lambda oid, fragment: contains(recording, files, oid, fragment),
        )


def written_unseen(recording: Recording, tree: str, stream: str, run: str) -> list[PathNote]:
    """What a run wrote by name without any capture knowing what stood there before."""
    from cli.ground import contains, locate
    from projections.capture import last_commit
    from projections.history import tree_history
    from recorder.planning.attribution import attribute, unseen_writes

    commit = last_commit(recording.views, UUID(tree))
    with stored_files(recording, tree) as files:
        history, where = tree_history(recording.views.connection, tree), locate(files)
        found = attribute(
            history,
            locate=where,
            contains=lambda oid, fragment: contains(recording, files, oid, fragment),
        )
        unseen = [one for one in unseen_writes(history, found, locate=where) if one.run == run]
        paths = {
            one.path
            for one in unseen
            if one.session == stream
            and (one.captured or commit is None or not files.state(commit, one.path).known)
        }
    why = "written in the run; what stood there before is not known"
    return [PathNote(path, why) for path in sorted(paths)]


def commit_of(checkpoint: Checkpoint) -> str:
    """The capture of a checkpoint. Raises NotFound with the reason where there is none to look at."""
    if checkpoint.commit is None or not checkpoint.restorable:
        raise NotFound(
            f"checkpoint {checkpoint.number} has no files to look at: {checkpoint.why or checkpoint.state}",
            code="no_files",
        )
    return checkpoint.commit
