"""The ground that a plan stands on: a work tree's history from the views, and its disk as it is now."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import msgspec

from cli.told import contents_told
from projections import changes, operations
from projections.capture import last_commit
from projections.history import adopt, inherited_runs, tree_history
from projections.operations import is_half_done
from recorder.errors import RecorderError, Refused
from recorder.events import Body
from recorder.history import Change, Operation, Transition, TreeHistory, Unseen
from recorder.merging import Merging
from recorder.planning.attribution import attribute, unseen_writes
from recorder.planning.planned import Disk, Plan
from recorder.planning.settling import StateOf
from recorder.states import SKIPPED, GitPosition, PathState

if TYPE_CHECKING:
    from cli.context import Recording
    from recorder.capture import Look, Tree
    from recorder.worktree import WorkTree

NEVER = 2**62
"""A log position after every other: of what is seen on disk and not captured yet."""


class Seen(msgspec.Struct, frozen=True):
    """What plans are made from: the attributed changes, the operations, and the disk."""

    changes: list[Change]
    operations: tuple[Operation, ...]
    unseen: list[Unseen]
    disk: Disk
    git: GitPosition | None
    paths: Callable[[], frozenset[bytes]]
    """Every path that captures hold now; walks the newest capture when asked."""


class TreeGround:
    """One work tree during one command. `make` turns what is seen into the plan that is asked for.

    What is asked for was understood by the views as they are now, so an operation that another command
    makes meanwhile ends this one: “one back” would mean another place.
    """

    def __init__(
        self, recording: Recording, tree: Tree, work_tree: WorkTree, stream: str, make: Callable[[Seen], Plan]
    ) -> None:
        self._recording, self._tree, self._work_tree = recording, tree, work_tree
        self._stream, self._make = stream, make
        self._merging = Merging(tree, work_tree.path, os.fsencode(recording.home.store(work_tree.stream)))
        self._lacking = functools.cache(self._merging.lacking)
        self._newest = operations.operations_of(recording.views.connection, work_tree.stream.hex)[-1:]
        self.git: GitPosition | None = None

    def plan(self, *, secured: bool = False) -> Plan:
        seen = self.see(secured=secured)
        self.git = seen.git
        return self._make(seen)

    def keep_merged(self, plan: Plan) -> None:
        self._merging.keep(plan)

    def broken_off(self) -> bool:
        self._recording.views.catch_up()
        return is_half_done(self._recording.views.connection, self._work_tree.stream.hex)

    def last_commit(self) -> str | None:
        self._recording.views.catch_up()
        return last_commit(self._recording.views, self._work_tree.stream)

    def named(self) -> set[bytes]:
        self._recording.views.catch_up()
        return changes.newly_named(self._recording.views.connection, self._work_tree.stream.hex)

    def see(self, *, secured: bool) -> Seen:
        """`secured`: everything on disk was captured a moment ago, so that there is no need to look."""
        previous = self.last_commit()
        connection = self._recording.views.connection
        tree = self._work_tree.stream.hex
        if operations.operations_of(connection, tree)[-1:] != self._newest:
            raise Refused(
                "another rewind was made in this work tree meanwhile; look at it and repeat", code="changed"
            )
        look = None if secured else self._tree.look(previous=previous, named=self.named())
        fresh = pending(look, changes.last_look(connection, tree)) if look else ()
        history = tree_history(connection, tree, pending=fresh)
        where = locate(self._tree)
        found = attribute(history, locate=where, contains=self._contains)
        for content in contents_told(
            self._recording, history, found, lambda o: bool(self._merging.lacking(o))
        ):
            self._merging.hold(content)
        return Seen(
            changes=adopt(found, self._stream, inherited_runs(connection, self._stream)),
            operations=history.operations,
            unseen=unseen_writes(history, found, locate=where),
            disk=Disk(
                state=self._state_of(previous, {one.path for one in fresh if one.after.known}),
                children=self._children,
                merge_texts=self._merging.merge_texts,
                lacking=self._merging.lacking if secured else self._lacking,
            ),
            git=look.git if look else next(reversed(history.git.values()), None),
            paths=lambda: self._paths(previous, history),
        )

    def _state_of(self, commit: str | None, in_sight: Collection[bytes]) -> StateOf:
        """What stands on disk; `skipped` for what captures leave out by policy, whatever stands there.
        `in_sight` are paths that the next capture holds, whatever the last one says of them."""

        @functools.cache
        def state(path: bytes) -> PathState:
            if commit is None or path in in_sight or self._tree.state(commit, path).kind != "skipped":
                return self._tree.current(path)
            return SKIPPED

        return state

    def _paths(self, commit: str | None, history: TreeHistory) -> frozenset[bytes]:
        stored = {path for path, _ in self._tree.walk(commit)} if commit else set()
        return frozenset(stored | {one.path for one in history.transitions if one.position == NEVER})

    def _contains(self, oid: str, fragment: Body) -> bool:
        return contains(self._recording, self._tree, oid, fragment)

    def _children(self, folder: bytes) -> list[bytes]:
        whole = folder if folder.startswith(b"/") else os.path.join(self._work_tree.path, folder)
        try:
            return [os.path.join(folder, name) for name in os.listdir(whole)]
        except OSError:
            return []


def pending(look: Look, since: int) -> tuple[Transition, ...]:
    """What was seen on disk now and not captured yet; `since` (ns): when the newest capture began to read."""
    return tuple(
        Transition(
            id=f"look:{ordinal}",
            position=NEVER,
            path=change.path,
            before=change.before,
            after=change.after,
            changed_at=change.changed_at,
            above_changed_at=change.above_changed_at,
            by_git=change.by_git,
            since=since,
            until=look.ended_at,
        )
        for ordinal, change in enumerate(look.delta)
    )


def contains(recording: Recording, tree: Tree, oid: str, fragment: Body) -> bool:
    """Whether a stored file holds a text that the agent's log names; what is gone proves nothing."""
    try:
        return recording.log.body(fragment.digest) in tree.blob(oid)
    except RecorderError:
        return False


def locate(tree: Tree) -> Callable[[bytes], bytes]:
    """How a path that a tool named is called in captures; what is never captured keeps its name."""
    return functools.cache(lambda path: tree.key(path) or path)
