"""What must come back: every write as it happened, with its author, and what follows for a rewind.

The model knows who wrote, because it watched the hand; the recorder has to find out from logs and times.
Where those cannot tell (two hands between two captures, a deletion by somebody else in a cell in which a
shell ran, a call that never returned), a path is *vague*: nothing is expected of it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType

from tests.storms.contents import Conflict, Standing, State, merged

NEAR = 60_000_000
"""ns within which two moments are one."""
SESSIONS = ("a", "b")


@dataclass(eq=False)
class Run:
    """Of one prompt. `ended` is when its last line was written so far, `closed` when the next prompt or its
    own end came, None while it goes on. Times are counts of what happened."""

    session: str
    number: int
    began: int
    ended: int
    closed: int | None = None

    def overlaps(self, other: Run, *, generously: bool) -> bool:
        def end(run: Run) -> int:
            return run.ended if not generously else 10**9 if run.closed is None else run.closed

        return self.began <= end(other) and other.began <= end(self)


@dataclass(eq=False)
class Change:
    """What one hand made of a path between two captures. `doubtful`: nobody can tell whose it is."""

    path: str
    by: str
    run: Run | None
    before: State | None
    after: State | None
    cell: int
    doubtful: bool = False


@dataclass
class Write:
    path: str
    by: str
    run: Run | None
    before: State | None
    after: State | None
    moved: bool
    open_calls: frozenset[str]


@dataclass
class Cell:
    """Between two captures. `calls` are the sessions whose shells ran in it; `began_at` is in ns."""

    writes: list[Write] = field(default_factory=list)
    calls: set[str] = field(default_factory=set)
    began_at: int = field(default_factory=time.time_ns)
    folded: tuple[int, list[Change]] = (0, [])
    """How many writes were folded, and to what."""


@dataclass
class Prompt:
    run: Run
    cell: int
    applied: frozenset[Change]
    standing: Standing


@dataclass
class Expected:
    """What stands after a rewind, which paths are in conflict, and of which nothing can be said. `roughly`:
    folders whose permissions are not told, because something stands in them; `stay` are those of them that
    were to go."""

    standing: Standing
    conflicts: set[str]
    vague: set[str]
    roughly: set[str]
    stay: set[str]
    taken_back: list[Change]
    put_on: list[Change]
    idle: set[str] = field(default_factory=set)
    """Paths at which somebody else had undone everything already: that stays so when it goes forward."""

    def covers(self, path: str) -> bool:
        return path not in self.vague


class Model:
    def __init__(self) -> None:
        self.now = 0
        self.cell = Cell()
        self.cells = 0
        self.changes: list[Change] = []
        self.applied: set[Change] = set()
        self.prompts: dict[str, list[Prompt]] = {"a": [], "b": []}
        self.hanging: set[str] = set()
        """Sessions with a call that never returned and no prompt since."""
        self.muddled: set[str] = set()
        """Paths of which nothing is known any more."""

    # ---- what happens

    def tick(self) -> int:
        self.now += 1
        return self.now

    def wrote(
        self,
        by: str,
        run: Run | None,
        before: Standing,
        after: Standing,
        *,
        moved: bool = False,
        touched: Iterable[str] = (),
        dated: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Whatever differs between two listings is this hand's. `touched` are files that are as they were,
        but for the time of their last change: the name of a hard link came or went. `dated` are files that
        came with a folder, and when they were last changed (ns): where that was since the last capture, it
        is taken for the moment when they came."""
        recent = {path for path, time in dated.items() if time > self.cell.began_at - NEAR}
        self.muddled |= recent
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path) or path in touched:
                self.cell.writes.append(
                    Write(path, by, run, before.get(path), after.get(path), moved, frozenset(self.hanging))
                )

    def captured(self) -> None:
        """Everything on disk was looked at."""
        found = self._folded()
        self.cells += 1
        self.cell = Cell(calls=set(self.hanging))
        self.changes += found
        self.applied |= set(found)

    def prompted(self, session: str, standing: Standing) -> Run:
        """A prompt, and its capture."""
        began = self.tick()
        run = Run(session, len(self.prompts[session]) + 1, began, began)
        self.hanging.discard(session)
        self.captured()
        self.prompts[session].append(Prompt(run, self.cells, frozenset(self.applied), standing))
        return run

    def _folded(self) -> list[Change]:
        """The changes of the cell that is open: a path's writes are one, as a capture sees them."""
        count = len(self.cell.writes)
        if self.cell.folded[0] != count:
            self.cell.folded = count, self._fold()
        return self.cell.folded[1]

    def _fold(self) -> list[Change]:
        by_path: dict[str, list[Write]] = defaultdict(list)
        for write in self.cell.writes:
            by_path[write.path].append(write)
        return [
            self._change(path, writes)
            for path, writes in by_path.items()
            if writes[0].before != writes[-1].after
        ]

    def _change(self, path: str, writes: list[Write]) -> Change:
        last = writes[-1]
        before, after = writes[0].before, last.after
        hands = {(write.by, write.run) for write in writes}
        if after is not None and after[0] == "dir":
            # Whoever puts something into a folder moves its time.
            hands |= {(w.by, w.run) for w in self.cell.writes if str(PurePosixPath(w.path).parent) == path}
        strangers = self.cell.calls - {last.by}
        bounded = after is None or "dir" in (after[0], (before or after)[0]) or any(w.moved for w in writes)
        hanging = {session for write in writes for session in write.open_calls}
        doubtful = len(hands) > 1 or bool(hanging) or (bounded and bool(strangers))
        return Change(path, last.by, last.run, before, after, self.cells + 1, doubtful)

    # ---- what must come back

    def rewound(self, session: str, number: int, here: Standing, *, texts: bool = True) -> Expected:
        """To just before a prompt of a session, on what stands `here`; `texts` may be merged."""
        prompt = self.prompts[session][number - 1]
        found, applied = self._all()
        now = {c for c in applied if c.by == session}
        then = {c for c in prompt.applied if c.by == session}
        backs = [c for c in reversed(found) if c in now - then]
        ons = [c for c in found if c in then - now]
        return self._expected(found, backs, ons, here, texts)

    def reverted(self, session: str, number: int, here: Standing, *, texts: bool = True) -> Expected:
        """Without what one run did."""
        run = self.prompts[session][number - 1].run
        found, applied = self._all()
        backs = [c for c in reversed(found) if c.run is run and c in applied]
        return self._expected(found, backs, [], here, texts)

    def undone(self, before: Standing, after: Standing, here: Standing, since: int) -> Expected:
        """What an operation that led from one state to another gives back, where nobody wrote since."""
        found, _ = self._all()
        touched = {c.path for c in found if c.cell > since}
        turned = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
        expected = Expected(dict(here), set(), set(), set(), set(), [], [])
        for path in turned:
            if path in touched:
                expected.vague.add(path)
            elif path in before:
                expected.standing[path] = before[path]
            else:
                expected.standing.pop(path, None)
        expected.vague |= self.muddled & turned
        return _settled(expected, here)

    def _all(self) -> tuple[list[Change], set[Change]]:
        """Every change in order, and which stand on the disk."""
        folded = self._folded()
        return [*self.changes, *folded], self.applied | set(folded)

    def _expected(
        self, found: list[Change], backs: list[Change], ons: list[Change], here: Standing, texts: bool
    ) -> Expected:
        turns: dict[str, list[Change]] = defaultdict(list)
        for change in (*backs, *ons):
            turns[change.path].append(change)
        doubtful = {change.path for change in found if change.doubtful} | self.muddled
        last = {change.path: change.by for change in found}
        owners = {change.by for change in (*backs, *ons)}
        remade = {c.path for c in found if c.by not in owners and c.before is None}
        expected = Expected(dict(here), set(), set(doubtful), set(), set(), backs, ons)
        for path, way in turns.items():
            if path in doubtful:
                continue
            rivals = [self._rival(change, found) for change in way]
            if last[path] == "git" or ("perhaps" in rivals and "surely" not in rivals):
                expected.vague.add(path)
            elif "surely" in rivals:
                expected.conflicts.add(path)
            else:
                self._follow(path, way, set(backs), here.get(path), expected, texts)
                if path in remade and path in here and path not in expected.standing:
                    # What somebody else made is never deleted, and it may be the very same again.
                    expected.vague.add(path)
        return _settled(expected, here)

    def _rival(self, change: Change, found: list[Change]) -> str:
        """Whether another session's run that overlaps its own changed the path too, and that stands."""
        if _folders_only(change):
            return ""
        told = ""
        for other in found:
            if other.path != change.path or other.by not in SESSIONS or other.by == change.by:
                continue
            if _folders_only(other) or not (change.run and other.run):
                continue
            if change.run.overlaps(other.run, generously=True):
                sure = change.run.overlaps(other.run, generously=False) and other in self._all()[1]
                told = "surely" if sure else told or "perhaps"
        return told

    @staticmethod
    def _follow(
        path: str,
        way: list[Change],
        backs: set[Change],
        here: State | None,
        expected: Expected,
        texts: bool,
    ) -> None:
        """Turn by turn; where that meets a conflict, another order of the same might not: nothing is said
        unless the whole way as one meets it too."""
        pairs = [(c.after, c.before) if c in backs else (c.before, c.after) for c in way]
        ours = here
        if all(here == theirs != base for base, theirs in pairs):
            expected.idle.add(path)
        try:
            for base, theirs in pairs:
                ours = merged(base, theirs, ours, texts=texts)
        except Conflict:
            try:
                merged(pairs[0][0], pairs[-1][1], here, texts=texts)
            except Conflict:
                expected.conflicts.add(path)
            else:
                expected.vague.add(path)
            return
        if ours is None:
            expected.standing.pop(path, None)
        else:
            expected.standing[path] = ours

    def moved(self, expected: Expected, left: Callable[[str], bool]) -> Callable[[], None]:
        """The changes that a rewind took back and put on are so now, but for the paths that it left as they
        are; returns what makes it undone."""
        before = set(self.applied)
        self.applied -= {change for change in expected.taken_back if not left(change.path)}
        self.applied |= {change for change in expected.put_on if not left(change.path)}
        after = set(self.applied)

        def undo() -> None:
            self.applied = (self.applied - (after - before)) | (before - after)

        return undo


def _folders_only(change: Change) -> bool:
    kinds = {state[0] for state in (change.before, change.after) if state is not None}
    return kinds == {"dir"}


def above(path: str) -> Iterator[str]:
    for parent in PurePosixPath(path).parents:
        if str(parent) != ".":
            yield str(parent)


def _settled(expected: Expected, here: Standing) -> Expected:
    """A folder stays while something stands in it, and what stands needs its folders."""
    standing, conflicts = expected.standing, expected.conflicts
    for path in conflicts:
        _as_it_was(path, standing, here)
    for path in sorted(standing, key=lambda one: -one.count("/")):
        for folder in above(path):
            kind = standing[folder][0] if folder in standing else None
            if kind is None:
                stood = here.get(folder)
                standing[folder] = stood if stood and stood[0] == "dir" else ("dir", 0o755, b"")
                conflicts.discard(folder)
                expected.roughly.add(folder)
                expected.stay |= {folder} & here.keys()
            elif kind != "dir":
                _disputed(path, folder, expected, here)
    _spread(expected)
    return expected


def _as_it_was(path: str, standing: Standing, here: Standing) -> None:
    if path in here:
        standing[path] = here[path]
    else:
        standing.pop(path, None)


def _disputed(path: str, folder: str, expected: Expected, here: Standing) -> None:
    """Something is to stand below what is to be no folder: one of both cannot be."""
    expected.vague |= {path, folder}
    _as_it_was(folder, expected.standing, here)


def _spread(expected: Expected) -> None:
    """What lies above and below something vague is vague."""
    named = set(expected.standing) | expected.vague | expected.conflicts
    vague = set(expected.vague)
    for path in vague:
        expected.vague |= set(above(path))
        expected.vague |= {one for one in named if one.startswith(f"{path}/")}
