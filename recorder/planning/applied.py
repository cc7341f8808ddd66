"""Which changes stand on the disk, by the work tree's own history.

A fold in the order of the log: what a session changed is there; a rewind, undo, redo or revert
removes what it took back and adds what it put on. The conversation's tree has no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recorder.history import Change, Operation


def applied(
    changes: Iterable[Change],
    operations: Iterable[Operation],
    *,
    session: str | None = None,
    upto: int | None = None,
) -> frozenset[str]:
    """The ids of the changes of a session (None: of all sessions) that are applied on disk.

    `upto` is a log position, inclusive: as of then; None: now. A shared change counts for every
    session that may have made it. Operations of all sessions count, for any of them may take back
    another's rewind.
    """
    own = {c.id: c.path for c in changes if takes_part(c, session) and _by(c.position, upto)}
    standing = set(own)
    for operation in sorted(operations, key=lambda operation: operation.position):
        if _by(operation.position, upto):
            standing -= _moved(operation.takes_back, operation, own)
            standing |= _moved(operation.puts_on, operation, own)
    return frozenset(standing)


def takes_part(change: Change, session: str | None) -> bool:
    """Whether the change is the session's (None: any session's), alone or together with others."""
    return change.by in ("session", "shared") and (session is None or session in change.sessions)


def _by(position: int, upto: int | None) -> bool:
    return upto is None or position <= upto


def _moved(ids: Iterable[str], operation: Operation, own: Mapping[str, bytes]) -> set[str]:
    return {change for change in ids if change in own and own[change] not in operation.left}
