"""From the records of a log to the facts of a session: what each line adds to what is known.

Pure but for the digests of bodies: nothing is read or stored. Odd input (parents that do not exist,
cycles, ids that come twice, clocks that run backwards) is tolerated: the entry is kept as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from recorder.events import (
    Body,
    BranchLeft,
    Compacted,
    EntryAdded,
    LabelSet,
    LeafSet,
    LineUnread,
    NamedFile,
    PromptGiven,
    RunSettled,
    RunStarted,
    SessionDescribed,
    SessionEnded,
    SessionForked,
    SessionStarted,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolReturned,
)
from recorder.reading.decision import Decision, Line, Read
from recorder.reading.moments import nanoseconds
from recorder.reading.session import ACTIVE, Session
from recorder.reading.tail import LongLine
from recorder.redact import excerpt, redact_line
from recorder.sources.base import BadLine, Call, FileNamed, Record, Return


def decide(session: Session, read: Read, body_of: Callable[[bytes], Body]) -> Decision:
    """What the lines add to the session; they are folded into it."""
    decision = Decision(session, body_of)
    followed = _followed(read)
    position = read.start
    for line, record, late in zip(read.lines, read.records, followed, strict=True):
        decision.counts.entries += 1
        if isinstance(record, BadLine):
            _bad_line(decision, read, line, record, position)
        else:
            assert isinstance(line, bytes)
            _record(decision, read, line, record, late)
        position += _size(line) + 1
    return decision


def _size(line: Line) -> int:
    return line.size if isinstance(line, LongLine) else len(line)


def _followed(read: Read) -> list[bool]:
    """For each line whether the conversation went on after it in what was read at once."""
    went_on = read.more
    followed = []
    for record in reversed(read.records):
        followed.append(went_on)
        if isinstance(record, Record) and record.within is None and not record.copied:
            went_on = went_on or record.kind in ACTIVE or record.prompt is not None
    return followed[::-1]


def _bad_line(decision: Decision, read: Read, line: Line, bad: BadLine, position: int) -> None:
    """A line is known again by its bytes and where it stands."""
    content = line if isinstance(line, bytes) else line.digest.encode()
    digest = hashlib.blake2b(content, digest_size=12, key=position.to_bytes(8, "big")).hexdigest()
    if digest in decision.session.entries:
        decision.counts.duplicates += 1
        return
    _start(decision, read)
    kept = redact_line(line if isinstance(line, bytes) else line.start)[0]
    decision.add(LineUnread, read.clock.seen_at, time="", line=digest, why=bad.why, body=decision.body(kept))
    decision.counts.bad_lines += 1


def _record(decision: Decision, read: Read, line: bytes, record: Record, late: bool) -> None:
    session = decision.session
    _start(decision, read)
    if record.entry in session.entries:
        decision.counts.duplicates += 1
        return
    time = nanoseconds(record.time) if record.time else None
    at = read.clock.at(time, copied=record.copied)
    child = record.within is not None
    if not child:
        _describe(decision, read, record, at)
    prompted = record.prompt is not None and not child and not _told_without_log(session, record)
    if not record.copied and (prompted or _new_step(session, record)):
        _end_step(decision)
    if record.in_tree and not child:
        _leave_branch(decision, read, record, at)
    said = excerpt(record.text)
    _add_entry(decision, line, record, at, said)
    if prompted:
        reference_at = read.clock.reference(time, read.flush_ns, late=late)
        _give_prompt(decision, record, at, said, late=late, reference_at=reference_at)
    if not record.copied:
        _work(decision, read, record, at)
    if record.understood:
        decision.counts.new += 1
    else:
        counts = decision.counts.not_understood
        counts[record.raw_type] = counts.get(record.raw_type, 0) + 1


def _told_without_log(session: Session, record: Record) -> bool:
    """Whether the prompt became one by a hook's word alone, because its log did not come in time."""
    return record.key is not None and session.keys.get(record.key) == record.key != record.entry


def _start(decision: Decision, read: Read) -> None:
    """The session's first fact says what the first lines know of it."""
    if decision.session.state.version:
        return
    records = [record for record in read.records if isinstance(record, Record) and record.within is None]
    records.sort(key=lambda record: record.copied)
    times = (nanoseconds(record.time) for record in records if record.time and not record.copied)
    decision.add(
        SessionStarted,
        read.clock.at(next(times, None)),
        time=_first(records, "time") or "",
        agent=decision.session.agent,
        session=decision.session.session,
        agent_version=_first(records, "agent_version"),
        cwd=_first(records, "cwd"),
        parent=_first(records, "parent_session"),
        log=read.path,
        live=read.live,
    )


def _first(records: Sequence[Record], field: str) -> str | None:
    return next((value for record in records if (value := getattr(record, field))), None)


def _describe(decision: Decision, read: Read, record: Record, at: int) -> None:
    state = decision.session.state
    news: dict[str, object] = {}
    if record.agent_version is not None and record.agent_version != state.agent_version:
        news["agent_version"] = record.agent_version
    if record.cwd is not None and record.cwd != state.cwd:
        news["cwd"] = record.cwd
    if record.name is not None and record.name != state.name:
        news["name"] = record.name
    if record.foreign is not None and record.foreign != state.foreign:
        news["foreign"] = record.foreign
    if record.in_tree and read.path != state.log:
        news["log"] = read.path
    if news:
        decision.add(SessionDescribed, at, time=record.time, **news)
    if record.parent_session is not None:
        origin = read.origin(record.parent_session)
        if origin not in decision.session.origins and origin != decision.session.session:
            decision.add(SessionForked, at, time=record.time, parent_session=origin)


def _leave_branch(decision: Decision, read: Read, record: Record, at: int) -> None:
    session = decision.session
    leaf, prompt, parent = session.state.leaf, session.state.prompt, _parent(record)
    if leaf is None:
        return
    if read.one_leaf:
        left = parent != leaf and (parent is None or parent in session.entries)
    else:
        left = record.prompt is not None and prompt is not None and session.is_above(prompt, parent) is False
    if left:
        decision.add(BranchLeft, at, time=record.time, leaf=leaf, to=parent)


def _parent(record: Record) -> str | None:
    return record.parent if record.parent is not None else record.logical_parent


def _add_entry(decision: Decision, line: bytes, record: Record, at: int, said: str) -> None:
    decision.add(
        EntryAdded,
        at,
        time=record.time,
        entry=record.entry,
        parent=_parent(record),
        kind=record.kind,
        raw_type=record.raw_type,
        in_tree=record.in_tree and record.within is None,
        copied=record.copied,
        understood=record.understood,
        body=decision.body(redact_line(line)[0]),
        excerpt=said,
    )
    if record.kind == "compaction":
        decision.add(Compacted, at, time=record.time, entry=record.entry, kept_from=record.kept_from)
    if record.label is not None:
        entry, label = record.label
        decision.add(LabelSet, at, time=record.time, entry=entry, label=label)
    if record.leaf is not None:
        decision.add(LeafSet, at, time=record.time, entry=record.leaf[0])


def _give_prompt(
    decision: Decision, record: Record, at: int, said: str, *, late: bool, reference_at: int
) -> None:
    text = decision.body(redact_line(record.text.encode("utf-8", "surrogatepass"))[0])
    decision.add(
        PromptGiven,
        at,
        time=record.time,
        entry=record.entry,
        how=record.prompt,
        text=text,
        excerpt=said,
        copied=record.copied,
        late=late,
        reference_at=reference_at,
        key=None if record.copied else record.key or _announced_as(decision.session, text),
    )
    if not record.copied:
        decision.add(RunStarted, at, time=record.time, run=record.entry)


def _announced_as(session: Session, text: Body) -> str | None:
    """The key of the newest prompt that was announced with this text and whose line has not come; a line
    that names no key is known by it until the agent's own word comes."""
    unbound = (key for key, told in reversed(session.announced.items()) if key not in session.keys)
    return next((key for key in unbound if session.announced[key].text == text), None)


def _work(decision: Decision, read: Read, record: Record, at: int) -> None:
    """The step, the tool calls and the end of the run that a line tells of."""
    state = decision.session.state
    child = record.within is not None
    if _new_step(decision.session, record):
        decision.add(StepStarted, at, time=record.time, run=state.run, step=record.step)
    for call in record.calls:
        _call(decision, read, record, call, at)
    for returned in record.returns:
        _return(decision, read, record, returned, at)
    if record.settles is not None and not child and state.under_way:
        _end_step(decision)
        decision.add(
            RunSettled, at, time=record.time, run=state.run, entry=record.entry, outcome=record.settles
        )
    if record.ends_session is not None and not child:
        decision.add(SessionEnded, at, time=record.time, reason=record.ends_session)


def _new_step(session: Session, record: Record) -> bool:
    return record.step is not None and record.step != session.state.step and record.within is None


def _end_step(decision: Decision) -> None:
    """A step ends with the last sign of it, which is known only when something else begins."""
    state = decision.session.state
    if state.step_open:
        decision.add(StepEnded, state.sign_at, time=state.sign_time, run=state.run, step=state.step)


def _call(decision: Decision, read: Read, record: Record, call: Call, at: int) -> None:
    session = decision.session
    if call.call in session.calls:
        return
    run, step = session.state.run, record.step or session.state.step
    if record.within is not None:
        run, step = session.calls.get(record.within, (run, session.state.step))
    decision.add(
        ToolCalled,
        _began_at(read, record, call, at),
        time=record.time,
        run=run,
        step=step,
        call=call.call,
        tool=call.tool,
        writes=call.writes,
        files=tuple(named_file(decision, file) for file in call.files),
        background=call.background,
    )


def _began_at(read: Read, record: Record, call: Call, at: int) -> int:
    """Where the agent's clock is not this machine's, a call whose return was seen with it began at some time
    since the look before: it was over when its line was seen."""
    said = nanoseconds(record.time) if call.at_ns is None else call.at_ns
    if read.clock.plausible(said, copied=record.copied) or not _returned_with(read, call):
        return at if call.at_ns is None else read.clock.at(call.at_ns)
    return min(read.clock.previous_at, read.clock.seen_at)


def _returned_with(read: Read, call: Call) -> bool:
    return any(
        returned.call == call.call
        for other in read.records
        if isinstance(other, Record)
        for returned in other.returns
    )


def _return(decision: Decision, read: Read, record: Record, returned: Return, at: int) -> None:
    session = decision.session
    if returned.call in session.returned:
        return
    run, _ = session.calls.get(returned.call, (session.state.run, ""))
    decision.add(
        ToolReturned,
        at if returned.at_ns is None else read.clock.at(returned.at_ns),
        time=record.time,
        run=run,
        call=returned.call,
        failed=returned.failed,
        files=tuple(named_file(decision, file) for file in returned.files),
    )


def named_file(decision: Decision, file: FileNamed) -> NamedFile:
    """Contents are kept as they are, for they are what a rewind puts back; a fragment only serves as
    evidence, and one that holds a secret is let go."""
    fragment = file.fragment
    if fragment is not None and redact_line(fragment)[1]:
        fragment = None
    return NamedFile(
        file.path,
        before="absent" if file.absent_before else _blob(file.before),
        after=_blob(file.after),
        before_body=None if file.before is None else decision.body(file.before),
        fragment=None if fragment is None else decision.body(fragment),
    )


def _blob(content: bytes | None) -> str | None:
    """The id that git gives a file with this content."""
    if content is None:
        return None
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content), usedforsecurity=False).hexdigest()
