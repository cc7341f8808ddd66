"""Where a session stands among its prompts, and where `undo N` and `redo N` lead from there."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from projections import checkpoints, conversation
from projections.conversation import PromptRow
from projections.operations import newest_of_session
from recorder.errors import NotFound
from recorder.events import checkpoint_id
from recorder.history import Operation


class Standing(NamedTuple):
    """The path of prompts, oldest first, and how many of them lie behind the present position.

    `first` is the first operation since the last prompt: the state before it is the tip of the path.
    `tip` is the leaf of the path's end.
    """

    path: list[PromptRow]
    behind: int
    first: Operation | None
    tip: str | None


def standing(connection: sqlite3.Connection, stream: str, operations: Sequence[Operation]) -> Standing:
    """Where the session's last rewind led, if no prompt came since and its conversation has not gone
    elsewhere by itself; else the leaf."""
    newest_prompt = connection.execute(
        "SELECT COALESCE(MAX(position), 0) FROM prompts WHERE stream = ? AND NOT copied", (stream,)
    ).fetchone()[0]
    leaf = conversation.leaf_of(connection, stream)
    after = [one for one in operations if one.session == stream and one.position > newest_prompt]
    since = _since_it_moved(connection, stream, after, leaf)
    newest = newest_of_session(since, stream)
    tip = since[0].leaf_before if since else leaf
    path = conversation.branch_prompts(connection, stream, tip)
    if newest is None or newest.position_after is None:
        return Standing(path, len(path), since[0] if since else None, tip)
    entry = _entry_of(connection, newest.position_after)
    entries = [prompt.entry for prompt in path]
    if entry not in entries:
        path, tip = _branch_through(connection, stream, entry)
        entries = [prompt.entry for prompt in path]
    index = entries.index(entry) if entry in entries else len(path)
    return Standing(path, index, since[0] if since else None, tip)


def _since_it_moved(
    connection: sqlite3.Connection, stream: str, operations: Sequence[Operation], leaf: str | None
) -> list[Operation]:
    """The operations after which the conversation went nowhere by itself: each began where the one before it
    had left it, and it stands where the last one did."""
    since: list[Operation] = []
    for one in reversed(operations):
        row = connection.execute(
            "SELECT conversation FROM operations WHERE operation = ?", (one.operation,)
        ).fetchone()
        left_at = one.leaf_after if row["conversation"] == "done" else one.leaf_before
        if not conversation.is_same_place(connection, stream, leaf, left_at):
            break
        since.insert(0, one)
        leaf = one.leaf_before
    return since


def _entry_of(connection: sqlite3.Connection, identifier: str) -> str | None:
    found = checkpoints.checkpoint(connection, identifier)
    return found.entry if found else None


def _branch_through(
    connection: sqlite3.Connection, stream: str, entry: str | None
) -> tuple[list[PromptRow], str | None]:
    """The newest branch that holds a prompt."""
    for leaf in reversed(conversation.branch_leaves(connection, stream)):
        path = conversation.branch_prompts(connection, stream, leaf)
        if any(prompt.entry == entry for prompt in path):
            return path, leaf
    return [], None


def undo_target(at: Standing, count: int) -> PromptRow:
    """The prompt to go back before. Raises NotFound where there are not so many."""
    if count > at.behind:
        raise NotFound(
            "there is no prompt to go back before"
            if at.behind == 0
            else f"only {at.behind} prompt{'s' if at.behind != 1 else ''} can be undone from here",
            code="nothing_to_undo",
        )
    return at.path[at.behind - count]


def redo_target(at: Standing, count: int) -> PromptRow | None:
    """The prompt to go forward to, None for the path's end. Raises NotFound where there is no forward."""
    ahead = len(at.path) - at.behind
    if count > ahead:
        raise NotFound(
            "there is nothing to redo"
            if ahead == 0
            else f"only {ahead} prompt{'s' if ahead != 1 else ''} can be redone from here",
            code="nothing_to_redo",
        )
    index = at.behind + count
    return at.path[index] if index < len(at.path) else None


def position_id(at: Standing, stream: str) -> str | None:
    """The present position as a checkpoint's id, None for the leaf."""
    from uuid import UUID

    return checkpoint_id(UUID(stream), at.path[at.behind].entry) if at.behind < len(at.path) else None
