"""What is known of one agent session: the fold of its stream, as far as new lines are decided by it.

Holds ids and a few names, no texts. The same fold runs when a fact is decided and when the stream is
read back, so a session that was let go and loaded again decides the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any
from uuid import UUID

import msgspec

from recorder.events import (
    EntryAdded,
    Fact,
    LineUnread,
    Observed,
    PromptAnnounced,
    PromptBound,
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
    session_stream,
)

ACTIVE = frozenset({"answer", "result"})
"""Kinds of entry that show a run going on."""


class State(msgspec.Struct):
    """The part that is copied whole when a decision is taken back. `prompt` is the last prompt that is
    a node of the conversation, `leaf` the last node, `run` the prompt of the last run, `under_way`
    whether that run has not settled since its last sign, `step` the last step, `step_open` whether it
    has no end yet, `sign_at` (ns) and `sign_time` (the agent's) the last sign of it, `announced` the key of
    the newest prompt that a hook told of, `ended` whether the agent left since the last sign of life."""

    version: int = 0
    agent_version: str | None = None
    cwd: str | None = None
    name: str | None = None
    log: bytes | None = None
    foreign: str | None = None
    leaf: str | None = None
    prompt: str | None = None
    run: str = ""
    under_way: bool = False
    step: str = ""
    step_open: bool = False
    sign_at: int = 0
    sign_time: str = ""
    announced: str | None = None
    ended: bool = False


class Session:
    """`entries` gives each entry's parent, `calls` the run and step of each tool call; `returned` the
    calls that have ended and `origins` the sessions it was forked from (as ordered sets). `announced` has
    the announcement of each key, `keys` the entry that each key's prompt got, `unnamed` the text's digest
    and the time (ns) of prompts whose line named no key; `witnessed` and `returns_witnessed` the calls whose
    begin and end a hook told (as ordered sets)."""

    def __init__(self, agent: str, session: str) -> None:
        self.agent = agent
        self.session = session
        self.stream: UUID = session_stream(agent, session)
        self.state = State()
        self.entries: dict[str, str | None] = {}
        self.calls: dict[str, tuple[str, str]] = {}
        self.returned: dict[str, None] = {}
        self.origins: dict[str, None] = {}
        self.announced: dict[str, PromptAnnounced] = {}
        self.keys: dict[str, str] = {}
        self.unnamed: dict[str, tuple[str, int]] = {}
        self.witnessed: dict[str, None] = {}
        self.returns_witnessed: dict[str, None] = {}

    def apply(self, fact: Fact) -> None:
        """Fold one fact of the stream, the next one after `state.version`."""
        self.state.version = fact.originator_version
        fold = _FOLDS.get(type(fact))
        if fold is not None:
            fold(self, fact)

    def load(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            self.apply(fact)

    def mark(self) -> Mark:
        """Where `back_to` returns to."""
        return Mark(copy.copy(self.state), [len(table) for table in self._tables()])

    def back_to(self, mark: Mark) -> None:
        """Forget every fact applied since; the tables only ever grow, so their newest rows go."""
        self.state = copy.copy(mark.state)
        for table, size in zip(self._tables(), mark.sizes, strict=True):
            while len(table) > size:
                table.popitem()

    def _tables(self) -> tuple[dict[str, Any], ...]:
        return (
            self.entries,
            self.calls,
            self.returned,
            self.origins,
            self.announced,
            self.keys,
            self.unnamed,
            self.witnessed,
            self.returns_witnessed,
        )

    def is_above(self, entry: str, parent: str | None) -> bool | None:
        """Whether `entry` is on the path from `parent` to the root; None where the path is broken, by a
        parent that is not in the log or by a cycle."""
        seen = set()
        while parent is not None:
            if parent == entry:
                return True
            if parent in seen or parent not in self.entries:
                return None
            seen.add(parent)
            parent = self.entries[parent]
        return False


class Mark(msgspec.Struct, frozen=True):
    state: State
    sizes: list[int]


def _started(session: Session, fact: SessionStarted) -> None:
    state = session.state
    state.agent_version, state.cwd, state.log = fact.agent_version, fact.cwd, fact.log


def _described(session: Session, fact: SessionDescribed) -> None:
    state = session.state
    for news in ("agent_version", "cwd", "name", "log", "foreign"):
        value = getattr(fact, news)
        if value is not None:
            setattr(state, news, value)


def _forked(session: Session, fact: SessionForked) -> None:
    session.origins[fact.parent_session] = None


def _entry(session: Session, fact: EntryAdded) -> None:
    session.entries[fact.entry] = fact.parent
    if not fact.in_tree:
        return
    state = session.state
    state.leaf = fact.entry
    if fact.kind in ACTIVE and not fact.copied:
        state.under_way = bool(state.run)
        _sign(state, fact)


def _unread(session: Session, fact: LineUnread) -> None:
    session.entries[fact.line] = None


def _prompt(session: Session, fact: PromptGiven) -> None:
    if session.state.leaf == fact.entry:
        session.state.prompt = fact.entry
    if fact.key is not None:
        session.keys.setdefault(fact.key, fact.entry)
    elif not fact.copied:
        session.unnamed.setdefault(fact.entry, (fact.text.digest, fact.at))


def _announced(session: Session, fact: PromptAnnounced) -> None:
    session.announced[fact.key] = fact
    session.state.announced = fact.key
    session.state.ended = False


def _bound(session: Session, fact: PromptBound) -> None:
    session.keys.setdefault(fact.key, fact.entry)


def _ended(session: Session, fact: SessionEnded) -> None:
    session.state.ended = True


def _run_started(session: Session, fact: RunStarted) -> None:
    session.state.run = fact.run
    session.state.under_way = True


def _run_settled(session: Session, fact: RunSettled) -> None:
    session.state.under_way = False


def _step_started(session: Session, fact: StepStarted) -> None:
    state = session.state
    state.step, state.step_open = fact.step, True
    state.sign_at, state.sign_time = fact.at, fact.time


def _step_ended(session: Session, fact: StepEnded) -> None:
    session.state.step_open = False


def _called(session: Session, fact: ToolCalled) -> None:
    if fact.witness == "hook":
        session.witnessed[fact.call] = None
    else:
        session.calls[fact.call] = (fact.run, fact.step)


def _returned(session: Session, fact: ToolReturned) -> None:
    if fact.witness == "hook":
        session.returns_witnessed[fact.call] = None
        return
    session.returned[fact.call] = None
    _sign(session.state, fact)


def _sign(state: State, fact: Observed) -> None:
    if fact.at >= state.sign_at:
        state.sign_at, state.sign_time = fact.at, fact.time


_FOLDS: dict[type[Fact], Callable[..., None]] = {
    SessionStarted: _started,
    SessionDescribed: _described,
    SessionForked: _forked,
    EntryAdded: _entry,
    LineUnread: _unread,
    PromptGiven: _prompt,
    PromptAnnounced: _announced,
    PromptBound: _bound,
    SessionEnded: _ended,
    RunStarted: _run_started,
    RunSettled: _run_settled,
    StepStarted: _step_started,
    StepEnded: _step_ended,
    ToolCalled: _called,
    ToolReturned: _returned,
}
