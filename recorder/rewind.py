"""Carrying out a rewind, an undo, a redo or a revert: the order that never loses anything.

Safety capture → planned, durable → files → conversation → applied → what was displaced goes → a
capture of the rewind's own writes. All under the work tree's lock. What is to be done comes in as a
plan that is computed again here; what is asked of a person stays outside.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

import msgspec

from recorder.applying.apply import ApplyReport, apply, finish
from recorder.errors import Refused
from recorder.events import Captured, CaptureFailed, RewindApplied, RewindFailed, RewindPlanned
from recorder.planning.planned import Plan, same
from recorder.recording import Occasion, lock_name, record_capture
from recorder.states import PathNote

if TYPE_CHECKING:
    from recorder.capture import Tree
    from recorder.home import Home
    from recorder.log import EventLog
    from recorder.worktree import WorkTree

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
    returns why it could not, or None."""

    @property
    def possible(self) -> bool: ...

    def take(self) -> str | None: ...


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
    what was to go and stays."""

    status: str
    plan: Plan
    operation: str | None = None
    failed: tuple[PathNote, ...] = ()
    unrecovered: tuple[PathNote, ...] = ()
    kept: tuple[PathNote, ...] = ()
    conversation_failed: str | None = None


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
        before_step("conversation")
        failed = conversation.take() if conversation.possible else None
        before_step("applied")
        log.append([_applied(log, planned, plan, report, failed, conversation.possible)])
        before_step("finish")
        left = finish(work_tree.path, plan.steps, planned.private, before_effect=before_step)
        before_step("after")
        _record_own_writes(log, tree, work_tree, ground, planned)
        kept = report.kept + left
        in_part = failed or plan.conflict or plan.unrecovered or kept
        status = "partial" if in_part else "done"
        return Carried(status, plan, operation, kept=kept, conversation_failed=failed)


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
    log.append(
        [
            RewindFailed(
                originator_id=planned.originator_id,
                originator_version=log.version(planned.originator_id) + 1,
                at=time.time_ns(),
                operation=planned.operation,
                why=f"{first.path.decode(errors='replace')}: {first.why}",
                unrecovered=report.unrecovered,
            )
        ]
    )
    left = finish(work_tree.path, planned.steps, planned.private) if report.rolled_back else ()
    return Carried(
        "failed" if report.rolled_back else "partial",
        plan,
        planned.operation,
        failed=report.failed,
        unrecovered=report.unrecovered,
        kept=left,
    )


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
) -> None:
    record_capture(
        log,
        tree,
        work_tree.stream,
        Occasion(moment="rewound", source="watch", session=planned.session, operation=planned.operation),
        previous=ground.last_commit(),
        named=ground.named(),
        restored=restored(planned),
    )


def restored(planned: RewindPlanned) -> list[bytes]:
    """The files that a rewind put where they were: captured once, and so captured on, whatever their size."""
    return [step.path for step in planned.steps if step.after.kind == "file"]
