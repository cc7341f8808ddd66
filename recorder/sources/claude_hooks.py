"""What Claude Code's hooks tell (2.1.197 to 2.1.332): the payload on a hook's stdin as a signal.

Pure. Keys that are not looked at are let pass, and an event that nobody knows tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from recorder.sources.base import Signal
from recorder.sources.claude_lines import NULL, Block
from recorder.sources.claude_messages import HARNESS
from recorder.sources.claude_tools import call_of, return_of


class Payload(msgspec.Struct):
    """The keys of any payload that are looked at."""

    session_id: str
    hook_event_name: str
    transcript_path: str | None = None
    cwd: str | None = None
    prompt_id: str | None = None
    prompt: str | None = None
    source: str | None = None
    reason: str | None = None
    agent_id: str | None = None
    tool_name: str | None = None
    tool_use_id: str | None = None
    tool_input: msgspec.Raw = NULL
    tool_response: msgspec.Raw = NULL


_payload = msgspec.json.Decoder(Payload)


def signal(payload: bytes, at: int, deadline: int) -> Signal | None:
    """What a payload tells; None where that is nothing, or it is none."""
    try:
        told = _payload.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    meaning = _MEANINGS.get(told.hook_event_name)
    if meaning is None or not told.session_id:
        return None
    common = Signal(
        kind="other",
        session=told.session_id,
        key=f"{told.hook_event_name}:{told.tool_use_id or told.prompt_id or ''}:{at}",
        at=at,
        deadline=deadline,
        log=_place(told.transcript_path),
        cwd=told.cwd,
        prompt=told.prompt_id,
        within=told.agent_id,
    )
    return msgspec.structs.replace(common, **meaning(told))


def _place(path: str | None) -> Path | None:
    return Path(path) if path and path.startswith("/") and "\0" not in path else None


def _prompt(told: Payload) -> dict[str, object]:
    """What the harness says in the user's name is no prompt; one without a key cannot be told again from
    its line."""
    text = told.prompt or ""
    if told.prompt_id is None or text.lstrip().startswith(HARNESS):
        return {}
    return {"kind": "prompt", "text": text, "how": "typed", "waits": True}


def _call(told: Payload) -> dict[str, object]:
    call = call_of(_block(told, "tool_use"), told.cwd, None, None)
    return {} if call is None else {"kind": "call", "call": call, "waits": call.writes != "none"}


def _return(told: Payload) -> dict[str, object]:
    failed = told.hook_event_name == "PostToolUseFailure"
    block = Block("tool_result", tool_use_id=told.tool_use_id, is_error=failed)
    returned = return_of(block, told.tool_response, told.cwd)
    return {} if returned is None else {"kind": "return", "returned": returned}


def _block(told: Payload, kind: str) -> Block:
    return Block(kind, id=told.tool_use_id, name=told.tool_name, input=told.tool_input)


_MEANINGS: dict[str, Callable[[Payload], dict[str, object]]] = {
    "SessionStart": lambda told: {"kind": "start"},
    "UserPromptSubmit": _prompt,
    "PreToolUse": _call,
    "PostToolUse": _return,
    "PostToolUseFailure": _return,
    "PostToolBatch": lambda told: {} if told.agent_id else {"kind": "step"},
    "Stop": lambda told: {"kind": "settled", "outcome": "done", "waits": True},
    "SessionEnd": lambda told: {"kind": "end", "outcome": told.reason or "other"},
}
"""The events that `install` asks for, with what each means."""

EVENTS = tuple(_MEANINGS)
