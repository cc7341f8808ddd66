"""The way of one path through a rewind: from what stands there, turn by turn, to what is to stand there.

A turn takes one change back or puts it on again. Each needs to find what it left behind, or what it
would make anyway; else it was changed again in between. Then the turn is merged into what stands there,
where that is asked for and can be done; else the path is in conflict.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.history import Change
from recorder.planning.threeway import MergeTexts, Unmerged, three_way
from recorder.states import PathState

CHANGED_AGAIN = "it was changed again since"


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
    """What stands at the path and what is to stand there; `merged` where it is nobody's state alone, `idle`
    where somebody else had made every turn already."""

    path: bytes
    before: PathState
    after: PathState
    merged: bool = False
    idle: bool = False


class Kept(msgspec.Struct, frozen=True):
    path: bytes
    why: str


class Conflict(msgspec.Struct, frozen=True):
    """A path that was changed again since, or whose state is not known; `before` stands there now.

    `overwrite` is what restores the path whole; None where that would lose what no capture holds. `kept`
    says why that may not remove a file, empty where it may.
    """

    path: bytes
    why: str
    before: PathState
    overwrite: PathState | None = None
    kept: str = ""


Outcome = Wanted | Kept | Conflict


def follow(route: Route, here: PathState, merge_texts: MergeTexts | None = None) -> Outcome:
    """What comes of a path where `here` stands now. Without `merge_texts` nothing is merged."""
    if not here.known:
        why = "could not be read" if here.kind == "unknown" else "is left out of captures"
        return Conflict(route.path, f"what stands there now {why}", here)
    if route.blocked:
        return _stopped(route, here, route.blocked)
    ours, merged, idle, turns = here, False, True, route.turns
    while turns:
        if ours == turns[0].base:
            ours, idle, turns = turns[0].theirs, False, turns[1:]
        elif ours == turns[0].theirs:
            turns = turns[1:]
        else:
            made = _merge(route.path, turns, ours, merge_texts) if merge_texts else Unmerged(CHANGED_AGAIN)
            if isinstance(made, Unmerged):
                return _stopped(route, here, made.why, may_keep=merge_texts is not None)
            merged, idle = True, False
            ours, turns = made
    if merged and here.present and not ours.present:
        return _stopped(route, here, CHANGED_AGAIN, may_keep=True)
    return _arrived(route.path, here, ours, route.turns[-1].kept, merged=merged, idle=idle)


def overwritten(conflict: Conflict) -> Outcome:
    """The conflict's path restored whole, where that can be done and removes nobody else's file."""
    if conflict.overwrite is None:
        return conflict
    return _arrived(conflict.path, conflict.before, conflict.overwrite, conflict.kept)


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


def _merge(
    path: bytes, turns: tuple[Turn, ...], ours: PathState, merge_texts: MergeTexts
) -> tuple[PathState, tuple[Turn, ...]] | Unmerged:
    """The first turns merged into `ours`, and those that are left.

    Turns of which each goes on where the one before it led are first tried as one: what they did and
    undid among themselves then stands in nobody's way.
    """
    why = Unmerged(CHANGED_AGAIN)
    for count in dict.fromkeys((_unbroken(turns), 1)):
        made = three_way(path, turns[0].base, turns[count - 1].theirs, ours, merge_texts)
        if isinstance(made, PathState):
            return made, turns[count:]
        why = made
    return why


def _unbroken(turns: tuple[Turn, ...]) -> int:
    """How many of the first turns are one way, with nobody else's change in between."""
    broken = (count for count in range(1, len(turns)) if turns[count].base != turns[count - 1].theirs)
    return next(broken, len(turns))


def _stopped(route: Route, here: PathState, why: str, *, may_keep: bool = False) -> Outcome:
    """A conflict; with `may_keep` none where the way leads to a removal that may not be made anyway."""
    kept = route.turns[-1].kept
    if may_keep and kept and here.present and not route.goal.present:
        return Kept(route.path, kept)
    return Conflict(route.path, why, here, route.goal, kept)


def _arrived(
    path: bytes, here: PathState, goal: PathState, kept: str, *, merged: bool = False, idle: bool = False
) -> Outcome:
    if kept and here.present and not goal.present:
        return Kept(path, kept)
    return Wanted(path, here, goal, merged, idle)
