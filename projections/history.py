"""The history of one work tree, put together from the views for `recorder.planning.attribution` and
`recorder.planning.plan`."""

from __future__ import annotations

import sqlite3

import msgspec

from projections import changes, operations
from recorder.history import Change, TreeHistory


def tree_history(connection: sqlite3.Connection, tree: str) -> TreeHistory:
    """Everything that happened to the files of a work tree (its stream's hex id), in log order."""
    return TreeHistory(
        transitions=changes.transitions_of(connection, tree),
        runs=changes.runs_of(connection, tree),
        windows=changes.windows_of(connection, tree),
        operations=operations.operations_of(connection, tree),
        git=changes.git_positions(connection, tree),
    )


def inherited_runs(connection: sqlite3.Connection, stream: str) -> dict[str, str]:
    """The runs that a fork inherited: their prompts' entry ids, with the stream that they ran in."""
    rows = connection.execute(
        "SELECT runs.run, runs.stream FROM prompts JOIN sessions child ON child.stream = prompts.stream"
        " JOIN sessions parent ON parent.session = child.parent_session AND parent.agent = child.agent"
        " JOIN runs ON runs.stream = parent.stream AND runs.run = prompts.entry"
        " WHERE prompts.stream = ? AND prompts.copied",
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
