"""Which changes there are: between two states that are known, as finely as captures and logs know them.

- What was out of sight in between is one change, from the last known state to the next. A path that was
  never known before is no creation, one that is never known again no deletion.
- Captures of other work trees saw the same files: what they saw between two captures of this one are
  changes of their own. What git is known to have done there it has done here.
- Where the first capture of a file came after a tool had written it, the agent's log can still prove what
  stood there before: that there was nothing, or the content byte for byte. It counts only where the last
  call that names the file left what stands there, byte for byte.

Whose the changes are is decided in `recorder.planning.attribution`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from recorder.events import NamedFile
from recorder.history import Transition, TreeHistory
from recorder.planning.spans import SLACK, Span, Spans
from recorder.states import ABSENT, PathState


class Proof(NamedTuple):
    """A change whose state from before is known by the log alone: of the call `first` and those after it.
    `unknown_from` is the position of the first capture that did not know the file, where it is not the one
    that came to know it."""

    transition: Transition
    unknown_from: int | None
    first: Span


def token(state: PathState) -> str:
    """A state as `NamedFile` writes it."""
    return state.oid if state.present else "absent"


def between_known(transitions: Iterable[Transition]) -> Iterator[tuple[Transition, int | None]]:
    """Transitions between known states; for a composed one also where sight was lost."""
    lost: dict[bytes, Transition] = {}
    for transition in transitions:
        if transition.before.known and transition.after.known:
            yield transition, None
        elif transition.before.known:
            lost[transition.path] = transition
        elif transition.after.known and (start := lost.pop(transition.path, None)):
            whole = replace(transition, before=start.before, since=start.since, by_git=False)
            yield whole, start.position


class Sightings:
    """What captures of other work trees saw of the files of this one."""

    def __init__(self, sightings: Iterable[Transition]) -> None:
        self._by_path: dict[bytes, list[Transition]] = defaultdict(list)
        for seen in sightings:
            if seen.before.known and seen.after.known:
                self._by_path[seen.path].append(seen)

    def split(self, transition: Transition) -> Iterator[Transition]:
        """The change in the steps that were seen elsewhere before this work tree was captured. The last
        one keeps its id."""
        rest = transition
        for seen in self._by_path.get(transition.path, ()):
            if seen.position < transition.position and seen.before == rest.before and _meets(seen, rest):
                if seen.after == transition.after:
                    break
                yield _step(rest, seen)
                rest = replace(rest, before=seen.after, since=max(rest.since, seen.changed_at))
        yield replace(rest, by_git=rest.by_git or self._by_git(rest))

    def _by_git(self, rest: Transition) -> bool:
        return any(
            seen.by_git and (seen.before, seen.after) == (rest.before, rest.after) and _meets(seen, rest)
            for seen in self._by_path.get(rest.path, ())
        )


def _meets(seen: Transition, rest: Transition) -> bool:
    """Whether what was seen elsewhere came about within the time of the change."""
    return rest.since - SLACK <= (seen.changed_at or seen.until) <= rest.until + SLACK


def _step(rest: Transition, seen: Transition) -> Transition:
    return replace(
        rest,
        id=f"{rest.id}:{seen.id}",
        after=seen.after,
        changed_at=seen.changed_at,
        above_changed_at=seen.above_changed_at,
        by_git=seen.by_git,
        since=max(rest.since, seen.since),
        until=seen.until,
    )


def proved(history: TreeHistory, spans: Spans) -> dict[bytes, Proof]:
    """By path, the first known states of files of which the log proves what stood there before."""
    found = ((path, _proof(start, spans, history)) for path, start in _first_sights(history.transitions))
    return {path: proof for path, proof in found if proof is not None}


def _first_sights(transitions: Iterable[Transition]) -> Iterator[tuple[bytes, Transition]]:
    """The transitions by which paths came to be known of which nothing was known before."""
    known: set[bytes] = set()
    for transition in transitions:
        if transition.path in known or not (transition.before.known or transition.after.known):
            continue
        known.add(transition.path)
        if not transition.before.known:
            yield transition.path, transition


def _proof(start: Transition, spans: Spans, history: TreeHistory) -> Proof | None:
    if start.after.kind != "file":
        return None
    calls = spans.naming_path(start.path, 0, start.changed_at)
    calls = [call for call in calls if call.strong and not call.failed and call.began_at < start.until]
    first = next((call for call in calls if _told_before(call, start.path) is not None), None)
    if first is None or start.changed_at < first.began_at - SLACK or not _left(calls[-1], start):
        return None
    told = _told_before(first, start.path)
    before = ABSENT if told == "absent" else PathState("file", start.after.mode, told or "")
    position = min(_seen_from(history, calls[-1].ended_at), start.position)
    missed = _seen_from(history, first.began_at)
    transition = replace(start, before=before, position=position, since=min(start.since, first.began_at))
    return Proof(transition, missed if missed < position else None, first)


def _told_before(call: Span, path: bytes) -> str | None:
    """What the call found at the path, where its log says it for certain and has the bytes."""
    return next((file.before for file in call.files[path] if _certain(file)), None)


def _certain(file: NamedFile) -> bool:
    return file.before == "absent" or (file.before is not None and file.before_body is not None)


def _left(call: Span, start: Transition) -> bool:
    """Whether what stands there is what the call wrote, whole."""
    whole = [file.after for file in call.files[start.path] if file.after is not None]
    return bool(whole) and whole[-1] == token(start.after)


def _seen_from(history: TreeHistory, moment: int) -> int:
    """The position of the first capture that shows the work tree as it was at this moment or later."""
    return min((position for position, at in history.looks if at >= moment), default=2**62)
