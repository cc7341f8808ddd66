"""Facts as documents and as one line for people."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from projections.listing import iso
from recorder import events
from recorder.events import Fact

if TYPE_CHECKING:
    from recorder.log import Stored


def event_document(stored: Stored, session: str) -> dict[str, object]:
    """One item of `log`."""
    fact = stored.fact
    return {
        "position": stored.position,
        "stream": fact.originator_id.hex,
        "version": fact.originator_version,
        "type": type(fact).__name__,
        "time": getattr(fact, "time", "") or iso(fact.at),
        "session": session,
        "summary": summary(fact),
        "data": _data(fact),
    }


def _data(fact: Fact) -> dict[str, Any]:
    own = {
        name: getattr(fact, name)
        for name in fact.__struct_fields__
        if name not in ("originator_id", "originator_version")
    }
    return {name: _plain(value) for name, value in own.items()}


def _plain(value: object) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, msgspec.Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return msgspec.to_builtins(value)


def summary(fact: Fact) -> str:
    """What a fact says, for one line."""
    match fact:
        case events.SessionStarted():
            return f"{fact.agent} {fact.agent_version or ''} in {fact.cwd or 'no folder'}".replace("  ", " ")
        case events.SessionForked():
            return f"from {fact.parent_session}"
        case events.EntryAdded():
            return f"{fact.kind}: {fact.excerpt}" if fact.excerpt else fact.raw_type
        case events.PromptGiven() | events.PromptAnnounced():
            return f"{fact.how}: {fact.excerpt}"
        case events.RunSettled():
            return fact.outcome
        case events.ToolCalled():
            named = ", ".join(file.path.decode(errors="replace") for file in fact.files)
            return f"{fact.tool} {named}".strip()
        case events.ToolReturned():
            return f"{fact.call}{' failed' if fact.failed else ''}"
        case events.Captured():
            unknown = f", {len(fact.unknown)} not known" if fact.unknown else ""
            return f"{fact.moment}: {fact.files} files, {len(fact.delta)} changed{unknown}"
        case events.RewindPlanned():
            return f"{fact.verb}: {len(fact.steps)} files"
        case _:
            return _named_fields(fact)


def _named_fields(fact: Fact) -> str:
    interesting = (
        "why",
        "reason",
        "outcome",
        "label",
        "entry",
        "run",
        "operation",
        "checkpoint",
        "name",
        "cwd",
    )
    values = [str(getattr(fact, name)) for name in interesting if getattr(fact, name, None)]
    return ", ".join(values[:2])


def touches(fact: Fact, path: bytes) -> bool:
    """Whether a fact is about a file: by its path in the work tree, or the end of an absolute one."""
    tools = events.ToolCalled | events.ToolReturned
    named = [file.path for file in fact.files] if isinstance(fact, tools) else []
    changed = [one.path for one in (*getattr(fact, "delta", ()), *getattr(fact, "steps", ()))]
    return any(one == path or one.endswith(b"/" + path) for one in named + changed)
