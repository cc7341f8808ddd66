"""Which facts ask for a capture, and which of several asks is answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

import msgspec

from recorder import events
from recorder.events import Fact
from recorder.sources.base import Signal


class Ask(msgspec.Struct, frozen=True):
    """A capture that a fact or a hook asks for; `at` (ns) is when it happened. A hook's agent waits until
    `deadline` (ns); `named` are files that it tells of and no fact names yet, `announced` is the key of the
    prompt that it announces."""

    stream: UUID
    moment: str
    entry: str | None
    reference_at: int | None
    late: bool
    at: int
    source: str = "log"
    announced: str | None = None
    deadline: int | None = None
    named: frozenset[bytes] = frozenset()


def asked(facts: Iterable[Fact]) -> list[Ask]:
    """What a run of facts asks for, in order."""
    asks: list[Ask] = []
    for fact in facts:
        if isinstance(fact, events.SessionStarted) and fact.live:
            asks.append(Ask(fact.originator_id, "start", None, None, False, fact.at))
        elif isinstance(fact, events.PromptGiven) and not fact.copied:
            asks.append(
                Ask(fact.originator_id, "prompt", fact.entry, fact.reference_at, fact.late, fact.reference_at)
            )
        elif isinstance(fact, events.RunSettled):
            asks.append(Ask(fact.originator_id, "settled", fact.run, None, False, fact.at))
    return asks


def heard(stream: UUID, signal: Signal, run: str) -> Ask | None:
    """What a hook asks for; None where that is nothing. `run` is the one under way."""
    ask = Ask(stream, "", None, None, False, signal.at, "hook", deadline=signal.deadline)
    match signal.kind:
        case "prompt" if signal.prompt is not None:
            return msgspec.structs.replace(ask, moment="prompt", announced=signal.prompt)
        case "call" if signal.call is not None and signal.call.writes != "none" and run:
            named = frozenset(file.path for file in signal.call.files)
            return msgspec.structs.replace(ask, moment="call", entry=run, named=named)
        case "settled" if run:
            return msgspec.structs.replace(ask, moment="settled", entry=run)
    return None


def newest_asks(asks: Sequence[Ask]) -> list[Ask]:
    """One ask per session is enough: the last prompt, else the last settled run, else the start.

    A run that settles before the prompt that follows it in the same batch has that prompt's capture as
    its state after; a prompt overtaken by another one can no longer be answered.
    """
    newest: dict[UUID, Ask] = {}
    for ask in asks:
        standing = newest.get(ask.stream)
        if standing is None or ask.moment == "prompt" or standing.moment != "prompt":
            newest[ask.stream] = ask
    return list(newest.values())


class StepsDone:
    """The sessions of which a step may be over and has not been captured yet, the newest last."""

    def __init__(self) -> None:
        self._streams: dict[UUID, None] = {}

    def note(self, facts: Iterable[Fact]) -> None:
        """A returned tool may have been its step's last; whatever goes on in the session overtakes it."""
        for fact in facts:
            if isinstance(fact, events.ToolReturned):
                self._streams.pop(fact.originator_id, None)
                self._streams[fact.originator_id] = None
            elif isinstance(fact, _GOES_ON):
                self._streams.pop(fact.originator_id, None)

    def take(self) -> UUID | None:
        """The one that returned last, and no more."""
        return self._streams.popitem()[0] if self._streams else None


_GOES_ON = (events.PromptGiven, events.RunSettled, events.StepStarted, events.ToolCalled)
