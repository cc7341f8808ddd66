"""What stood in a work tree at its last capture where the store has lost that: put together from the newest
capture before it that is whole, and from what the log says changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from recorder.capturing.difference import matters
from recorder.capturing.found import Found
from recorder.capturing.trees import UNREADABLE, Snapshot
from recorder.states import UNKNOWN, PathChange, PathState


class Moment(msgspec.Struct, frozen=True):
    """A capture as the log has it: its commit, when it began to read (ns), and its delta."""

    commit: str
    began_at: int
    delta: tuple[PathChange, ...]


Past = Callable[[], Iterable[Moment]]
"""The captures of a work tree, newest first, read as far as they are asked for."""


class Then(msgspec.Struct, frozen=True):
    """What is known of a folder at a capture that began at `at` (ns, 0 where there is none): what the log
    says of paths in it, over a whole capture from before where there is one."""

    said: dict[bytes, PathState]
    base: Snapshot | None
    at: int

    def paths(self, folder: bytes) -> set[bytes]:
        below = {path for path, _ in self.base.below(folder)} if self.base else set()
        return below | self.said.keys() | (self.base.outside.keys() if self.base and not folder else set())

    def state(self, path: bytes, now: PathState, changed_at: int) -> PathState:
        """What stood at a path, given what stands there now, since `changed_at` (ns)."""
        if path in self.said:
            return self.said[path]
        if self.base is not None:
            return self.base.state(path)
        return now if now.present and changed_at < self.at else UNKNOWN


def then(past: Past, snapshot: Callable[[str], Snapshot], folder: bytes) -> Then:
    """What stood below a folder (empty: the work tree) at the newest of these captures."""
    said: dict[bytes, PathState] = {}
    at = 0
    for moment in past():
        at = at or moment.began_at
        try:
            base = snapshot(moment.commit)
            for _ in base.below(folder):
                pass
        except UNREADABLE:
            for change in moment.delta:
                if not folder or change.path.startswith(folder + b"/"):
                    said.setdefault(change.path, change.after)
            continue
        return Then(said, base, at)
    return Then(said, None, at)


def changes_below(folder: bytes, was: Then, after: Snapshot, found: Found) -> Iterator[PathChange]:
    """The changes of everything below a folder since then; none where nothing is known of then."""
    if not was.at:
        return
    paths = was.paths(folder) | {path for path, _ in after.below(folder)}
    for path in paths if folder else paths | after.outside.keys():
        now = after.state(path)
        before = was.state(path, now, found.changed_at(path))
        if matters(before, now):
            yield PathChange(path, before, now)
