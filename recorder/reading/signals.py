"""From the signals of hooks and extensions to the facts of a session: what each adds to what is known.

A signal and a line of the log that tell the same are joined by the agent's ids, in whatever order they
come. Pure but for the digests of bodies, as `recorder.reading.deciding` is for lines.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from recorder.events import (
    Body,
    EntryAdded,
    PromptAnnounced,
    PromptBound,
    PromptGiven,
    RunSettled,
    RunStarted,
    SessionEnded,
    SessionStarted,
    ToolCalled,
    ToolReturned,
)
from recorder.reading.deciding import named_file
from recorder.reading.decision import Decision
from recorder.reading.session import Session
from recorder.redact import excerpt, redact_line
from recorder.sources.base import Signal

CLOCK_NS = 10_000_000
"""By how much the time of a prompt's line, cut to what the agent writes down, may lie before the hook's."""


def decide_signal(
    session: Session, signal: Signal, body_of: Callable[[bytes], Body], *, has_log: bool
) -> Decision:
    """What a signal adds to the session; it is folded into it.

    `has_log` tells whether the session's log is there. Where it is not when a run ends, its prompts are
    taken at the hook's word: the agent keeps no log of this session.
    """
    decision = Decision(session, body_of)
    _start(decision, signal)
    if not has_log and signal.kind in ("prompt", "settled", "end"):
        _take_at_its_word(decision, but=signal.prompt if signal.kind == "prompt" else None)
    _MEANINGS.get(signal.kind, _nothing)(decision, signal)
    if not has_log and signal.kind == "settled" and session.state.under_way:
        run = session.state.run
        decision.add(RunSettled, signal.at, time="", run=run, entry=run, outcome=signal.outcome)
    return decision


def run_of(session: Session) -> str:
    """The run that is under way by what hooks told last: the prompt's entry, else its key while its line
    has not been read."""
    announced = session.state.announced
    if announced is None:
        return session.state.run
    return session.keys.get(announced, announced) if _is_newest(session, announced) else session.state.run


def _is_newest(session: Session, announced: str) -> bool:
    """Whether no prompt is known that was given after this announcement was followed by its line."""
    entry = session.keys.get(announced)
    return entry is None or entry == session.state.run


def _start(decision: Decision, signal: Signal) -> None:
    if decision.session.state.version:
        return
    decision.add(
        SessionStarted,
        signal.at,
        time="",
        agent=decision.session.agent,
        session=signal.session,
        agent_version=signal.agent_version,
        cwd=signal.cwd,
        parent=None,
        log=os.fsencode(signal.log) if signal.log else b"",
        live=True,
    )


def _announce(decision: Decision, signal: Signal) -> None:
    session = decision.session
    if signal.prompt is None or signal.prompt in session.announced or signal.prompt in session.keys:
        return
    text = decision.body(redact_line(signal.text.encode("utf-8", "surrogatepass"))[0])
    entry = _already_read(session, text, signal.at)
    decision.add(
        PromptAnnounced,
        signal.at,
        time="",
        key=signal.prompt,
        how=signal.how,
        text=text,
        excerpt=excerpt(signal.text),
    )
    if entry is not None:
        decision.add(PromptBound, signal.at, time="", key=signal.prompt, entry=entry)


def _already_read(session: Session, text: Body, at: int) -> str | None:
    """The entry of an announced prompt whose line, which names no key, was read first."""
    known = set(session.keys.values())
    since = (
        entry
        for entry, (digest, given_at) in reversed(session.unnamed.items())
        if entry not in known and given_at >= at - CLOCK_NS and digest == text.digest
    )
    return next(since, None)


def _bind(decision: Decision, signal: Signal) -> None:
    session = decision.session
    if signal.prompt in session.announced and signal.prompt not in session.keys and signal.entry:
        decision.add(PromptBound, signal.at, time="", key=signal.prompt, entry=signal.entry)


def _call(decision: Decision, signal: Signal) -> None:
    call = signal.call
    if call is None or call.call in decision.session.witnessed:
        return
    decision.add(
        ToolCalled,
        signal.at,
        time="",
        run=run_of(decision.session),
        step="",
        call=call.call,
        tool=call.tool,
        writes=call.writes,
        files=tuple(named_file(decision, file) for file in call.files),
        background=call.background,
        witness="hook",
    )


def _return(decision: Decision, signal: Signal) -> None:
    returned = signal.returned
    if returned is None or returned.call in decision.session.returns_witnessed:
        return
    decision.add(
        ToolReturned,
        signal.at,
        time="",
        run=run_of(decision.session),
        call=returned.call,
        failed=returned.failed,
        files=tuple(named_file(decision, file) for file in returned.files),
        witness="hook",
    )


def _end(decision: Decision, signal: Signal) -> None:
    if not decision.session.state.ended:
        decision.add(SessionEnded, signal.at, time="", reason=signal.outcome)


def _nothing(decision: Decision, signal: Signal) -> None:
    return None


def _take_at_its_word(decision: Decision, *, but: str | None) -> None:
    """Of the prompts whose lines never came; the one that is just given may still get its line."""
    session = decision.session
    for key, told in list(session.announced.items()):
        entry = session.keys.get(key, key)
        if entry in session.entries or key == but:
            continue
        decision.add(
            EntryAdded,
            told.at,
            time="",
            entry=entry,
            parent=session.state.leaf,
            kind="prompt",
            raw_type="hook",
            in_tree=True,
            copied=False,
            understood=True,
            body=told.text,
            excerpt=told.excerpt,
        )
        decision.add(
            PromptGiven,
            told.at,
            time="",
            entry=entry,
            how=told.how,
            text=told.text,
            excerpt=told.excerpt,
            copied=False,
            late=False,
            reference_at=told.at,
            key=key,
        )
        decision.add(RunStarted, told.at, time="", run=entry)


_MEANINGS: dict[str, Callable[[Decision, Signal], None]] = {
    "prompt": _announce,
    "bound": _bind,
    "call": _call,
    "return": _return,
    "end": _end,
}
