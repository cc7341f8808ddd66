"""The history of one work tree, put together from the views for `recorder.planning.attribution` and
`recorder.planning.plan`."""

from __future__ import annotations

import sqlite3

import msgspec

from projections import changes, operations
from projections.neighbours import area_of, operations_on, reaches_of, sightings_of, times_of
from recorder.history import Change, Transition, TreeHistory, place_of


def tree_history(
    connection: sqlite3.Connection, tree: str, after: int = 0, *, pending: tuple[Transition, ...] = ()
) -> TreeHistory:
    """Everything that happened to the files of a work tree (its stream's hex id) behind a position of the
    log, in log order, whoever did it; and then what is `pending`: seen on disk and not captured yet."""
    transitions = changes.transitions_of(connection, tree, after) + pending
    since = min((one.since for one in transitions), default=0) if after else 0
    own = dict.fromkeys(changes.sessions_of(connection, tree))
    windows = changes.windows_of(connection, own, since)
    root = changes.root_of(connection, tree)
    named = (file.path for window in windows for file in window.files)
    area = area_of(connection, tree, {*(place_of(root, one.path) for one in transitions), *named})
    sightings = sightings_of(connection, area)
    others = reaches_of(connection, area, sightings, times_of(transitions))
    return TreeHistory(
        transitions=transitions,
        runs=changes.runs_of(connection, own | others),
        windows=windows + changes.windows_of(connection, others, since),
        operations=operations.operations_of(connection, tree),
        git=changes.git_positions(connection, tree),
        root=root,
        elsewhere=operations_on(connection, area),
        sightings=tuple(one for _, one in sightings),
        looks=changes.looks_of(connection, tree),
    )


def inherited_runs(connection: sqlite3.Connection, stream: str) -> dict[str, str]:
    """The runs that a fork inherited: their prompts' entry ids, with the stream that they ran in. One that
    went on after the fork was made is not among them: what it changed from then on is its own."""
    rows = connection.execute(
        "SELECT runs.run, runs.stream FROM prompts JOIN sessions child ON child.stream = prompts.stream"
        " JOIN sessions parent ON parent.session = child.parent_session AND parent.agent = child.agent"
        " JOIN runs ON runs.stream = parent.stream AND runs.run = prompts.entry"
        " WHERE prompts.stream = ? AND prompts.copied"
        " AND COALESCE(runs.ended_at, runs.last_sign_at) <= child.started_at",
        (stream,),
    )
    return {row["run"]: row["stream"] for row in rows}


def adopt(found: list[Change], stream: str, inherited: dict[str, str]) -> list[Change]:
    """The same changes with those of inherited runs as the fork's own: its conversation made them."""
    if not inherited:
        return found
    return [_adopted(change, stream, inherited) for change in found]


def _adopted(change: Change, stream: str, inherited: dict[str, str]) -> Change:
    runs = tuple((stream if inherited.get(run) == session else session, run) for session, run in change.runs)
    if runs == change.runs:
        return change
    own = change.run is not None and inherited.get(change.run) == change.session
    return msgspec.structs.replace(change, runs=runs, session=stream if own else change.session)
