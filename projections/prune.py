"""The retention at work: retire what the rules let go, and release what no kept checkpoint needs.

The daily schedule and `recorder prune` call the same function. Each retirement is an event in the
work tree's stream; the record with its prompt, paths and hashes stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from uuid import UUID

import msgspec

from projections import checkpoints
from projections.capture import known_tree
from projections.checkpoints import Checkpoint
from projections.past import past
from projections.views import Views
from recorder.capture import Tree
from recorder.errors import RecorderError, StoreFailure
from recorder.events import CheckpointRetired
from recorder.home import Home
from recorder.log import EventLog
from recorder.policy import Policy
from recorder.recording import lock_name
from recorder.retention import DAY_NS, Candidate, Held, Limits, Verdict, commits_to_release, judge
from recorder.worktree import WorkTree

SAFETY_DAYS = 30
"""How long the safety capture of a rewind lives, whatever the checkpoints do."""

OF_A_RUN = ("prompt", "call", "step")
"""The moments of captures that live as long as the checkpoint of their run."""


class Pruned(msgspec.Struct, frozen=True):
    """What came of it. `problems` names the work trees whose store could not be cleaned, with the reason."""

    verdicts: tuple[Verdict, ...]
    freed_bytes: int
    problems: tuple[str, ...]


def prune(
    home: Home,
    log: EventLog,
    views: Views,
    limits: Limits,
    now: int,
    policy_of: Callable[[WorkTree], Policy],
    *,
    dry_run: bool = False,
) -> Pruned:
    """Judge every live checkpoint; unless `dry_run`, retire and release under each tree's lock."""
    views.catch_up()
    verdicts = judge(_candidates(views), limits, now)
    if dry_run:
        return Pruned(tuple(verdicts), 0, ())
    freed, problems = 0, []
    for tree in _trees(views):
        try:
            freed += _prune_tree(home, log, views, tree, limits, now, policy_of)
        except RecorderError as error:
            problems.append(error.message)
    return Pruned(tuple(verdicts), freed, tuple(problems))


def _candidates(views: Views, tree: str | None = None) -> list[Candidate]:
    rows = views.connection.execute(
        "SELECT c.id, c.stream, c.number, c.pinned, c.label, captures.ended_at FROM checkpoints c"
        " JOIN captures ON captures.capture = c.capture"
        " WHERE c.state IN ('complete', 'partial')" + (" AND c.tree = ?" if tree else ""),
        (tree,) if tree else (),
    )
    return [
        Candidate(
            checkpoint=row["id"],
            session=row["stream"],
            number=row["number"],
            recorded_at=row["ended_at"],
            exempt="pinned" if row["pinned"] else "labelled" if row["label"] else None,
        )
        for row in rows
    ]


def _trees(views: Views) -> list[str]:
    return [row["tree"] for row in views.connection.execute("SELECT tree FROM trees ORDER BY tree")]


def _prune_tree(
    home: Home,
    log: EventLog,
    views: Views,
    tree: str,
    limits: Limits,
    now: int,
    policy_of: Callable[[WorkTree], Policy],
) -> int:
    """Returns the bytes freed. Nothing is written for a tree that has nothing to let go."""
    with home.lock(lock_name(UUID(tree))):
        views.catch_up()
        here = {one.checkpoint for one in _candidates(views, tree)}
        for verdict in judge(_candidates(views), limits, now):
            if verdict.retire and verdict.candidate.checkpoint in here:
                _retire(log, views, UUID(tree), verdict, now)
        views.catch_up()
        release = commits_to_release(_held(views, tree), _spans(views, tree), now)
        if not release:
            return 0
        work_tree = known_tree(views, tree)
        with Tree(home, work_tree, policy_of(work_tree), partial(past, views, tree)) as files:
            before = files.bytes_used()
            if files.release(release):
                _collect(home, log, views, tree, files, now)
            return max(before - files.bytes_used(), 0)


def _collect(home: Home, log: EventLog, views: Views, tree: str, files: Tree, now: int) -> None:
    """git refuses to pack what is damaged: then the store is mended first."""
    from projections.mending import mend_held

    try:
        files.collect(set(live_captures(views, tree, now).values()))
    except StoreFailure as error:
        if error.code == "no_room":
            raise
        mend_held(home, log, views, tree)
        files.collect(set(live_captures(views, tree, now).values()))


def live_captures(views: Views, tree: str, now: int) -> dict[str, str]:
    """The commits of the captures of a work tree that nothing lets go, by capture: all that the store is to
    hold."""
    held = _held(views, tree)
    gone = commits_to_release(held, _spans(views, tree), now)
    return {one.capture: one.commit for one in held if one.commit not in gone}


def _retire(log: EventLog, views: Views, tree: UUID, verdict: Verdict, now: int) -> None:
    one = checkpoints.checkpoint(views.connection, verdict.candidate.checkpoint)
    if one is None or one.capture is None:
        return
    log.append(
        [
            CheckpointRetired(
                originator_id=tree,
                originator_version=log.version(tree) + 1,
                at=now,
                checkpoint=one.id,
                capture=one.capture,
                reason=verdict.reason,
            )
        ]
    )


def _held(views: Views, tree: str) -> list[Held]:
    kept = {capture for one in _kept(views, tree) for capture in (one.capture, one.after_capture)}
    rows = views.connection.execute(
        "SELECT * FROM captures WHERE tree = ? AND commit_id != '' ORDER BY position", (tree,)
    )
    return [
        Held(
            capture=row["capture"],
            commit=row["commit_id"],
            position=row["position"],
            needed=row["capture"] in kept,
            standalone_until=0 if _is_of_a_run(row) else row["ended_at"] + SAFETY_DAYS * DAY_NS,
        )
        for row in rows
    ]


def _is_of_a_run(row: sqlite3.Row) -> bool:
    """Whether a capture lives with a checkpoint; one made for a prompt that was only announced may still
    become one's own."""
    return row["moment"] in OF_A_RUN and row["entry"] is not None


def _kept(views: Views, tree: str) -> list[Checkpoint]:
    rows = views.connection.execute(
        "SELECT id FROM checkpoints WHERE tree = ? AND state IN ('complete', 'partial')", (tree,)
    )
    found = (checkpoints.checkpoint(views.connection, row["id"]) for row in rows.fetchall())
    return [one for one in found if one is not None]


def _spans(views: Views, tree: str) -> list[tuple[int, int]]:
    """From a kept checkpoint's capture to the first capture after its run, by log position; an inherited
    prompt's run is that of the session that it comes from."""
    spans = []
    for one in _kept(views, tree):
        first = one.capture_position or 0
        last = views.connection.execute(
            "SELECT MIN(captures.position) FROM captures LEFT JOIN runs ON runs.run = ?"
            " AND runs.stream = (SELECT stream FROM captures WHERE capture = ?)"
            " WHERE tree = ? AND captures.position > ?"
            " AND captures.began_at >= COALESCE(runs.ended_at, runs.last_sign_at, 0)",
            (one.entry, one.capture, tree, first),
        ).fetchone()[0]
        spans.append((first, last if last is not None else first))
    return spans
