"""What a rewind would do, computed from values alone: nothing here reads the disk, git or a view.

A rewind takes back, newest first, the session's changes that are applied now and were not at the
target, and puts on, oldest first, those applied then and not now. Backward, forward and sideways are
this one computation, on the work tree's own history; a revert is the same for one run's changes, and
the inverse of a rewind is its file steps turned round. Only where the whole tree is asked for does a
plan compare trees instead, and merges nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from recorder.history import Change, Operation, Unseen
from recorder.planning.applied import applied, takes_part
from recorder.planning.planned import Disk, Options, Plan, Target, Warned, conclude, moved, same
from recorder.planning.routes import (
    Conflict,
    Kept,
    Outcome,
    Route,
    Turn,
    Wanted,
    follow,
    inside,
    putting_on,
    taking_back,
)
from recorder.planning.spans import parents
from recorder.states import ABSENT, PathNote, PathState

__all__ = [
    "Disk",
    "Options",
    "Plan",
    "Target",
    "Warned",
    "moved",
    "plan_inverse",
    "plan_revert",
    "plan_rewind",
    "plan_tree",
    "same",
]

DELETES = ("named", "window", "run")
"""The evidence that is good enough to remove a file."""

ALL = Options()


def plan_rewind(
    changes: Sequence[Change],
    operations: Sequence[Operation],
    disk: Disk,
    *,
    session: str,
    target: Target,
    options: Options = ALL,
    unseen: Iterable[Unseen] = (),
) -> Plan:
    """The way of a session's changes to where they stood at the target. `changes` are in log order."""
    now = applied(changes, operations, session=session)
    then = applied(changes, operations, session=session, upto=target.position)
    gone, come = now - then, then - now
    return _of_changes(
        changes,
        [change for change in reversed(changes) if change.id in gone],
        [change for change in changes if change.id in come],
        disk,
        session=session,
        options=options,
        position=target.position,
        passed=[c for c in changes if c.position > target.position and session in c.sessions],
        standing=applied(changes, operations),
        unseen=[write for write in unseen if write.session == session and write.at >= target.at],
    )


def plan_revert(
    changes: Sequence[Change],
    operations: Sequence[Operation],
    disk: Disk,
    *,
    session: str,
    run: str,
    options: Options = ALL,
    unseen: Iterable[Unseen] = (),
) -> Plan:
    """Take back what one run changed and is applied now; all that came later stays."""
    now = applied(changes, operations, session=session)
    of_run = [change for change in changes if (session, run) in change.runs]
    return _of_changes(
        changes,
        [change for change in reversed(of_run) if change.id in now],
        [],
        disk,
        session=session,
        options=options,
        position=None,
        passed=of_run,
        standing=applied(changes, operations),
        unseen=[write for write in unseen if (write.session, write.run) == (session, run)],
    )


def plan_inverse(
    operation: Operation, changes: Sequence[Change], disk: Disk, *, options: Options = ALL
) -> Plan:
    """Each file step of an operation turned round; what it took back is put on, and the reverse."""
    steps = [s for s in operation.steps if s.path not in operation.left and inside(s.path, options.paths)]
    remade = _remade_by_others(changes, operation.session)
    routes = [
        Route(step.path, (Turn(step.after, step.before, _remade(step.path, operation.position, remade)),))
        for step in steps
    ]
    return conclude(
        _followed(routes, disk, options),
        disk,
        options=options,
        changes=changes,
        backs=operation.puts_on,
        ons=operation.takes_back,
    )


def plan_tree(
    then: Mapping[bytes, PathState],
    now: Collection[bytes],
    changes: Sequence[Change],
    operations: Sequence[Operation],
    disk: Disk,
    *,
    target: Target,
    options: Options = ALL,
) -> Plan:
    """The whole work tree as it was captured, whoever changed it.

    `then` is the target's capture with its skipped and unknown paths, `now` all paths that captures
    hold now. Files outside the work tree have no part in it.
    """
    paths = [path for path in {*then, *now} if not _outside(path) and inside(path, options.paths)]
    hidden = {path for path, state in then.items() if not state.known}
    standing = applied(changes, operations)
    stood = applied(changes, operations, upto=target.position)
    gone, come = standing - stood, stood - standing
    return conclude(
        [_whole(path, then.get(path, ABSENT), disk.state(path), hidden, options) for path in paths],
        disk,
        options=options,
        changes=changes,
        backs=[c.id for c in reversed(changes) if c.id in gone and not _outside(c.path)],
        ons=[c.id for c in changes if c.id in come and not _outside(c.path)],
    )


def _of_changes(
    changes: Sequence[Change],
    backs: Sequence[Change],
    ons: Sequence[Change],
    disk: Disk,
    *,
    session: str,
    options: Options,
    position: int | None,
    passed: Sequence[Change],
    standing: frozenset[str],
    unseen: Iterable[Unseen],
) -> Plan:
    """The plan for the changes to take back and put on; `passed` are all changes on the way there,
    `standing` those of anybody that are applied now."""
    backs = [change for change in backs if inside(change.path, options.paths)]
    ons = [change for change in ons if inside(change.path, options.paths)]
    remade = _remade_by_others(changes, session)
    routes = _routes(backs, ons, options, remade, position, standing)
    passed = [change for change in passed if inside(change.path, options.paths)]
    outcomes = _left_to_git(_followed(routes, disk, options), routes, changes, disk, options)
    told = {outcome.path for outcome in outcomes if isinstance(outcome, Kept)}
    # What others had undone already is theirs: to go forward again does not do it anew.
    idle = {outcome.path for outcome in outcomes if isinstance(outcome, Wanted) and outcome.idle}
    return conclude(
        outcomes,
        disk,
        options=options,
        changes=changes,
        backs=[change.id for change in backs if change.path not in idle],
        ons=[change.id for change in ons if change.path not in idle],
        keep={change.path: change.why for change in passed if change.evidence == "loose"},
        by_git=len({change.path for change in passed if change.by == "git"} - told),
        unrecovered=_unrecovered(unseen, disk, options),
        warnings=_no_windows([*backs, *ons]),
    )


def _followed(routes: Iterable[Route], disk: Disk, options: Options) -> list[Outcome]:
    merge_texts = disk.merge_texts if options.on_conflict == "merge" else None
    return [follow(route, disk.state(route.path), merge_texts) for route in routes]


def _left_to_git(
    outcomes: Iterable[Outcome],
    routes: Iterable[Route],
    changes: Sequence[Change],
    disk: Disk,
    options: Options,
) -> list[Outcome]:
    """The outcomes, but where git put there last what stands on disk, and that is not on the way: such a path
    is git's now. It is neither merged nor a conflict, unless it is to be overwritten."""
    if options.on_conflict == "overwrite":
        return list(outcomes)
    last = {change.path: change for change in changes}
    left: list[Outcome] = []
    for outcome, route in zip(outcomes, routes, strict=True):
        newest, here = last[route.path], disk.state(route.path)
        gits = newest.by == "git" and newest.after == here and isinstance(follow(route, here), Conflict)
        left.append(Kept(route.path, "git changed it since") if gits else outcome)
    return left


def _routes(
    backs: Iterable[Change],
    ons: Iterable[Change],
    options: Options,
    remade: Mapping[bytes, int],
    position: int | None,
    standing: frozenset[str],
) -> list[Route]:
    turns: dict[bytes, list[Turn]] = defaultdict(list)
    blocked: dict[bytes, str] = {}
    for change in backs:
        turns[change.path].append(taking_back(change, _kept(change, remade, options.new_files)))
    for change in ons:
        turns[change.path].append(putting_on(change, _kept(change, remade, "delete")))
    for change in (*backs, *ons):
        if why := _hopeless(change, position, standing):
            blocked[change.path] = why
    return [Route(path, tuple(way), blocked.get(path, "")) for path, way in turns.items()]


def _kept(change: Change, remade: Mapping[bytes, int], new_files: str) -> str:
    """Why the change is no reason to remove what stands at its path; empty where it is one."""
    if change.by == "shared" or change.evidence not in DELETES:
        return f"it is not sure that the session made it: {change.why}"
    if new_files == "keep":
        return "made by the session, and new files are kept"
    return _remade(change.path, change.position, remade)


def _hopeless(change: Change, position: int | None, standing: frozenset[str]) -> str:
    if change.by == "shared":
        return change.why
    if not standing.isdisjoint(change.contested):
        return "two sessions changed it in overlapping runs"
    lost = change.unknown_from
    if position is not None and lost is not None and lost <= position < change.position:
        return "its state at the checkpoint is unknown"
    return ""


def _remade_by_others(changes: Iterable[Change], session: str) -> dict[bytes, int]:
    """Where in the log somebody else last made each path."""
    return {
        change.path: change.position
        for change in changes
        if change.after.present
        and not change.before.present
        and change.by != "rewind"
        and not takes_part(change, session)
    }


def _remade(path: bytes, position: int, remade: Mapping[bytes, int]) -> str:
    return "somebody else made it again" if remade.get(path, -1) > position else ""


def _whole(path: bytes, goal: PathState, here: PathState, hidden: set[bytes], options: Options) -> Outcome:
    """Tree scope: the path as it was captured, where that is known then and now. `hidden` are the
    paths that the capture does not know, whatever lies below them."""
    if goal.kind == "unknown":
        return Kept(path, "its state at the checkpoint is unknown")
    if path in hidden or (hidden and not hidden.isdisjoint(parents(path))):
        return Kept(path, "")
    if not goal.present and (not here.known or (here.present and options.new_files == "keep")):
        return Kept(path, "was not there, and new files are kept" if here.known else "")
    return follow(Route(path, (Turn(here, goal),)), here)


def _outside(path: bytes) -> bool:
    return path.startswith(b"/")


def _unrecovered(unseen: Iterable[Unseen], disk: Disk, options: Options) -> tuple[PathNote, ...]:
    paths = {
        write.path
        for write in unseen
        if inside(write.path, options.paths) and (write.captured or not disk.state(write.path).known)
    }
    return tuple(
        PathNote(path, "what stood there before the session wrote it is unknown") for path in sorted(paths)
    )


def _no_windows(changes: Iterable[Change]) -> tuple[Warned, ...]:
    if all(change.evidence != "run" for change in changes):
        return ()
    message = "the agent does not say when its tools ran: all that changed during its runs counts as its own"
    return (Warned("no_windows", message),)
