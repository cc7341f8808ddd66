"""What one chained line of a Claude Code transcript means by itself: prompts and everything else that
stands in the user's name, answers, attachments, system lines.

Pure functions of the line; what needs the lines before it is `claude_reader`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import msgspec

from recorder.sources.base import Call, Return
from recorder.sources.claude_lines import Block, Line, Message, optional, text_of
from recorder.sources.claude_tools import call_of, return_of, summary_of

ENDS = {
    "end_turn": "done",
    "stop_sequence": "done",
    "max_tokens": "done",
    "refusal": "error",
    "model_context_window_exceeded": "error",
}
"""What a run came to, by the stop reason of the message that ends it."""

SOURCES = {"typed": "typed", "suggestion_accepted": "typed", "queued": "queued", "sdk": "sdk"}
"""How a prompt was given, by its `promptSource`; `system` ones are the harness's."""

INTERRUPTED = "[Request interrupted by user"
HARNESS = (
    "<command-",
    "<local-command-",
    "<bash-",
    "<task-notification>",
    "<system-reminder>",
    INTERRUPTED,
)
"""How texts begin that the harness writes in the user's name."""

_BESIDE = ("<system-reminder>", "<ide_")
"""How whole blocks begin that the harness or an editor puts beside a prompt."""
_BASH = re.compile(r"<bash-input>(.*?)(?:</bash-input>|$)", re.DOTALL)
_COMMAND = re.compile(r"<command-name>(/[^<]*)</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


class Said(msgspec.Struct):
    """The part of a Record that the line alone decides."""

    kind: str
    text: str = ""
    detail: str = ""
    """Its kind within its type, by the agent's own name."""
    prompt: str | None = None
    step: str | None = None
    settles: str | None = None
    calls: tuple[Call, ...] = ()
    returns: tuple[Return, ...] = ()
    kept_from: str | None = None
    foreign: str | None = None
    understood: bool = True


class _Attachment(msgspec.Struct, rename="camel"):
    type: str
    prompt: msgspec.Raw = msgspec.Raw(b"null")
    command_mode: str | None = None
    human_turn: bool | None = None
    origin: msgspec.Raw = msgspec.Raw(b"null")
    url: str | None = None
    filename: str | None = None


class _Origin(msgspec.Struct):
    kind: str | None = None


class _Segment(msgspec.Struct, rename="camel"):
    head_uuid: str | None = None


class _Compaction(msgspec.Struct, rename="camel"):
    preserved_segment: _Segment | None = None


_message = msgspec.json.Decoder(Message)
_attachment = msgspec.json.Decoder(_Attachment)
_origin = msgspec.json.Decoder(_Origin)
_compaction = msgspec.json.Decoder(_Compaction)


def said(line: Line) -> Said:
    """What a line with a `uuid` means."""
    meaning = _MEANINGS.get(line.type)
    return Said("unknown", understood=False) if meaning is None else meaning(line)


def nanoseconds(time: str | None) -> int | None:
    """A line's timestamp in ns since the epoch; None where it is none."""
    try:
        moment = datetime.fromisoformat(time or "")
        return round(moment.timestamp() * 1000) * 1_000_000 if moment.tzinfo else None
    except (ValueError, OverflowError, OSError):
        return None


def _user(line: Line) -> Said:
    message = optional(_message, line.message)
    if message is None:
        return Said("unknown", understood=False)
    blocks = message.blocks
    if any(block.type == "tool_result" for block in blocks):
        return _result(line, blocks)
    text = _prompt_text(blocks)
    if line.is_compact_summary:
        return Said("summary", text)
    if line.is_meta or _from_harness(line):
        return Said("note", text)
    if line.prompt_source in SOURCES:
        return Said("prompt", text, prompt=SOURCES[line.prompt_source])
    how = "sdk" if (line.entrypoint or "").startswith("sdk") else "typed"
    if not text.startswith(HARNESS):
        return Said("prompt", text, prompt=how)
    return _synthetic(line, text, how)


def _synthetic(line: Line, text: str, how: str) -> Said:
    if text.startswith(INTERRUPTED):
        return Said("note", text, settles="interrupted")
    shell = _BASH.match(text)
    if shell is not None:
        return Said("command", shell[1])
    command = _COMMAND.search(text)
    if text.startswith("<command-message>") and command is not None and line.source_tool_use_id is None:
        # A command whose text goes to the model; one that the harness runs itself (/compact, /clear) begins
        # with its name.
        arguments = _ARGUMENTS.search(text)
        return Said("prompt", f"{command[1]} {arguments[1] if arguments else ''}".strip(), prompt=how)
    return Said("note", text)


def _result(line: Line, blocks: list[Block]) -> Said:
    returns = (
        return_of(block, line.tool_use_result, line.cwd) for block in blocks if block.type == "tool_result"
    )
    texts = [text_of(block.content) for block in blocks]
    found = tuple(returned for returned in returns if returned is not None)
    return Said("result", "\n".join(filter(None, texts)), returns=found)


def _prompt_text(blocks: list[Block]) -> str:
    texts = [block.text for block in blocks if block.type == "text" and block.text]
    own = [text for text in texts if not text.startswith(_BESIDE)]
    pictures = ["[image]" for block in blocks if block.type == "image"]
    return "\n".join([*(own or texts), *pictures])


def _from_harness(line: Line) -> bool:
    return line.prompt_source == "system" or _kind_of(line.origin) == "task-notification"


def _kind_of(origin: msgspec.Raw) -> str | None:
    found = optional(_origin, origin)
    return None if found is None else found.kind


def _assistant(line: Line) -> Said:
    message = optional(_message, line.message)
    if message is None:
        return Said("unknown", understood=False)
    blocks = message.blocks
    at = nanoseconds(line.timestamp)
    calls = (call_of(block, line.cwd, line.version, at) for block in blocks if block.type == "tool_use")
    return Said(
        "answer",
        "\n".join(filter(None, map(_block_text, blocks))),
        step=message.id,
        settles=_end(line, message, blocks),
        calls=tuple(call for call in calls if call is not None),
    )


def _block_text(block: Block) -> str:
    if block.type == "tool_use":
        return summary_of(block)
    return block.text or block.thinking or ""


def _end(line: Line, message: Message, blocks: list[Block]) -> str | None:
    """Each block has its own line, and all of them the message's stop reason; text comes last. A line that
    follows after all goes on with the run."""
    if line.is_api_error_message:
        return "error"
    if message.model == "<synthetic>" or not blocks or blocks[-1].type != "text":
        return None
    return ENDS.get(message.stop_reason or "")


def _attached(line: Line) -> Said:
    attachment = optional(_attachment, line.attachment)
    if attachment is None:
        return Said("unknown", understood=False)
    kind = attachment.type
    if kind == "queued_command" and _from_person(attachment):
        return Said("prompt", text_of(attachment.prompt), kind, prompt="absorbed")
    text = text_of(attachment.prompt) or attachment.filename or kind
    if kind == "remote_session_change" and attachment.url:
        return Said("note", text, kind, foreign=f"the session runs remotely ({attachment.url})")
    return Said("note", text, kind)


def _from_person(queued: _Attachment) -> bool:
    if queued.human_turn is not None:
        return queued.human_turn
    text = text_of(queued.prompt)
    ours = queued.command_mode in (None, "prompt") and _kind_of(queued.origin) != "task-notification"
    return ours and not text.startswith(HARNESS)


def _system(line: Line) -> Said:
    kind = line.subtype or ""
    text = text_of(line.content) or kind
    if kind == "compact_boundary":
        compaction = optional(_compaction, line.compact_metadata)
        segment = compaction and compaction.preserved_segment
        return Said("compaction", text, kind, kept_from=segment.head_uuid if segment else None)
    return Said("system", text, kind, settles="done" if kind == "turn_duration" else None)


def _progress(line: Line) -> Said:
    return Said("note", "progress")


_MEANINGS: dict[str, Callable[[Line], Said]] = {
    "user": _user,
    "assistant": _assistant,
    "attachment": _attached,
    "system": _system,
    "progress": _progress,
}
