"""Errands: what a command asks of a live agent, carried by the daemon to the extension that is in it.

    command to daemon     {"ask": "state" | "navigate", "session": ID, …}
    daemon to extension   {"do": …, "id": NUMBER, …}      pushed, with all else that was asked
    extension to daemon   {"did": NUMBER, …}              handed on to the command as its answer

All of them are of the agent `recorder`. Where no extension has the session, the answer is `{"live": false}`.
The daemon understands nothing of it and keeps no state of an agent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

AGENT = "recorder"
NOBODY = b'{"live":false}'

Answer = Callable[[bytes], None]
Push = Callable[[str, bytes], int | None]
"""Hands something to the extension that has a session; returns the number of its connection, or None."""


class Errands:
    """What was asked and has no answer yet. Used by the listening thread alone."""

    def __init__(self, push: Push) -> None:
        self._push = push
        self._open: dict[int, tuple[int, Answer]] = {}
        self._last = 0

    def take(self, payload: bytes, answer: Answer) -> None:
        """One frame of the agent `recorder`; `answer` may be called later."""
        message = _object(payload)
        if isinstance(message.get("did"), int):
            _, asked = self._open.pop(message["did"], (0, _nobody))
            answer(b"")
            asked(payload)
        elif isinstance(message.get("ask"), str) and isinstance(message.get("session"), str):
            self._carry(message, answer)
        else:
            answer(b"")

    def dropped(self, connection: int) -> None:
        """The extension at a connection has gone away."""
        for number, (carrier, asked) in list(self._open.items()):
            if carrier == connection:
                del self._open[number]
                asked(NOBODY)

    def _carry(self, message: dict[str, Any], answer: Answer) -> None:
        self._last += 1
        errand = {"do": message.pop("ask"), "id": self._last, **message}
        carrier = self._push(message["session"], msgspec.json.encode(errand))
        if carrier is None:
            answer(NOBODY)
        else:
            self._open[self._last] = (carrier, answer)


def _object(payload: bytes) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _nobody(_: bytes) -> None:
    return None
