"""The shape of Claude Code's transcript lines: JSON objects, one a line, typed as far as they are read.

Owns decoding: which keys count, and how a line that is torn, glued or not quite JSON is told from a
record. What a record means is `claude_messages`'. The format is internal to the agent and changes with
its releases, so every other key is skipped unread.
"""

from __future__ import annotations

import json
import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

ZERO_UUID = "00000000-0000-0000-0000-000000000000"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
NULL = msgspec.Raw(b"null")

CHAINED = frozenset({"user", "assistant", "attachment", "system", "progress"})
"""Types of the conversation tree: each line has `uuid` and `parentUuid`."""

# fmt: off
UNCHAINED = frozenset({
    "agent-color", "agent-name", "agent-setting", "ai-title", "api-request", "api-request-blob",
    "api-request-shape", "atis-latch", "attribution-snapshot", "bridge-session", "content-replacement",
    "continued-in", "cost-state", "custom-title", "ended-by-model", "file-history-delta",
    "file-history-snapshot", "fork-context-ref", "frame-link", "history-suppression", "isolation-latch",
    "last-prompt", "memory-mode", "mode", "permission-mode", "pr-link", "queue-operation", "relocated",
    "repl-mode", "replace-by-uuid", "session-owner", "speculation-accept", "summary", "tag", "tools-used",
    "worktree-state",
})
# fmt: on
"""Types of state that the agent keeps beside the conversation."""


class Line(msgspec.Struct, rename="camel"):
    """The keys of any line that are looked at."""

    type: str
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    version: str | None = None
    entrypoint: str | None = None
    agent_id: str | None = None
    subtype: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    prompt_id: str | None = None
    prompt_source: str | None = None
    request_session_id: str | None = None
    source_tool_use_id: str | None = msgspec.field(default=None, name="sourceToolUseID")
    leaf_uuid: str | None = None
    explicit: bool | None = None
    custom_title: str | None = None
    ai_title: str | None = None
    agent_name: str | None = None
    operation: str | None = None
    relocated_cwd: str | None = None
    summary: str | None = None
    origin: msgspec.Raw = NULL
    forked_from: msgspec.Raw = NULL
    message: msgspec.Raw = NULL
    attachment: msgspec.Raw = NULL
    snapshot: msgspec.Raw = NULL
    content: msgspec.Raw = NULL
    compact_metadata: msgspec.Raw = NULL
    tool_use_result: msgspec.Raw = NULL


class Block(msgspec.Struct):
    """One block of a message's content."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = NULL
    tool_use_id: str | None = None
    is_error: bool | None = None
    content: msgspec.Raw = NULL


class Message(msgspec.Struct):
    """`message` of user and assistant lines; `id` is the same on every line of one answer."""

    content: str | list[Block] = ""
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None

    @property
    def blocks(self) -> list[Block]:
        return [Block("text", text=self.content)] if isinstance(self.content, str) else self.content


class _Bare(msgspec.Struct):
    type: str


_line = msgspec.json.Decoder(Line)
_bare = msgspec.json.Decoder(_Bare)
_text = msgspec.json.Decoder(str | list[Block])


class NotARecord(ValueError):
    """The line is no JSON object with a type; the message says what it is."""


class OddRecord(ValueError):
    """The line has a type, which is the message, but a key that is read has an unknown shape."""


def decode(line: bytes) -> Line:
    """The line typed. Raises NotARecord and OddRecord."""
    try:
        return _line.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        repaired = _with_whole_characters(line)
        if repaired is not None:
            return decode(repaired)
        raise _odd(line, error) from None


def optional(decoder: msgspec.json.Decoder[T], raw: msgspec.Raw) -> T | None:
    """What `raw` holds by this decoder, None where it has another shape."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def text_of(raw: msgspec.Raw) -> str:
    """The text of a content that is a string or a list of blocks; empty where it is neither."""
    found = optional(_text, raw)
    if found is None or isinstance(found, str):
        return found or ""
    return "\n".join(block.text for block in found if block.text)


def glued(line: bytes) -> bytes | None:
    """The whole record that was appended to a torn line, None where none is certain.

    2.1.197 appends behind a line that a crash cut off. Inside a record an object can end the line only
    as a nested one, and nested ones have no session and no place in the tree. So only a chained record,
    or an unchained one of a known type with its session, counts.
    """
    for opening in (b'{"parentUuid":', b'{"type":"'):
        at = line.rfind(opening)
        if at > 0 and _is_certain(line[at:]):
            return line[at:]
    return None


def _is_certain(line: bytes) -> bool:
    try:
        found = decode(line)
    except (NotARecord, OddRecord):
        return False
    in_chain = found.type in CHAINED and found.uuid is not None and found.timestamp is not None
    return found.session_id is not None and (in_chain or found.type in UNCHAINED)


def _odd(line: bytes, error: Exception) -> NotARecord | OddRecord:
    if not line.strip():
        return NotARecord("an empty line")
    try:
        return OddRecord(_bare.decode(line).type)
    except msgspec.ValidationError:
        return NotARecord("JSON, but no record with a type")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NotARecord(f"no JSON: {error}")


def _with_whole_characters(line: bytes) -> bytes | None:
    """The line with each half of a surrogate pair, as a text cut inside an emoji ends in, replaced."""
    if rb"\ud" not in line and rb"\uD" not in line:
        return None
    try:
        text = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    return whole if whole != line else None
