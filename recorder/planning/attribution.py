"""Whose each change to a work tree is. Pure: it reads a history and writes nothing.

Which changes there are is `recorder.planning.sights`' part.

- What a rewind wrote is the rewind's; only what came on top of it is looked at further. So a rewind
  whose after-capture is missing is still told apart from what others did next. A rewind of another work
  tree that wrote a file of this one is a rewind too.
- By git, where before and after are what two HEADs hold.
- *Named*: the last call that names the path says what stands there now. Where the log has the whole
  content, that holds at any change time; where it has a part, only at a time that the session's own
  calls explain, because the rest may be anybody's.
- *Window*: the change time lies in a call that could write there. The times of a deletion and of a
  folder are upper bounds: any call between the captures may have done it.
- *Shared*: two sessions named or could have written it; or a session named it, and what stands there
  is not what it wrote, or what it found was not what the capture before had.
- All else is somebody else's: *loose* while a run was open, *between* while none was. So is what changed
  out of sight while another session ran.
- A change is contested by those that another session made to the same path in a run that overlaps its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from recorder.events import Body
from recorder.history import Change, Operation, Transition, TreeHistory, Unseen
from recorder.planning.contested import contested
from recorder.planning.sights import Sightings, between_known, proved, token
from recorder.planning.spans import LAG, SLACK, TICK, Locate, Span, Spans, parents, spans_of
from recorder.states import PathState

Contains = Callable[[str, Body], bool]
"""Whether the blob with this id contains the text of this body."""


def attribute(
    history: TreeHistory, *, locate: Locate, contains: Contains, windowless: frozenset[str] = frozenset()
) -> list[Change]:
    """Every change of the work tree with its owner, in log order.

    `windowless` names the sessions whose agent gives no windows: their runs stand in for them.
    """
    spans = spans_of(history, locate, windowless)
    folders = {
        (_capture(t), t.path): t.changed_at
        for t in history.transitions
        if t.after.kind == "dir" and not t.before.present
    }
    rewinds = _Rewinds((*history.operations, *history.elsewhere))
    sightings = Sightings(history.sightings)
    changes = _by_the_log(history, spans, folders, contains)
    for transition, unknown_from in between_known(history.transitions):
        for step in sightings.split(transition):
            written, rest = rewinds.split(step)
            changes += written
            if rest.before != rest.after:
                change = _owned(rest, spans, folders, contains)
                changes.append(
                    change if unknown_from is None else _blurred(change, rest, spans, unknown_from)
                )
    return contested(sorted(changes, key=lambda change: change.position), history.runs)


def _by_the_log(
    history: TreeHistory, spans: Spans, folders: dict[tuple[str, bytes], int], contains: Contains
) -> list[Change]:
    """The changes from states that only the log knows, where whose they are is certain."""
    found = []
    for proof in proved(history, spans).values():
        change = _owned(proof.transition, spans, folders, contains)
        named = change.by == "session" and change.evidence == "named"
        if named or (change.by == "shared" and len(change.sessions) > 1):
            found.append(replace(change, unknown_from=proof.unknown_from))
    return found


def unseen_writes(history: TreeHistory, found: Iterable[Change], *, locate: Locate) -> list[Unseen]:
    """What runs wrote by name without its state from before being known; `found` are the history's changes.
    Where no capture says anything of the path at all, `captured` is False, and only the disk can tell
    whether it is one."""
    spans = spans_of(history, locate, frozenset())
    ids = {change.id for change in found}
    proofs = {path: one for path, one in proved(history, spans).items() if one.transition.id in ids}
    first: dict[bytes, Transition] = {}
    for transition in history.transitions:
        first.setdefault(transition.path, transition)
    return [
        Unseen(path, span.session, span.run, span.began_at, path in first)
        for path, naming in spans.naming.items()
        for span in naming
        if not span.failed
        and (path not in first or _came_into_sight_by(first[path], span))
        and (path not in proofs or span.began_at < proofs[path].first.began_at)
    ]


def _came_into_sight_by(start: Transition, span: Span) -> bool:
    """A file that is first seen as it was before the call is a known state from before: older than the call,
    or captured before it, however soon after somebody had made it."""
    if start.before.known:
        return False
    if not start.after.known:
        return True
    recent = start.changed_at >= span.began_at - SLACK and start.until > span.began_at
    return start.after.present and recent


class _Rewinds:
    """The file steps of applied rewinds, each handed out once: to the first change that shows it."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._steps: dict[bytes, list[tuple[Operation, PathState, PathState]]] = defaultdict(list)
        for operation in sorted(operations, key=lambda operation: operation.position):
            for step in (step for step in operation.steps if step.path not in operation.left):
                self._steps[step.path].append((operation, step.before, step.after))

    def split(self, transition: Transition) -> tuple[list[Change], Transition]:
        """The parts of a change that rewinds wrote, and what remains."""
        waiting = self._steps.get(transition.path, [])
        written = []
        while waiting and waiting[0][0].position < transition.position:
            operation, before, after = waiting.pop(0)
            if before == transition.before != after:
                part = replace(transition, id=f"{transition.id}:{operation.operation}", after=after)
                written.append(_change(part, "rewind", "operation", f"written by {operation.verb}"))
                transition = replace(transition, before=after)
        return written, transition


def _owned(
    change: Transition, spans: Spans, folders: dict[tuple[str, bytes], int], contains: Contains
) -> Change:
    moment, exact = _moment(change, folders)
    if change.by_git:
        return _nobodys(change, spans, moment, moment, "git", "git", "changed by git")
    naming = _naming(change, spans, moment, contains)
    covering = _covering(change, spans, moment, exact, naming, contains)
    writers = {span.session for span in naming}
    coverers = {span.session for span in covering}
    if len(writers) > 1:
        return _shared(change, [*naming, *covering], "two sessions wrote it")
    if writers:
        fit = _says(naming[-1], change, contains)
        if fit == "whole" and _found_otherwise(change, naming, spans):
            return _shared(change, naming, "somebody else changed it before the session's tool did")
        if fit == "whole" or (fit == "part" and writers <= coverers):
            return _sessions(change, naming[-1], "named", f"written by {naming[-1].call}")
        if not writers <= coverers:
            return _shared(change, [*naming, *covering], "changed again after the session's tool wrote it")
    if len(coverers) > 1:
        return _shared(change, covering, "two sessions could have written it at that time")
    if covering:
        span = max(covering, key=lambda span: (change.path in span.files, span.began_at))
        return _sessions(change, span, span.evidence, _how(span))
    return _loose(change, spans, moment)


def _moment(change: Transition, folders: dict[tuple[str, bytes], int]) -> tuple[int, bool]:
    """When the change happened (ns), and whether that is exact or only the latest it can have been."""
    if not change.after.present:
        moment = change.changed_at or change.until
        return (change.above_changed_at if _came_with_a_folder(change) else moment), False
    if change.changed_at >= change.since:
        return change.changed_at, True
    # Older than the capture that did not have it: it came with a folder that was moved to here.
    for folder in parents(change.path):
        moved_at = folders.get((_capture(change), folder), 0)
        if moved_at >= change.since - LAG:
            return moved_at, True
    if _came_with_a_folder(change):
        return change.above_changed_at, False
    return change.changed_at, True


def _came_with_a_folder(change: Transition) -> bool:
    """Whether a folder took another one's place: the times of what lies in it are older than the capture
    before, and only a folder above has changed since."""
    since = change.since - LAG
    return 0 < change.changed_at < since <= change.above_changed_at


def _naming(change: Transition, spans: Spans, moment: int, contains: Contains) -> list[Span]:
    """The calls that name the path and may have written its content by then, in order."""
    if change.before.kind == change.after.kind and change.before.oid == change.after.oid:
        return []
    named = spans.naming_path(change.path, change.since, moment or change.until)
    return [
        span
        for span in named
        if not span.failed and _meets(span, change) and _may_have_run(span, change, contains)
    ]


def _meets(span: Span, change: Transition) -> bool:
    """A call that was over when the capture before began to read has no part in what changed since: its own
    work is in that capture. Nor has one that began when the capture that shows the change was over."""
    return span.ended_at + TICK >= change.since and span.began_at <= change.until


def _may_have_run(span: Span, change: Transition, contains: Contains) -> bool:
    """A call that never returned may still wait for a person's leave; what it wanted to write and what
    does not stand there, it did not write."""
    return span.strong or _says(span, change, contains) != "no"


def _covering(
    change: Transition, spans: Spans, moment: int, exact: bool, naming: list[Span], contains: Contains
) -> list[Span]:
    """The calls that explain the time of the change."""
    if exact:
        named = spans.naming_path(change.path, moment, moment)
        found = [span for span in named if _may_have_run(span, change, contains)]
        found += spans.anywhere(change.path, moment, moment)
    else:
        found = [span for span in naming if _says(span, change, contains) != "no"]
        found += spans.anywhere(change.path, min(change.since, moment), moment)
    if change.after.kind == "dir":
        # Whatever is put into a folder moves its time: the call that made it may lie further back.
        found += spans.naming_inside(change.path, change.since, moment)
    found = [span for span in found if _meets(span, change)]
    # A call that never returned counts only where nothing better explains the change.
    return [span for span in found if span.strong] or found


def _says(span: Span, change: Transition, contains: Contains) -> str:
    """`whole` or `part`: so much of the content after is known from the call, and fits. `no`: it does
    not fit. `nothing`: the call does not say."""
    files = span.files[change.path]
    whole = [file.after for file in files if file.after is not None]
    if whole:
        return "whole" if whole[-1] == token(change.after) else "no"
    fragments = [file.fragment for file in files if file.fragment is not None]
    if not fragments:
        return "nothing"
    fits = change.after.kind == "file" and all(contains(change.after.oid, text) for text in fragments)
    return "part" if fits else "no"


def _found_otherwise(change: Transition, naming: list[Span], spans: Spans) -> bool:
    """Whether the first call found content that neither the capture before nor the session knows of.

    Asked only where the log's contents are proved to be the disk's, byte for byte."""
    first = naming[0]
    found = next((file.before for file in first.files[change.path] if file.before is not None), None)
    known: set[str | None] = {None, token(change.before)}
    known.update(file.after for span in naming for file in span.files[change.path])
    earlier = spans.anywhere(change.path, change.since, first.began_at)
    return found not in known and not any(span.session == first.session for span in earlier)


def _loose(change: Transition, spans: Spans, moment: int) -> Change:
    if moment == 0:
        why = "it is not known when it was changed"
        return _nobodys(change, spans, change.since, change.until, "other", "loose", why)
    why = "changed during the run, but by none of its tools"
    loose = _nobodys(change, spans, moment, moment, "other", "loose", why)
    return loose if loose.runs else replace(loose, evidence="between", why="changed between two runs")


def _blurred(change: Change, transition: Transition, spans: Spans, unknown_from: int) -> Change:
    """A change that took place out of sight is a session's only where no other session ran meanwhile."""
    since, until = transition.since, transition.until
    others = {run.session for run in spans.open_runs(change.path, since, until)} - {change.session}
    if change.by == "session" and others:
        why = "several sessions ran while its state was unknown"
        change = _nobodys(transition, spans, since, until, "other", "loose", why)
    return replace(change, unknown_from=unknown_from)


def _sessions(change: Transition, span: Span, evidence: str, why: str) -> Change:
    return _change(change, "session", evidence, why, [(span.session, span.run)], named=True)


def _shared(change: Transition, spans: Iterable[Span], why: str) -> Change:
    return _change(change, "shared", "window", why, [(span.session, span.run) for span in spans])


def _nobodys(
    change: Transition, spans: Spans, since: int, until: int, by: str, evidence: str, why: str
) -> Change:
    """Not a session's; but the runs that were open at the time are told of it."""
    runs = [(run.session, run.run) for run in spans.open_runs(change.path, since, until)]
    return _change(change, by, evidence, why, runs)


def _change(
    change: Transition,
    by: str,
    evidence: str,
    why: str,
    runs: Iterable[tuple[str, str]] = (),
    *,
    named: bool = False,
) -> Change:
    runs = tuple(sorted(set(runs)))
    session, run = runs[0] if named else (None, None)
    return Change(
        id=change.id,
        position=change.position,
        path=change.path,
        before=change.before,
        after=change.after,
        by=by,
        session=session,
        run=run,
        evidence=evidence,
        why=why,
        runs=runs,
    )


def _how(span: Span) -> str:
    if span.evidence == "open":
        return f"changed while {span.call} had been called and not returned"
    return f"changed during {span.call}" if span.call else "changed during the run"


def _capture(change: Transition) -> str:
    return change.id.partition(":")[0]
