"""Which changes two sessions dispute: of one path, in runs that overlap, although each is one's alone.

Such a path is never merged. Folders are no matter of dispute: one goes when it is empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from recorder.history import Change, Run
from recorder.planning.spans import end_of

Times = dict[tuple[str | None, str | None], tuple[int, int]]
"""When each run of a session began and ended (ns)."""


def contested(changes: Sequence[Change], runs: Iterable[Run]) -> list[Change]:
    """The changes with those of other sessions that were made to the same path in overlapping runs."""
    times: Times = {(run.session, run.run): (run.began_at, end_of(run)) for run in runs}
    rivals: dict[bytes, list[Change]] = defaultdict(list)
    for change in changes:
        if change.by == "session" and not {change.before.kind, change.after.kind} <= {"dir", "absent"}:
            rivals[change.path].append(change)
    disputed = {path for path, made in rivals.items() if len({change.session for change in made}) > 1}
    return [
        replace(change, contested=_against(change, rivals[change.path], times))
        if change.path in disputed and change.by == "session"
        else change
        for change in changes
    ]


def _against(change: Change, rivals: Iterable[Change], times: Times) -> tuple[str, ...]:
    own = times.get((change.session, change.run))
    others = ((one, times.get((one.session, one.run))) for one in rivals if one.session != change.session)
    return tuple(
        one.id
        for one, other in others
        if own is not None and other is not None and own[0] <= other[1] and other[0] <= own[1]
    )
