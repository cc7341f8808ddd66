"""Mending the store of a work tree that the log knows, and telling the log what is lost for good.

`recorder.capturing.mending` looks and repairs; this module knows which captures are to be there, and appends
the facts from which checkpoints become partial or lost.
"""

from __future__ import annotations

import time
from uuid import UUID

from projections.capture import known_tree
from projections.prune import live_captures
from projections.views import Views
from recorder.capturing import mending
from recorder.capturing.mending import Damage, Loss, Mended
from recorder.events import CaptureLost
from recorder.home import Home
from recorder.log import EventLog
from recorder.recording import lock_name


def examine_tree(home: Home, views: Views, tree: str) -> tuple[Damage, ...]:
    """What is wrong with the store of a work tree (its stream's hex id); nothing is written. Raises
    StoreFailure."""
    live = live_captures(views, tree, time.time_ns())
    return mending.examine(home, known_tree(views, tree), set(live.values()))


def mend_tree(
    home: Home, log: EventLog, views: Views, tree: str
) -> tuple[tuple[Mended, ...], tuple[CaptureLost, ...]]:
    """Repair a work tree's store under its lock, and append what is lost: what was done, and the facts.
    Raises StoreFailure, LogFailure."""
    with home.lock(lock_name(UUID(tree))):
        views.catch_up()
        return mend_held(home, log, views, tree)


def mend_held(
    home: Home, log: EventLog, views: Views, tree: str
) -> tuple[tuple[Mended, ...], tuple[CaptureLost, ...]]:
    """`mend_tree` for who holds the work tree's lock, with the views caught up."""
    captures = set(live_captures(views, tree, time.time_ns()).values())
    done = mending.mend(home, known_tree(views, tree), captures)
    return done, account_for(home, log, views, tree)


def account_for(home: Home, log: EventLog, views: Views, tree: str) -> tuple[CaptureLost, ...]:
    """Append a fact for each capture of which the store has lost something, under the work tree's lock and
    when nothing is left to be mended. What is left of one is stored before, and the refs that git would
    stumble over go after: killed anywhere, it is done again. Raises StoreFailure, LogFailure."""
    work_tree = known_tree(views, tree)
    live = live_captures(views, tree, time.time_ns())
    found = {loss.commit: loss for loss in mending.losses(home, work_tree, sorted(set(live.values())))}
    rest = {commit: mending.keep_the_rest(home, work_tree, loss) for commit, loss in found.items()}
    version, at = log.version(UUID(tree)), time.time_ns()
    facts = [
        _fact(UUID(tree), version + number, at, capture, found[commit], rest[commit])
        for number, (capture, commit) in enumerate(
            ((capture, commit) for capture, commit in live.items() if commit in found), 1
        )
    ]
    if facts:
        log.append(facts)
        views.catch_up()
    mending.let_go(home, work_tree)
    return tuple(facts)


def _fact(tree: UUID, version: int, at: int, capture: str, loss: Loss, rest: str) -> CaptureLost:
    return CaptureLost(
        originator_id=tree,
        originator_version=version,
        at=at,
        capture=capture,
        commit=rest,
        why=loss.why,
        unknown=loss.paths,
    )
