"""Asking a live agent: whether it is at work, and to move its conversation itself.

Only an agent with the recorder's extension can be asked, through the daemon; of any other this says nothing.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from cli.errands import AGENT
from cli.output import write_error
from cli.server import address_of
from recorder.conversation import Way

ANSWERS_IN = 3.0
"""Seconds in which an agent says how it is."""
PAUSE = 0.25
MOVES_IN = 120.0
"""Seconds in which it moves its conversation; others of its extensions may ask its user first."""


class Live(msgspec.Struct, frozen=True):
    """What a live agent says of itself. `busy`: a run is under way; `why_not`: why its conversation cannot be
    moved from outside, None where it can."""

    busy: bool = False
    why_not: str | None = None


class _Answer(Live, frozen=True):
    live: bool = False
    moved: bool = False
    why: str | None = None


def live(home: Path, session: str, *, looks: bool = False) -> Live | None:
    """How the agent is that has a session open; None where none can be asked. Unless one only `looks`, it
    first writes down where its conversation goes on, if that stands in its memory alone."""
    answer = _ask(home, {"ask": "state", "session": session, "pin": not looks}, ANSWERS_IN)
    return Live(answer.busy, answer.why_not) if answer is not None and answer.live else None


def wait_until_idle(home: Path, session: str) -> None:
    """Until the run is over that a live agent is in; says so once."""
    told = False
    while (agent := live(home, session, looks=True)) is not None and agent.busy:
        if not told:
            write_error(f"recorder: waiting for the run of session {session} to end")
        told = True
        time.sleep(PAUSE)


class LiveTalk:
    """The conversation of a session that is open in an agent which can be asked; see
    `recorder.rewind.Conversation`."""

    def __init__(self, home: Path, session: str, keep: str | None, prompt: str | None) -> None:
        self.way = Way("possible")
        self.possible = True
        self._moved = False
        self._home, self._session = home, session
        self._keep, self._prompt = keep, prompt

    def take(self) -> str | None:
        """Why it failed, or None."""
        why = self._go(self._keep, self._prompt)
        self._moved = why is None
        return why

    def take_back(self, leaf: str | None) -> str | None:
        """Why it stays moved, or None."""
        return self._go(leaf, None) if self._moved else None

    def _go(self, entry: str | None, prompt: str | None) -> str | None:
        what = {"ask": "navigate", "session": self._session, "entry": entry, "prompt": prompt}
        answer = _ask(self._home, what, MOVES_IN)
        if answer is None:
            return "the agent did not answer"
        if not answer.live:
            return "the agent went away"
        return None if answer.moved else answer.why or "the agent refused"


def _ask(home: Path, what: dict[str, Any], seconds: float) -> _Answer | None:
    payload = msgspec.json.encode(what)
    now = time.time_ns()
    head = f"recorder 1 {AGENT} {now} {now + int(seconds * 10**9)} {len(payload)}\n".encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            with address_of(home) as address:
                connection.connect(address)
            connection.sendall(head + payload)
            with connection.makefile("rb") as answers:
                word, _, size = answers.readline(100).partition(b" ")
                return msgspec.json.decode(answers.read(int(size)), type=_Answer) if word == b"ok" else None
        except (OSError, ValueError, msgspec.MsgspecError):
            return None
