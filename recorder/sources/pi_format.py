"""The format of a pi session file: a line as typed values, its time, and what a person reads of it.

Versions 1 to 3, as in pi's `docs/session-format.md` and `core/session-manager.js` of the releases 0.73.1,
0.74.2 and 1.6.0. What the lines mean together is `recorder.sources.pi_lines`'.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from recorder.sources import pi_tools

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LAST_MS = 2**43
"""Times beyond it (the year 2248) do not fit into 64 bits as nanoseconds."""


class Block(msgspec.Struct):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    arguments: Any = None


class Nested(msgspec.Struct):
    id: str
    name: str
    status: str = ""
    arguments: Any = None


class NestedCalls(msgspec.Struct):
    calls: list[Nested] = []


Content = str | list[Block] | None


class Message(msgspec.Struct, rename="camel"):
    role: str
    content: Content = None
    timestamp: Any = None
    stop_reason: str | None = None
    error_message: str | None = None
    tool_call_id: str = ""
    is_error: bool = False
    nested_calls: NestedCalls | None = None
    command: str = ""
    output: str = ""
    summary: str = ""


class Outline(msgspec.Struct, rename="camel"):
    """What every line has. It is all that is taken of one whose other keys hold what they should not."""

    type: str
    id: Any = None
    parent_id: Any = None
    timestamp: Any = None
    version: Any = None
    cwd: Any = None
    parent_session: Any = None
    branched_from: Any = None
    """The name of `parentSession` in version 1."""


class Line(Outline, rename="camel"):
    message: Message | None = None
    summary: str | None = None
    first_kept_entry_id: str | None = None
    first_kept_entry_index: int | None = None
    custom_type: str | None = None
    content: Content = None
    target_id: str | None = None
    label: str | None = None
    name: str | None = None
    provider: Any = None
    model_id: Any = None
    thinking_level: Any = None
    kind: Any = None


class Header(msgspec.Struct, frozen=True):
    """The first line of a session file. `migrated`: pi rewrote the file from version 1."""

    session: str
    version: int
    time: str
    at_ms: int | None
    cwd: str | None
    parent: str | None
    migrated: bool


def header_of(line: bytes) -> Header | None:
    """The header of a session, or None where the line is none."""
    try:
        parsed = decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return header_from(line, parsed)


def decode(line: bytes) -> Outline:
    """Raises msgspec.DecodeError, ValueError or RecursionError where it is no JSON object with a type."""
    try:
        return _LINES.decode(line)
    except msgspec.ValidationError:
        return _OUTLINES.decode(line)
    except msgspec.DecodeError:
        if not line.lstrip().startswith(b"{"):
            raise
    # As pi reads it: bytes that are no UTF-8 and halves of surrogate pairs are replaced.
    text = json.dumps(json.loads(line.decode("utf-8", "replace")), ensure_ascii=False)
    mended = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        return _LINES.decode(mended)
    except msgspec.ValidationError:
        return _OUTLINES.decode(mended)


_LINES = msgspec.json.Decoder(Line)
_OUTLINES = msgspec.json.Decoder(Outline)


def header_from(line: bytes, parsed: Outline) -> Header | None:
    if parsed.type != "session" or not isinstance(parsed.id, str) or not parsed.id:
        return None
    version = parsed.version if isinstance(parsed.version, int) else 1
    time, at_ms = clock(parsed.timestamp)
    parent = parsed.parent_session or parsed.branched_from
    return Header(
        session=parsed.id,
        version=version,
        time=time,
        at_ms=at_ms,
        cwd=parsed.cwd if isinstance(parsed.cwd, str) and parsed.cwd else None,
        parent=parent if isinstance(parent, str) else None,
        # pi writes the version before the id, but a migration from version 1 puts it last.
        migrated=version > 1 and line.find(b'"version"') > line.find(b'"id"'),
    )


def clock(timestamp: object) -> tuple[str, int | None]:
    """A timestamp as ISO 8601 UTC and in ms since the epoch; empty and None where it is none."""
    if not isinstance(timestamp, str):
        return "", None
    try:
        moment = datetime.fromisoformat(timestamp)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return "", None
    at_ms = (moment - _EPOCH) // _MILLISECOND
    if not 0 <= at_ms < _LAST_MS:
        return "", None
    if len(timestamp) == 24 and timestamp.endswith("Z"):
        return timestamp, at_ms
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"), at_ms


def milliseconds(timestamp: object) -> int | None:
    """A time in ms since the epoch, or None where it is none."""
    if not isinstance(timestamp, int | float) or isinstance(timestamp, bool):
        return None
    return int(timestamp) if 0 <= timestamp < _LAST_MS else None


def text_of(parsed: Outline) -> str:
    """What a person would read of the line."""
    if not isinstance(parsed, Line):
        return ""
    if parsed.message is not None:
        return _message_text(parsed.message)
    match parsed.type:
        case "model_change":
            return f"model {parsed.provider}/{parsed.model_id}"
        case "thinking_level_change":
            return f"thinking level {parsed.thinking_level}"
        case "usage":
            return f"usage: {parsed.kind}"
        case "custom":
            return parsed.custom_type or ""
    return parsed.summary or parsed.label or parsed.name or _content_text(parsed.content)


def _message_text(message: Message) -> str:
    if message.role == "bashExecution":
        return f"{message.command}\n{message.output}".rstrip("\n")
    text = _content_text(message.content) or message.summary
    if message.error_message:
        text = f"{text}\n{message.error_message}".lstrip("\n")
    return text


def _content_text(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(_block_text, blocks(content))))


def _block_text(block: Block) -> str:
    match block.type:
        case "image":
            return "[image]"
        case "toolCall":
            return pi_tools.summary(block.name, block.arguments)
    return block.text


def blocks(content: Content) -> list[Block]:
    return content if isinstance(content, list) else []
