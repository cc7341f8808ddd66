"""What the retention keeps: a pure decision over checkpoints and captures, with a reason for each.

A checkpoint is kept for a number of days since its prompt and while it is among the newest of its
session; pins and labels exempt it from both, and the newest of a session is exempt from the number.
Ages come from the recorder's own clock, never from an agent's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

DAY_NS = 86_400 * 10**9


class Limits(msgspec.Struct, frozen=True):
    """`days` since the prompt, `checkpoints` per session."""

    days: int
    checkpoints: int


class Candidate(msgspec.Struct, frozen=True):
    """A live checkpoint. `recorded_at` is when the recorder captured it (ns, own clock)."""

    checkpoint: str
    session: str
    number: int
    recorded_at: int
    exempt: str | None
    """`pinned` or `labelled`, or None."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether a checkpoint is retired, and why or why not."""

    candidate: Candidate
    retire: bool
    reason: str


def judge(candidates: Iterable[Candidate], limits: Limits, now: int) -> list[Verdict]:
    """A verdict per checkpoint, in the order of session and number."""
    by_session: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_session.setdefault(candidate.session, []).append(candidate)
    verdicts: list[Verdict] = []
    for session in sorted(by_session):
        verdicts += _judge_session(sorted(by_session[session], key=lambda one: one.number), limits, now)
    return verdicts


def _judge_session(ordered: Sequence[Candidate], limits: Limits, now: int) -> list[Verdict]:
    counted = [one for one in ordered if one.exempt is None]
    excess = {one.checkpoint for one in counted[: max(len(counted) - max(limits.checkpoints, 1), 0)]}
    return [_verdict(one, one.checkpoint in excess, limits, now) for one in ordered]


def _verdict(one: Candidate, in_excess: bool, limits: Limits, now: int) -> Verdict:
    if one.exempt is not None:
        return Verdict(one, False, one.exempt)
    if now - one.recorded_at > limits.days * DAY_NS:
        return Verdict(one, True, f"older than {limits.days} days")
    if in_excess:
        return Verdict(one, True, f"more than {limits.checkpoints} checkpoints in its session")
    return Verdict(one, False, f"within {limits.days} days and the newest {limits.checkpoints}")


class Held(msgspec.Struct, frozen=True):
    """A capture in a work tree's stream. `needed` names the kept checkpoint or operation that it is the
    own capture of; `standalone_until` is when a safety capture's time ends (ns), 0 for the others."""

    capture: str
    commit: str
    position: int
    needed: bool
    standalone_until: int


def commits_to_release(captures: Sequence[Held], spans: Sequence[tuple[int, int]], now: int) -> set[str]:
    """The commits that nothing needs any more.

    `spans` are the log positions from the first to the last capture of each kept checkpoint's run: what
    was captured in between holds contents that a rewind may have to put on. The newest capture of the
    tree is always kept.
    """
    if not captures:
        return set()
    newest = max(captures, key=lambda one: one.position)
    kept = {
        one.commit
        for one in captures
        if one.needed
        or one is newest
        or one.standalone_until > now
        or any(first <= one.position <= last for first, last in spans)
    }
    return {one.commit for one in captures} - kept
