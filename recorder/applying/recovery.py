"""Which rewinds of a work tree were broken off, and what becomes of them: rolled back, never forward.

Decides from the facts of the work tree's own stream alone; the caller appends the outcome and holds
the tree's lock.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recorder.applying.finish import finish
from recorder.applying.journal import Blobs
from recorder.applying.renames import Hook
from recorder.applying.rollback import roll_back
from recorder.events import Fact, RewindApplied, RewindFailed, RewindPlanned
from recorder.states import PathNote


class Recovered(msgspec.Struct, frozen=True):
    """What the outcome event of a recovered rewind says: `why` and `unrecovered` of RewindFailed."""

    why: str
    unrecovered: tuple[PathNote, ...]


def unfinished(facts: Iterable[Fact]) -> list[RewindPlanned]:
    """The rewinds that were planned and have no outcome, newest first: the order to recover them in."""
    planned: dict[str, RewindPlanned] = {}
    for fact in facts:
        if isinstance(fact, RewindPlanned):
            planned[fact.operation] = fact
        elif isinstance(fact, RewindApplied | RewindFailed):
            planned.pop(fact.operation, None)
    return list(planned.values())[::-1]


def recover(
    planned: RewindPlanned, root: bytes, blobs: Blobs, *, before_effect: Hook = lambda _: None
) -> Recovered:
    """Roll a broken-off rewind back, durably. Can be killed and run again.

    `blobs` must have the bytes of the rewind's safety capture.
    """
    unrecovered = roll_back(root, planned.steps, planned.private, blobs, before_effect=before_effect)
    if unrecovered:
        return Recovered("it was interrupted, and not every path could be brought back", unrecovered)
    return Recovered("it was interrupted; everything is as before", ())


def newest_applied(facts: Iterable[Fact]) -> RewindPlanned | None:
    """The last rewind that was applied."""
    planned: dict[str, RewindPlanned] = {}
    newest: RewindPlanned | None = None
    for fact in facts:
        if isinstance(fact, RewindPlanned):
            planned[fact.operation] = fact
        elif isinstance(fact, RewindApplied):
            newest = planned.get(fact.operation, newest)
    return newest


def sweep(
    facts: Iterable[Fact], root: bytes, *, before_effect: Hook = lambda _: None
) -> tuple[PathNote, ...]:
    """Remove what the newest applied rewind may have left under private names when it was killed.

    Older ones have left nothing: each operation begins with this. What a failed one has kept beside
    the paths that it could not recover is the user's. Returns what could not be removed.
    """
    newest = newest_applied(facts)
    if newest is None:
        return ()
    return finish(root, newest.steps, newest.private, before_effect=before_effect)
