"""Which changes two sessions dispute: of one path, in runs that overlap, although each is one session's alone.

Such a path is never merged. Folders are no matter of dispute: one goes when it is empty.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from recorder.history import Change, Run
from recorder.planning.spans import end_of


def contested(changes: Sequence[Change], runs: Iterable[Run]) -> list[Change]:
    """The changes with those of other sessions that were made to the same path in overlapping runs."""
    times = {(run.session, run.run): (run.began_at, end_of(run)) for run in runs}
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


def _against(
    change: Change, rivals: Iterable[Change], times: dict[tuple[str, str], tuple[int, int]]
) -> tuple[str, ...]:
    began_at, ended_at = times.get((change.session or "", change.run or ""), (1, 0))
    return tuple(
        other.id
        for other in rivals
        if other.session != change.session
        and (other.session or "", other.run or "") in times
        and times[other.session or "", other.run or ""][0] <= ended_at
        and began_at <= times[other.session or "", other.run or ""][1]
    )
