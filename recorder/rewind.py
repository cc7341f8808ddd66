"""Carrying out a rewind, an undo, a redo or a revert: the order that never loses anything.

Safety capture → planned, durable → files → conversation → applied → what was displaced goes → a
capture of the rewind's own writes. All under the work tree's lock. What is to be done comes in as a
plan that is computed again here; what is asked of a person stays outside. Where the outcome cannot
be recorded, all is taken back at once; from then on nothing that fails undoes it.
"""

from __future__ import annotations

import secrets
import sqlite3
import time
import uuid
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import msgspec

from recorder.applying.apply import ApplyReport, apply, finish, roll_back
from recorder.applying.finish import sweep_marks
from recorder.applying.journal import reason
from recorder.errors import LogFailure, RecorderError, Refused
from recorder.events import Captured, CaptureFailed, RewindApplied, RewindFailed, RewindPlanned
from recorder.planning.planned import Plan, same
from recorder.recording import Occasion, lock_name, record_capture
from recorder.states import PathNote

if TYPE_CHECKING:
    from recorder.capture import Tree
    from recorder.home import Home
    from recorder.log import EventLog
    from recorder.worktree import WorkTree

BROKEN = (RecorderError, OSError, sqlite3.Error)
"""What the home raises where its disk is full or gone."""

Step = Callable[[str], None]
"""Called with a name before and after every step, for tests that kill there."""


class Undertaking(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for: the fields of `events.RewindPlanned` that are known beforehand."""

    verb: str
    session: UUID
    checkpoint: str | None
    inverts: str | None = None
    position_before: str | None
    position_after: str | None
    leaf_before: str | None
    leaf_after: str | None
    line: bytes = b""


class Conversation(Protocol):
    """The conversation's part: `possible` says whether `take` would move anything; `take` moves it and
    returns why it could not, or None. `take_back` makes it go on after entry `leaf` again, where `take` had
    moved it, and returns why it stays moved, or None."""

    @property
    def possible(self) -> bool: ...

    def take(self) -> str | None: ...

    def take_back(self, leaf: str | None) -> str | None: ...


class Ground(Protocol):
    """What the caller knows of the work tree, always caught up with the log when asked."""

    def plan(self, *, secured: bool = False) -> Plan:
        """The plan as of now; `secured`: everything on disk was captured a moment ago."""
        ...

    def keep_merged(self, plan: Plan) -> None:
        """Store what was merged for the plan, durably. Raises StoreFailure."""
        ...

    def broken_off(self) -> bool:
        """Whether a rewind of this work tree has no outcome: under its lock nobody is at work on it."""
        ...

    def last_commit(self) -> str | None:
        """The commit of the newest capture of the work tree."""
        ...

    def named(self) -> set[bytes]:
        """The absolute paths that tools named in this work tree since its last capture."""
        ...


class Carried(msgspec.Struct, frozen=True):
    """What came of it. `status`: `done`, `noop`, `refused`, `failed`, `partial`. `failed` names the paths
    that could not be written when everything was put back, `unrecovered` those that could not be, `kept`
    what was to go and stays. `unrecorded` is why it could not be recorded and was taken back for that,
    `uncaptured` why the state after it is not captured, or not shown, yet."""

    status: str
    plan: Plan
    operation: str | None = None
    failed: tuple[PathNote, ...] = ()
    unrecovered: tuple[PathNote, ...] = ()
    kept: tuple[PathNote, ...] = ()
    conversation_failed: str | None = None
    unrecorded: str | None = None
    uncaptured: str | None = None

    @property
    def gave_up(self) -> bool:
        """Whether it was begun and then taken back, as far as that went."""
        return bool(self.failed or self.unrecorded)


def carry_out(
    home: Home,
    log: EventLog,
    tree: Tree,
    work_tree: WorkTree,
    ground: Ground,
    undertaking: Undertaking,
    conversation: Conversation,
    *,
    approved: Plan | None = None,
    before_step: Step = lambda _: None,
) -> Carried:
    """Do it, or nothing.

    `approved` is the plan that a person said yes to. Raises Refused where the state from before cannot
    be captured whole, or where it is no longer the plan that was approved.
    """
    with home.lock(lock_name(work_tree.stream)):
        if ground.broken_off():
            raise Refused(
                "another rewind was broken off meanwhile; repeat this to end it first", code="changed"
            )
        plan = ground.plan()
        if plan.refused:
            return Carried("refused", plan)
        if plan.empty and not conversation.possible:
            return Carried("partial" if plan.unrecovered or plan.conflict else "noop", plan)
        operation = uuid.uuid4().hex[:16]
        before_step("safety")
        safety = _secure(log, tree, work_tree, ground, undertaking, operation, plan)
        plan = ground.plan(secured=True)
        if unsound := _unsound(tree, plan):
            tree.mend()
            safety = _secure(log, tree, work_tree, ground, undertaking, operation, plan)
            plan = ground.plan(secured=True)
            unsound = _unsound(tree, plan)
        if plan.refused:
            return Carried("refused", plan)
        _check_approved(approved, plan)
        _check_secured(tree, safety.commit, plan, unsound)
        ground.keep_merged(plan)
        before_step("plan")
        planned = _planned(log, work_tree.stream, undertaking, operation, safety.capture, plan)
        log.append([planned])
        before_step("apply")
        report = apply(work_tree.path, plan.steps, planned.private, tree, before_effect=before_step)
        if report.failed:
            return _gave_up(log, work_tree, planned, plan, report)
        try:
            failed = _conclude(log, planned, plan, report, conversation, before_step)
        except BROKEN as error:
            return _took_back(log, tree, work_tree, planned, plan, conversation, in_words(error), before_step)
        before_step("finish")
        left = finish(work_tree.path, plan.steps, planned.private, before_effect=before_step)
        before_step("after")
        uncaptured = _record_own_writes(log, tree, work_tree, ground, planned)
        kept = report.kept + left
        in_part = failed or plan.conflict or plan.unrecovered or kept
        status = "partial" if in_part else "done"
        return Carried(status, plan, operation, kept=kept, conversation_failed=failed, uncaptured=uncaptured)


def _secure(
    log: EventLog,
    tree: Tree,
    work_tree: WorkTree,
    ground: Ground,
    undertaking: Undertaking,
    operation: str,
    plan: Plan,
) -> Captured:
    """The safety capture: the state from before, whole for every path of the plan."""
    outcome = record_capture(
        log,
        tree,
        work_tree.stream,
        Occasion(moment="safety", source="watch", session=undertaking.session, operation=operation),
        previous=ground.last_commit(),
        named=ground.named() | _absolute(work_tree.path, plan),
    )
    if isinstance(outcome, CaptureFailed):
        raise Refused(
            f"the files cannot be captured as they are now ({outcome.why}), so nothing was touched",
            code="no_safety",
        )
    return outcome


def _absolute(root: bytes, plan: Plan) -> set[bytes]:
    return {
        step.path if step.path.startswith(b"/") else root.rstrip(b"/") + b"/" + step.path
        for step in plan.steps
    }


def _check_secured(tree: Tree, commit: str, plan: Plan, unsound: Collection[bytes]) -> None:
    """Every byte that a write or a deletion would displace is at hand."""
    stored = tree.states(commit, [step.path for step in plan.steps])
    for step in plan.steps:
        if stored[step.path] != step.before or step.path in unsound:
            name = step.path.decode(errors="replace")
            raise Refused(
                f"{name} could not be captured as it is now, so nothing was touched",
                code="no_safety",
                path=name,
            )


def _unsound(tree: Tree, plan: Plan) -> frozenset[bytes]:
    """The paths of which the store does not give back what stands there now: a capture relies on contents
    that it has already, and one of them may be damaged."""
    return frozenset(step.path for step in plan.steps if step.before.oid and not tree.holds(step.before.oid))


def _check_approved(approved: Plan | None, plan: Plan) -> None:
    differing = same(approved, plan) if approved is not None else []
    if differing:
        names = ", ".join(path.decode(errors="replace") for path in differing[:3])
        raise Refused(
            f"the files changed since the plan was shown ({names}); look at it again and repeat",
            code="changed",
        )


def _planned(
    log: EventLog, stream: UUID, undertaking: Undertaking, operation: str, safety: str, plan: Plan
) -> RewindPlanned:
    return RewindPlanned(
        originator_id=stream,
        originator_version=log.version(stream) + 1,
        at=time.time_ns(),
        operation=operation,
        safety=safety,
        private=secrets.token_hex(8),
        steps=plan.steps,
        takes_back=plan.takes_back,
        puts_on=plan.puts_on,
        **msgspec.structs.asdict(undertaking),
    )


def _gave_up(
    log: EventLog, work_tree: WorkTree, planned: RewindPlanned, plan: Plan, report: ApplyReport
) -> Carried:
    first = report.failed[0]
    why = f"{first.path.decode(errors='replace')}: {first.why}"
    return Carried(
        "failed" if report.rolled_back else "partial",
        plan,
        planned.operation,
        failed=report.failed,
        unrecovered=report.unrecovered,
        kept=_record_failed(log, work_tree, planned, why, report.unrecovered),
    )


def _conclude(
    log: EventLog,
    planned: RewindPlanned,
    plan: Plan,
    report: ApplyReport,
    conversation: Conversation,
    before_step: Step,
) -> str | None:
    """Move the conversation, then record that all is done. Returns why the conversation stays, or None;
    raises one of BROKEN where the log does not say that it is done."""
    before_step("conversation")
    failed = conversation.take() if conversation.possible else None
    before_step("applied")
    try:
        log.append([_applied(log, planned, plan, report, failed, conversation.possible)])
    except LogFailure:
        # A commit can fail after others can read it.
        since = log.stream(planned.originator_id, after=planned.originator_version)
        if not any(isinstance(one, RewindApplied) and one.operation == planned.operation for one in since):
            raise
    return failed


def _took_back(
    log: EventLog,
    tree: Tree,
    work_tree: WorkTree,
    planned: RewindPlanned,
    plan: Plan,
    conversation: Conversation,
    why: str,
    before_step: Step,
) -> Carried:
    """What recovery would do, at once: files and conversation from before, as far as that goes."""
    try:
        unrecovered = roll_back(
            work_tree.path, planned.steps, planned.private, tree, before_effect=before_step
        )
    except BROKEN as error:
        unrecovered = tuple(PathNote(step.path, in_words(error)) for step in planned.steps)
    try:
        stays = conversation.take_back(planned.leaf_before) if conversation.possible else None
    except BROKEN as error:
        stays = in_words(error)
    return Carried(
        "partial" if unrecovered or stays else "failed",
        plan,
        planned.operation,
        unrecovered=unrecovered,
        kept=_record_failed(log, work_tree, planned, f"it could not be recorded: {why}", unrecovered),
        conversation_failed=f"it had been moved already and stays so: {stays}" if stays else None,
        unrecorded=why,
    )


def _record_failed(
    log: EventLog,
    work_tree: WorkTree,
    planned: RewindPlanned,
    why: str,
    unrecovered: tuple[PathNote, ...],
) -> tuple[PathNote, ...]:
    """Record that it failed, and clear what it left under private names; the paths where that failed.

    Where the log does not take it, the next command's recovery records it: it finds all as before, or by
    the private names what is to be done still.
    """
    try:
        log.append(
            [
                RewindFailed(
                    originator_id=planned.originator_id,
                    originator_version=log.version(planned.originator_id) + 1,
                    at=time.time_ns(),
                    operation=planned.operation,
                    why=why,
                    unrecovered=unrecovered,
                )
            ]
        )
    except LogFailure:
        if unrecovered:
            return ()
    if unrecovered:
        sweep_marks(work_tree.path, planned.steps, planned.private)
        return ()
    return finish(work_tree.path, planned.steps, planned.private)


def _applied(
    log: EventLog,
    planned: RewindPlanned,
    plan: Plan,
    report: ApplyReport,
    conversation_failed: str | None,
    conversation_asked: bool,
) -> RewindApplied:
    left = tuple(PathNote(one.path, one.why) for one in plan.conflict) + report.kept
    return RewindApplied(
        originator_id=planned.originator_id,
        originator_version=log.version(planned.originator_id) + 1,
        at=time.time_ns(),
        operation=planned.operation,
        left=left,
        conversation="failed" if conversation_failed else "done" if conversation_asked else "noop",
    )


def _record_own_writes(
    log: EventLog,
    tree: Tree,
    work_tree: WorkTree,
    ground: Ground,
    planned: RewindPlanned,
) -> str | None:
    """Why the state after it is not captured, or None. The next command makes up for it."""
    try:
        outcome = record_capture(
            log,
            tree,
            work_tree.stream,
            Occasion(moment="rewound", source="watch", session=planned.session, operation=planned.operation),
            previous=ground.last_commit(),
            named=ground.named(),
            restored=restored(planned),
        )
    except BROKEN as error:
        return in_words(error)
    return outcome.why if isinstance(outcome, CaptureFailed) else None


def restored(planned: RewindPlanned) -> list[bytes]:
    """The files that a rewind put where they were: captured once, and so captured on, whatever their size."""
    return [step.path for step in planned.steps if step.after.kind == "file"]


def in_words(error: Exception) -> str:
    """One of BROKEN in a few words."""
    from recorder.eventlog.database import meaning

    return reason(error) if isinstance(error, RecorderError | OSError) else meaning(error)
