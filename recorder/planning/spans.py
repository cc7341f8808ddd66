"""When each session could write to a work tree: the tool calls of its runs as spans of time.

A span is what a change's time is held against. This module knows when a call counts and for how
long; whose a change is, is decided in `recorder.planning.attribution`.

- A call that returned: from its call to its return. One that did not, in a run that ended: to the
  run's end. Both are evidence `window`.
- One that did not, in a run without an end: evidence `open`, until the session's next run begins,
  and at most ten minutes after the run's last sign of life.
- A call in the background is a `window` for as long as its own run lasts and only `open` in later runs
  of its session. Between runs it counts for nothing: a server left running must not make a person's
  work the session's.
- A session whose agent gives no windows: its runs are spans of evidence `run`.
- Calls of a session of another work tree count for the files that they name; those that could write
  anything only where their session reaches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from recorder.events import NamedFile
from recorder.history import Reach, Run, TreeHistory, Window, place_of

SLACK = 50_000_000
"""ns that a change time may lie outside a span: agents' clocks count in ms and are read before the log
line is written, and the kernel's file times lag by up to a timer tick (10 ms at worst)."""

LAG = 10_000_000
"""ns by which the kernel's file times may lag, at worst."""

TICK = 1_000_000
"""ns by which an agent's time of a return can be too early: it is cut to milliseconds."""

OPEN_FOR = 600 * 1_000_000_000
"""ns after its last sign of life for which a call that never returned still counts."""

Locate = Callable[[bytes], bytes]
"""From the absolute path that a tool names to the path as transitions have it."""


@dataclass(frozen=True, slots=True)
class Span:
    """`files` has the named files by the path that transitions use. `everywhere`: it could write
    anything within its `reach`, not only these. `call` is empty for a run as a whole."""

    session: str
    run: str
    call: str
    began_at: int
    ended_at: int
    evidence: str
    everywhere: bool
    files: dict[bytes, tuple[NamedFile, ...]]
    failed: bool = False
    reach: Reach | None = None

    @property
    def strong(self) -> bool:
        return self.evidence != "open"

    def meets(self, since: int, until: int) -> bool:
        return self.began_at - SLACK <= until and since <= self.ended_at + SLACK


@dataclass(frozen=True)
class Spans:
    """All spans of a work tree, to be asked by time and by path."""

    everywhere: list[Span]
    """Those that could write anything, by their beginning."""
    ends: list[int]
    """The latest end among `everywhere[: n + 1]`."""
    naming: dict[bytes, list[Span]]
    inside: dict[bytes, list[Span]]
    """By folder: spans that name a path below it."""
    runs: list[Run]
    root: bytes

    def anywhere(self, path: bytes, since: int, until: int) -> Iterator[Span]:
        """Spans that could write anything, this path too, and meet this time; those of other work trees'
        sessions only where they meet its end. A change that is known to lie somewhere before that end is
        no reason to suspect whoever worked nearby meanwhile."""
        place = place_of(self.root, path)
        last = bisect_right(self.everywhere, until + SLACK, key=lambda span: span.began_at)
        for n in range(last - 1, -1, -1):
            if self.ends[n] + SLACK < since:
                return
            span = self.everywhere[n]
            if span.meets(since if span.reach is None else until, until) and _reaches(span.reach, place):
                yield span

    def naming_path(self, path: bytes, since: int, until: int) -> list[Span]:
        """Spans that name this very path and meet this time, in the order of their calls."""
        return [span for span in self.naming.get(path, ()) if span.meets(since, until)]

    def naming_inside(self, folder: bytes, since: int, until: int) -> list[Span]:
        return [span for span in self.inside.get(folder, ()) if span.meets(since, until)]

    def open_runs(self, path: bytes, since: int, until: int) -> list[Run]:
        """The runs that could have had a part in a change of this path, and meet this time."""
        place = place_of(self.root, path)
        return [
            run
            for run in self.runs
            if run.began_at < until and since <= end_of(run) + SLACK and _reaches(run.reach, place)
        ]


def spans_of(history: TreeHistory, locate: Locate, windowless: frozenset[str]) -> Spans:
    """The spans of all sessions. `windowless` names the sessions whose agent gives no windows."""
    runs = {(run.session, run.run): run for run in history.runs}
    found: list[Span] = []
    for window in history.windows:
        if window.writes == "none":
            continue
        files = _by_path(window.files, locate)
        for began_at, ended_at, evidence in _times(window, runs.get((window.session, window.run)), history):
            found.append(_span(window, began_at, ended_at, evidence, files))
    silent = windowless - {window.session for window in history.windows}
    found += [_whole(run) for run in history.runs if run.session in silent]
    return _indexed(sorted(found, key=lambda span: (span.began_at, span.ended_at)), history)


def end_of(run: Run) -> int:
    """A run without an end event ended with its last sign of life."""
    return run.last_sign_at if run.ended_at is None else run.ended_at


def parents(path: bytes) -> Iterator[bytes]:
    """The folders above a path, nearest first, without the work tree's root and `/`."""
    while (cut := path.rfind(b"/")) > 0:
        path = path[:cut]
        yield path


def _times(window: Window, run: Run | None, history: TreeHistory) -> Iterator[tuple[int, int, str]]:
    """Began, ended and evidence of the spans that a call gives."""
    if window.background and run is not None:
        yield from _background(window, run, history.runs)
    elif window.ended_at is not None:
        yield window.began_at, window.ended_at, "window"
    elif run is None:
        yield window.began_at, window.began_at, "open"
    elif run.ended_at is not None:
        yield window.began_at, run.ended_at, "window"
    else:
        later = (r.began_at for r in history.runs if r.session == run.session and r.began_at > run.began_at)
        yield window.began_at, min([run.last_sign_at + OPEN_FOR, *later]), "open"


def _background(window: Window, run: Run, runs: Iterable[Run]) -> Iterator[tuple[int, int, str]]:
    over = 2**63 if window.ended_at is None else window.ended_at
    yield window.began_at, min(over, max(window.began_at, end_of(run))), "window"
    for later in runs:
        if later.session == run.session and run.began_at < later.began_at < over:
            yield later.began_at, min(over, end_of(later)), "open"


def _span(
    window: Window, began_at: int, ended_at: int, evidence: str, files: dict[bytes, tuple[NamedFile, ...]]
) -> Span:
    everywhere = window.writes == "any"
    return Span(
        window.session,
        window.run,
        window.call,
        began_at,
        ended_at,
        evidence,
        everywhere,
        files,
        window.failed,
        window.reach,
    )


def _whole(run: Run) -> Span:
    return Span(run.session, run.run, "", run.began_at, end_of(run), "run", True, {}, reach=run.reach)


def _by_path(files: Iterable[NamedFile], locate: Locate) -> dict[bytes, tuple[NamedFile, ...]]:
    found: dict[bytes, tuple[NamedFile, ...]] = {}
    for file in files:
        path = locate(file.path)
        found[path] = (*found.get(path, ()), file)
    return found


def _reaches(reach: Reach | None, place: bytes) -> bool:
    return reach is None or place in reach or not reach.isdisjoint(parents(place))


def _indexed(spans: list[Span], history: TreeHistory) -> Spans:
    naming: dict[bytes, list[Span]] = defaultdict(list)
    inside: dict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        for path in span.files:
            naming[path].append(span)
        for folder in {folder for path in span.files for folder in parents(path)}:
            inside[folder].append(span)
    everywhere = [span for span in spans if span.everywhere]
    ends = list(accumulate((span.ended_at for span in everywhere), max))
    return Spans(everywhere, ends, dict(naming), dict(inside), list(history.runs), history.root)
