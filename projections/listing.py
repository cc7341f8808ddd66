"""The documents of the looking commands (CLI.md), as plain values: what they show, not how."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from projections import conversation
from projections.checkpoints import Checkpoint, checkpoints_of
from projections.conversation import PromptRow
from projections.sessions import SessionRow
from recorder.history import Change
from recorder.planning.applied import takes_part
from recorder.states import PathState


def iso(ns: int) -> str:
    """A moment in ns as ISO 8601 UTC with ms."""
    moment = datetime.fromtimestamp(ns / 10**9, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def session_document(connection: sqlite3.Connection, row: SessionRow, running: bool) -> dict[str, object]:
    """One item of `sessions`."""
    stream = row.stream
    counts = connection.execute("SELECT COUNT(*) FROM checkpoints WHERE stream = ?", (stream,)).fetchone()
    return {
        "id": row.session,
        "agent": row.agent,
        "agent_version": row.agent_version,
        "cwd": row.cwd,
        "work_tree": row.tree_path.decode("utf-8", "replace") if row.tree_path else None,
        "name": row.name,
        "started_at": row.started_time or iso(row.started_at),
        "last_activity": row.last_time or iso(row.last_at),
        "first_prompt": row.first_prompt,
        "checkpoints": counts[0],
        "branches": len(conversation.branch_leaves(connection, stream)),
        "parent_session": row.parent_session,
        "running": running,
    }


def changes_by_run(found: Iterable[Change], stream: str) -> dict[str, list[Change]]:
    """Attributed changes by the run of a session that they fall in, whoever made them.

    What changed between two runs is in none.
    """
    by_run: dict[str, list[Change]] = {}
    for change in found:
        for session, run in change.runs:
            if session == stream:
                by_run.setdefault(run, []).append(change)
    return by_run


def net_changes(found: Iterable[Change]) -> dict[bytes, tuple[PathState, PathState]]:
    """Per path the state before the first and after the last of some changes, where they differ."""
    net: dict[bytes, tuple[PathState, PathState]] = {}
    for change in found:
        before = net[change.path][0] if change.path in net else change.before
        net[change.path] = (before, change.after)
    return {path: (before, after) for path, (before, after) in net.items() if before != after}


def change_word(before: PathState, after: PathState) -> str:
    """`added`, `deleted`, `modified`, `mode` or `type`."""
    if not before.present:
        return "added"
    if not after.present:
        return "deleted"
    if before.kind != after.kind:
        return "type"
    return "modified" if before.oid != after.oid else "mode"


def change_counts(found: Iterable[Change]) -> dict[str, int]:
    """`changes` of a checkpoint: files and links that the run added, modified and deleted."""
    counts = {"added": 0, "modified": 0, "deleted": 0}
    for before, after in net_changes(one for one in found if takes_part(one, None)).values():
        if "dir" in (before.kind, after.kind) and {before.kind, after.kind} <= {"dir", "absent"}:
            continue
        word = change_word(before, after)
        counts[word if word in counts else "modified"] += 1
    return counts


def checkpoint_document(
    one: Checkpoint, prompt: PromptRow, session: str, active: bool, parent: str | None, found: list[Change]
) -> dict[str, Any]:
    """One item of `checkpoints`."""
    return {
        "number": one.number,
        "id": one.id,
        "session": session,
        "entry_id": one.entry,
        "parent": parent,
        "prompt": prompt.excerpt,
        "created_at": prompt.time or iso(prompt.at),
        "on_active_branch": active,
        "state": one.state,
        "source": one.source,
        "changes": change_counts(found),
        "label": one.label,
        "pinned": one.pinned,
        "restorable": one.restorable,
        "why_not": one.why,
    }


def checkpoint_documents(
    connection: sqlite3.Connection, stream: str, session: str, found: Iterable[Change], *, all_branches: bool
) -> list[dict[str, Any]]:
    """`checkpoints`: newest first."""
    prompts = {prompt.entry: prompt for prompt in conversation.prompts_of(connection, stream)}
    active = {prompt.entry for prompt in conversation.active_prompts(connection, stream)}
    by_run = changes_by_run(found, stream)
    ids = {one.entry: one.id for one in checkpoints_of(connection, stream)}
    return [
        checkpoint_document(
            one,
            prompts[one.entry],
            session,
            one.entry in active,
            ids.get(prompts[one.entry].parent_prompt or ""),
            by_run.get(one.entry, []),
        )
        for one in reversed(checkpoints_of(connection, stream))
        if all_branches or one.entry in active
    ]


def tree_document(connection: sqlite3.Connection, stream: str, session: str) -> dict[str, object]:
    """`tree`: the entries of the conversation in log order."""
    leaf = conversation.leaf_of(connection, stream)
    active = set(conversation.path_to_root(connection, stream, leaf))
    numbers = {one.entry: one.number for one in checkpoints_of(connection, stream)}
    rows = connection.execute(
        "SELECT * FROM entries WHERE stream = ? AND in_tree ORDER BY position", (stream,)
    )
    return {
        "session": session,
        "leaf": leaf,
        "entries": [
            {
                "id": row["entry"],
                "parent": row["parent"],
                "kind": row["kind"],
                "time": row["time"],
                "summary": row["excerpt"],
                "checkpoint": numbers.get(row["entry"]),
                "on_active_branch": row["entry"] in active,
            }
            for row in rows
        ],
    }
