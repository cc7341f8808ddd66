"""What the recorder's extension tells from inside pi: its messages as signals.

The extension is `cli/pi/recorder.ts`; the two change together, and either may be the older one. Pure:
keys that are not looked at are let pass, and an event that nobody knows tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from recorder.sources.base import Return, Signal
from recorder.sources.pi_tools import call as call_of


class Message(msgspec.Struct):
    """`event`: `start`, `prompt`, `bound`, `call`, `return`, `step`, `settled`, `end`, `moved`. `file` is the
    session's log, null where it has none; `prompt` the extension's key of the prompt that is under way,
    unique in the session; `entry` the id that the conversation gave it."""

    event: str
    session: str
    file: str | None = None
    cwd: str | None = None
    version: str | None = None
    prompt: str | None = None
    entry: str | None = None
    text: str | None = None
    how: str | None = None
    call: str | None = None
    tool: str | None = None
    input: Any = None
    failed: bool = False
    outcome: str | None = None
    waits: bool = True


_message = msgspec.json.Decoder(Message)


def signal(payload: bytes, at: int, deadline: int) -> Signal | None:
    """What a message tells; None where that is nothing, or it is none."""
    try:
        told = _message.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    meaning = _MEANINGS.get(told.event)
    if meaning is None or not told.session:
        return None
    common = Signal(
        kind=told.event,
        session=told.session,
        key=f"{told.event}:{told.call or told.prompt or ''}:{at}",
        at=at,
        deadline=deadline,
        log=_place(told.file),
        cwd=told.cwd,
        agent_version=told.version,
        prompt=told.prompt,
    )
    return msgspec.structs.replace(common, **meaning(told))


def _place(path: str | None) -> Path | None:
    return Path(path) if path and path.startswith("/") and "\0" not in path else None


def _prompt(told: Message) -> dict[str, object]:
    if told.prompt is None:
        return {"kind": "other"}
    return {"text": told.text or "", "how": told.how or "typed", "waits": told.waits}


def _bound(told: Message) -> dict[str, object]:
    known = told.prompt is not None and told.entry is not None
    return {"entry": told.entry} if known else {"kind": "other"}


def _call(told: Message) -> dict[str, object]:
    if told.call is None:
        return {"kind": "other"}
    call = call_of(told.call, told.tool or "", told.input, told.cwd, None)
    return {"call": call, "waits": told.waits and call.writes != "none"}


def _return(told: Message) -> dict[str, object]:
    if told.call is None:
        return {"kind": "other"}
    return {"returned": Return(told.call, failed=told.failed)}


def _ends(told: Message) -> dict[str, object]:
    return {"outcome": told.outcome or "done", "waits": told.waits}


def _nothing_more(_: Message) -> dict[str, object]:
    return {}


_MEANINGS: dict[str, Callable[[Message], dict[str, object]]] = {
    "start": _nothing_more,
    "prompt": _prompt,
    "bound": _bound,
    "call": _call,
    "return": _return,
    "step": lambda told: {"waits": told.waits},
    "settled": _ends,
    "end": _ends,
    "moved": lambda told: {"entry": told.entry},
}
