"""The way of one path through a rewind: from what stands there, turn by turn, to what is to stand there.

A turn takes one change back or puts it on again. Each needs to find what it left behind, or what it
would make anyway; else it was changed again in between, and the path is in conflict. This version merges
nothing, but a conflict carries what a merge needs.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.history import Change
from recorder.states import PathState


class Turn(msgspec.Struct, frozen=True):
    """From `base` to `theirs`. `kept` says why the turn may not remove a file, empty where it may."""

    base: PathState
    theirs: PathState
    kept: str = ""


class Route(msgspec.Struct, frozen=True):
    """All turns of a path, in order. `blocked` says why it is a conflict whatever stands there."""

    path: bytes
    turns: tuple[Turn, ...]
    blocked: str = ""

    @property
    def goal(self) -> PathState:
        return self.turns[-1].theirs


class Wanted(msgspec.Struct, frozen=True):
    """What stands at the path and what is to stand there."""

    path: bytes
    before: PathState
    after: PathState


class Kept(msgspec.Struct, frozen=True):
    path: bytes
    why: str


class Conflict(msgspec.Struct, frozen=True):
    """A path that was changed again since, or whose state is not known; `before` stands there now.

    `turns` are those that could not be made, for a merge: `base` and `theirs` of each; its ours is
    `ours` for the first (what the turns before it made of `before`), then the merge's own result.
    `overwrite` is what restores the path whole; None where that would lose what no capture holds.
    """

    path: bytes
    why: str
    before: PathState
    ours: PathState
    turns: tuple[Turn, ...] = ()
    overwrite: PathState | None = None


Outcome = Wanted | Kept | Conflict


def follow(route: Route, here: PathState) -> Outcome:
    """What comes of a path where `here` stands now."""
    if not here.known:
        why = "could not be read" if here.kind == "unknown" else "is left out of captures"
        return Conflict(route.path, f"what stands there now {why}", here, here, route.turns)
    if route.blocked:
        return Conflict(route.path, route.blocked, here, here, route.turns, route.goal)
    ours = here
    for done, turn in enumerate(route.turns):
        if ours == turn.base:
            ours = turn.theirs
        elif ours != turn.theirs:
            left = route.turns[done:]
            return Conflict(route.path, "it was changed again since", here, ours, left, route.goal)
    return _arrived(route.path, here, route.goal, route.turns[-1].kept)


def overwritten(conflict: Conflict) -> Outcome:
    """The conflict's path restored whole, where that can be done and removes nobody else's file."""
    if conflict.overwrite is None:
        return conflict
    kept = conflict.turns[-1].kept if conflict.turns else ""
    return _arrived(conflict.path, conflict.before, conflict.overwrite, kept)


def taking_back(change: Change, kept: str) -> Turn:
    return Turn(change.after, change.before, kept)


def putting_on(change: Change, kept: str) -> Turn:
    return Turn(change.before, change.after, kept)


def inside(path: bytes, folders: Iterable[bytes]) -> bool:
    """Whether the path is one of these files or folders, or lies below one. None named: all do."""
    names = [folder.rstrip(b"/") for folder in folders]
    return not names or any(
        name in (b"", b".") or path == name or path.startswith(name + b"/") for name in names
    )


def _arrived(path: bytes, here: PathState, goal: PathState, kept: str) -> Outcome:
    if kept and here.present and not goal.present:
        return Kept(path, kept)
    return Wanted(path, here, goal)
