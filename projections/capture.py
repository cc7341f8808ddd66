"""The capture reactor: reads the facts that ask for a capture, drives the shadow store, appends the outcome.

A prompt asks for the state from before its run, a settled run for the state after it, a session's
start for a first state; a step whose tools have returned is captured where there is time. What the log
already answers is never captured again.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from uuid import UUID

import msgspec

from projections import changes, checkpoints, steps
from projections.asks import Ask, StepsDone, asked, heard, newest_asks
from projections.earlier import captured_since, earlier_contents, last_cost, standing_since
from projections.operations import is_half_done
from projections.past import past
from projections.views import PAGE, Views
from recorder.capture import Policy, Tree
from recorder.errors import Conflict, LogFailure, RecorderError, Refused, StoreFailure
from recorder.events import Captured, CaptureFailed, CaptureRefused, Fact
from recorder.home import Home, open_home
from recorder.log import EventLog, Stored
from recorder.recording import Occasion, lock_name, open_stream, record_capture
from recorder.sources.base import Signal
from recorder.worktree import WorkTree, resolve

STALE_NS = 600 * 10**9
"""A prompt that was given longer ago has no state from before that could still be looked at."""

FRESH_NS = 10 * 10**9
"""What another process read of a prompt or a run's end can be answered for so long."""

AT_ONCE_NS = 1_000_000_000
"""A prompt that is answered within this time is not late for having been read by another process."""

STEP_FRESH_NS = 1_500_000_000
"""For so long after its tools returned the model is taken to think about a step."""

QUICK_NS = 250_000_000
"""A capture that takes no longer is made for any step."""

CHEAP_NS = 25_000_000
"""A capture that takes no longer is made before every call that may write."""

STEP_SHARE = 10
"""Another one is made only where the step took so many times longer."""

UNWATCHED = "it was given before the recorder watched"
OVERTAKEN = "the next prompt came before its files could be captured"
"""Why a prompt has lost its moment."""

ATTEMPTS = 1000
"""Each one that fails means that another writer got on."""


class CaptureReactor:
    """Answers what the log asks for. Holds the work trees open that it captured last."""

    KEEP_OPEN = 8

    def __init__(
        self,
        home: Home,
        log: EventLog,
        views: Views,
        policy_of: Callable[[WorkTree], Policy],
        user_home: Path,
        *,
        refuses: Callable[[str], str | None] = lambda _: None,
        recover: Callable[[str], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
        answers_others: bool = False,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        """`refuses(agent)` gives the reason why sessions of an agent are not captured, or None;
        `recover(tree)` ends what a crash left half done there; `tell` takes a sentence for the user.
        `answers_others`: what other processes read of a log is answered here too, while it is fresh."""
        self._home, self._log, self._views = home, log, views
        self._policy_of, self._user_home = policy_of, user_home
        self._refuses, self._now = refuses, now
        self._recover, self._tell = recover, tell
        self._open: dict[UUID, Tree] = {}
        self._steps_done = StepsDone()
        self._reached = views.position if answers_others else None

    def close(self) -> None:
        for tree in self._open.values():
            tree.close()
        self._open.clear()

    def react(self, appended: Sequence[Stored]) -> list[Fact]:
        """Answer the facts just appended; returns the outcomes that were appended in turn."""
        others = self._by_others(appended)
        self._views.catch_up()
        facts = [stored.fact for stored in appended]
        self._steps_done.note([*others, *facts])
        asks = newest_asks([*self._fresh(asked(others)), *asked(facts)])
        outcomes = [outcome for ask in asks if (outcome := self._answer(ask)) is not None]
        superseded = self._refuse_unanswered({ask.stream for ask in asks})
        return outcomes + superseded

    def _by_others(self, appended: Sequence[Stored]) -> list[Fact]:
        """What stands in the log between what was looked at before and what this process appended."""
        if self._reached is None:
            return []
        upto = appended[0].position - 1 if appended else None
        found: list[Fact] = []
        while page := self._log.read(after=self._reached, upto=upto, limit=PAGE):
            found += [stored.fact for stored in page]
            self._reached = page[-1].position
        self._reached = appended[-1].position if appended else self._reached
        return found

    def _fresh(self, asks: Sequence[Ask]) -> list[Ask]:
        """Of what another process read: a prompt that stood for a while may have its run on disk already."""
        ages = [(self._now() - ask.at, ask) for ask in asks if ask.moment != "start"]
        return [
            msgspec.structs.replace(ask, late=ask.late or age > AT_ONCE_NS)
            for age, ask in ages
            if age < FRESH_NS
        ]

    def capture_step(self) -> Captured | CaptureFailed | None:
        """Capture the state after the newest step whose tools have all returned, where there is time; None
        where there is no such step. To be called when nothing else waits: one at a time, then look again."""
        while (stream := self._steps_done.take()) is not None:
            step = steps.just_returned(self._views.connection, stream.hex)
            if step is not None and self._has_time_for(stream, step):
                outcome = self._answer(Ask(stream, "step", step.step, None, False, step.over_at))
                if isinstance(outcome, Captured | CaptureFailed):
                    return outcome
        return None

    def hear(self, stream: UUID, signal: Signal, run: str) -> Captured | CaptureFailed | None:
        """Capture what a hook asks for, now, while its agent waits; None where there is nothing to do. `run`
        is the one under way."""
        self._views.catch_up()
        ask = heard(stream, signal, run)
        if ask is None or (ask.moment == "call" and not self._learns_from(ask)):
            return self.capture_step() if signal.kind == "step" else None
        outcome = self._answer(ask)
        return outcome if isinstance(outcome, Captured | CaptureFailed) else None

    def _learns_from(self, call: Ask) -> bool:
        """Whether the state before a call is worth the agent's waiting: it costs next to nothing, or the
        call names a file that no capture knows."""
        tree = changes.tree_of(self._views.connection, call.stream.hex)
        cost = last_cost(self._views.connection, tree) if tree else None
        if tree is None or cost is None or cost < CHEAP_NS:
            return True
        commit = last_commit(self._views, UUID(tree))
        if not call.named or commit is None:
            return False
        files = self._tree(known_tree(self._views, tree))
        return not all(files.state(commit, files.key(path) or path).known for path in call.named)

    def _has_time_for(self, stream: UUID, step: steps.Returned) -> bool:
        """Whether the model still thinks, and the session's work tree was captured quickly the last time."""
        tree = changes.tree_of(self._views.connection, stream.hex)
        cost = last_cost(self._views.connection, tree) if tree else None
        if cost is None or self._now() - step.over_at > STEP_FRESH_NS:
            return False
        return cost < QUICK_NS or cost * STEP_SHARE < step.over_at - step.writes_at

    def catch_up(self, why: str) -> list[Fact]:
        """Answer for every prompt that has no outcome: what is fresh is captured, the rest is refused."""
        self._views.catch_up()
        outcomes: list[Fact] = []
        newest = {one.stream: one for one in checkpoints.uncaptured(self._views.connection)}
        for one in newest.values():
            if self._now() - one.given_at < STALE_NS:
                outcome = self._answer(self._ask_again(one))
                outcomes += [outcome] if outcome else []
        return outcomes + self._refuse_unanswered(None, why)

    def refuse(self, streams: set[UUID], why: str, *, spare_fresh: bool = False) -> list[Fact]:
        """Every prompt of these sessions that has no outcome has lost its moment, for the same reason; but
        for what is fresh, where somebody else is there to answer it (`spare_fresh`)."""
        self._views.catch_up()
        return self._refuse_unanswered(streams, why, spare_fresh=spare_fresh)

    def _ask_again(self, one: checkpoints.Checkpoint) -> Ask:
        reference_at = self._views.connection.execute(
            "SELECT reference_at FROM prompts WHERE stream = ? AND entry = ?", (one.stream, one.entry)
        ).fetchone()["reference_at"]
        return Ask(UUID(one.stream), "prompt", one.entry, reference_at, True, one.given_at)

    def _answer(self, ask: Ask) -> Fact | None:
        session = self._views.connection.execute(
            "SELECT * FROM sessions WHERE stream = ?", (ask.stream.hex,)
        ).fetchone()
        if session is None or self._answered(ask):
            return None
        if self._now() - ask.at > STALE_NS and not (ask.moment == "settled" and self._bound(ask)):
            return None
        try:
            self._check_wanted(session)
            tree = self._tree_of(ask.stream, session["cwd"])
            return self._capture(tree, ask)
        except LogFailure:
            raise
        except RecorderError as error:
            if ask.moment != "prompt" or ask.entry is None:
                return None
            return next(iter(self._refuse(ask.stream, [ask.entry], error.message)), None)

    def _answered(self, ask: Ask) -> bool:
        if ask.moment == "settled":
            return captured_since(self._views.connection, ask.stream, ask.entry, ask.at)
        if ask.announced is not None:
            return checkpoints.is_captured(self._views.connection, ask.stream.hex, ask.announced)
        if ask.moment != "prompt" or ask.entry is None:
            return False
        known = checkpoints.checkpoint_of_entry(self._views.connection, ask.stream.hex, ask.entry)
        return known is None or known.state != "capturing"

    def _bound(self, ask: Ask) -> bool:
        return changes.tree_of(self._views.connection, ask.stream.hex) is not None

    def _check_wanted(self, session: sqlite3.Row) -> None:
        why = session["foreign_why"] or self._refuses(session["agent"])
        if why:
            raise Refused(why)
        if not session["cwd"]:
            raise Refused("the session's log names no folder")

    def _tree_of(self, stream: UUID, cwd: str) -> WorkTree:
        """The tree of the session's first capture, else the tree of its folder."""
        bound = changes.tree_of(self._views.connection, stream.hex)
        return known_tree(self._views, bound) if bound else resolve(cwd, self._home, self._user_home)

    @contextlib.contextmanager
    def _settled(self, tree: UUID, *, timeout: float) -> Iterator[None]:
        """Hold a work tree's lock with nothing half done in it: whoever held it before may have died."""
        for _ in range(2):
            self._recover(tree.hex)
            with self._home.lock(lock_name(tree), timeout=timeout):
                self._views.catch_up()
                if not is_half_done(self._views.connection, tree.hex):
                    yield
                    return
        raise Refused("a rewind that was broken off could not be rolled back yet", code="unrecovered")

    def _capture(self, work_tree: WorkTree, ask: Ask) -> Captured | CaptureFailed | None:
        with self._settled(work_tree.stream, timeout=0 if ask.moment == "step" else -1):
            if self._answered(ask):
                return None
            if open_stream(self._log, work_tree) and work_tree.kind == "per-file":
                name = os.fsdecode(work_tree.path)
                self._tell(f"of {name} only the files that tools name are kept: {work_tree.why}")
            outcome = record_capture(
                self._log,
                self._tree(work_tree),
                work_tree.stream,
                Occasion(
                    moment=ask.moment,
                    source=ask.source,
                    session=ask.stream,
                    entry=ask.entry,
                    reference_at=ask.reference_at if ask.moment == "prompt" else None,
                    late=ask.late,
                    announced=ask.announced,
                    deadline=ask.deadline,
                ),
                previous=last_commit(self._views, work_tree.stream),
                previous_at=standing_since(self._views.connection, work_tree.stream),
                looked_at=changes.last_look(self._views.connection, work_tree.stream.hex) or None,
                named=changes.newly_named(self._views.connection, work_tree.stream.hex, ask.stream.hex)
                | ask.named,
                contents=earlier_contents(self._views, self._log, ask.stream.hex) if ask.reference_at else {},
            )
            self._views.catch_up()
            self._account_for(work_tree)
            return outcome

    def _account_for(self, work_tree: WorkTree) -> None:
        """Where the capture met damage: what could not be mended is lost, and the log says so."""
        from projections.mending import account_for

        tree = self._tree(work_tree)
        if not tree.damaged:
            return
        try:
            lost = account_for(self._home, self._log, self._views, work_tree.stream.hex)
        except StoreFailure as error:  # told again with the next capture
            self._tell(error.message)
            return
        tree.damaged = False
        if lost:
            name = os.fsdecode(work_tree.path)
            self._tell(f"what is kept of {name} was damaged: {len(lost):,} captures lost some of it")

    def _tree(self, work_tree: WorkTree) -> Tree:
        tree = self._open.pop(work_tree.stream, None) or Tree(
            self._home,
            work_tree,
            self._policy_of(work_tree),
            partial(past, self._views, work_tree.stream.hex),
        )
        self._open[work_tree.stream] = tree
        if len(self._open) > self.KEEP_OPEN:
            oldest = next(iter(self._open))
            self._open.pop(oldest).close()
        return tree

    def _refuse_unanswered(
        self, streams: set[UUID] | None, why: str | None = None, *, spare_fresh: bool = False
    ) -> list[Fact]:
        """Prompts that others of their session overtook, or that nobody watched, have lost their moment."""
        unanswered = [
            one
            for one in checkpoints.uncaptured(self._views.connection)
            if (streams is None or UUID(one.stream) in streams)
            and not (spare_fresh and self._now() - one.given_at < FRESH_NS)
        ]
        by_reason: dict[tuple[UUID, str], list[str]] = {}
        for one in unanswered:
            stale = self._now() - one.given_at >= STALE_NS
            reason = why or (UNWATCHED if stale else OVERTAKEN)
            by_reason.setdefault((UUID(one.stream), reason), []).append(one.entry)
        return [
            fact
            for (stream, reason), entries in by_reason.items()
            for start in range(0, len(entries), PAGE)
            for fact in self._refuse(stream, entries[start : start + PAGE], reason)
        ]

    def _refuse(self, stream: UUID, entries: Sequence[str], why: str) -> list[Fact]:
        """In one transaction; none for a prompt that another process answered meanwhile."""
        for _ in range(ATTEMPTS):
            known = [
                checkpoints.checkpoint_of_entry(self._views.connection, stream.hex, entry)
                for entry in entries
            ]
            waiting = [one.entry for one in known if one is not None and one.state == "capturing"]
            version, at = self._log.version(stream), self._now()
            refused = [
                CaptureRefused(
                    originator_id=stream, originator_version=version + number, at=at, entry=entry, why=why
                )
                for number, entry in enumerate(waiting, 1)
            ]
            with contextlib.suppress(Conflict):
                if refused:
                    self._log.append(refused)
                self._views.catch_up()
                return list(refused)
            self._views.catch_up()
        raise Conflict(f"other processes kept appending to the session {stream}; try again")


def warm_up() -> None:
    """Capture an empty scratch folder: the first capture of a process loads what all others use, and
    that is better done before a prompt than after it."""
    with tempfile.TemporaryDirectory(prefix="recorder-") as scratch:
        folder = Path(scratch, "tree")
        folder.mkdir()
        home = open_home(Path(scratch, "home"))
        with Tree(home, resolve(str(folder), home, Path(scratch)), Policy()) as tree:
            tree.capture(previous=None)


def known_tree(views: Views, tree: str) -> WorkTree:
    """A work tree that the log knows, by its stream's hex id."""
    row = views.connection.execute("SELECT * FROM trees WHERE tree = ?", (tree,)).fetchone()
    return WorkTree(
        path=row["path"], device=row["device"], inode=row["inode"], kind=row["kind"], why=row["why"]
    )


def last_commit(views: Views, tree: UUID) -> str | None:
    """The commit of the newest capture of a work tree; the views are caught up and its lock is held."""
    row = views.connection.execute(
        "SELECT commit_id FROM captures WHERE tree = ? ORDER BY position DESC LIMIT 1", (tree.hex,)
    ).fetchone()
    return row["commit_id"] if row else None
