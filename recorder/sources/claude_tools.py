"""What Claude Code's tool calls and their results say of files.

Only what is certain is said: a content that may not be the file's bytes is worse than none. The agent
hides line endings and encodings: it shows a file with CRLF, and one in UTF-16, as text with LF, and writes
it back in its own way (measured with 2.1.197 and 2.1.332).
"""

from __future__ import annotations

import os
import re

import msgspec

from recorder.sources.base import Call, FileNamed, Return
from recorder.sources.claude_lines import NULL, Block, optional

# fmt: off
READS = frozenset({
    "Read", "Glob", "Grep", "LS", "NotebookRead", "WebFetch", "WebSearch", "TodoRead", "TodoWrite",
    "ToolSearch", "AskUserQuestion", "EnterPlanMode", "ExitPlanMode", "TaskCreate", "TaskGet", "TaskList",
    "TaskUpdate", "TaskOutput", "TaskStop", "BashOutput", "KillShell", "KillBash", "ListMcpResourcesTool",
    "ReadMcpResourceTool", "ReadMcpResourceDirTool", "ReportFindings", "CronList", "PushNotification",
    "ReadNotifications", "SendFeedback",
})
# fmt: on
"""Tools that change no file of the user's. Any other one may do anything."""

AGENTS = frozenset({"Agent", "Task"})
FOREGROUND_AGENTS = (2, 1, 197)
"""The last version known to wait for a child agent unless it is told otherwise."""

BOM = "\ufeff"
_CURLY = re.compile("[\u2018\u2019\u201c\u201d]")
_UNSURE = re.compile("[\r\n'\"\u2018\u2019\u201c\u201d\ufffd]+")
"""What the agent may write otherwise than the model asked: line ends, and quotes to match the file's."""


class Input(msgspec.Struct):
    file_path: str | None = None
    notebook_path: str | None = None
    content: str | None = None
    new_string: str | None = None
    command: str | None = None
    description: str | None = None
    run_in_background: bool | None = None


class Result(msgspec.Struct, rename="camel"):
    """`toolUseResult` of the tools that name files."""

    type: str | None = None
    file_path: str | None = None
    notebook_path: str | None = msgspec.field(default=None, name="notebook_path")
    content: msgspec.Raw = NULL
    original_file: str | None = None
    old_string: str | None = None
    new_string: str | None = None
    replace_all: bool | None = None
    staged: bool | None = None


_input = msgspec.json.Decoder(Input)
_result = msgspec.json.Decoder(Result)
_string = msgspec.json.Decoder(str)


def version_of(text: str | None) -> tuple[int, ...]:
    """`2.1.197` as numbers that compare; empty where it is none."""
    numbers = re.match(r"\d+(\.\d+)*", text or "")
    return tuple(int(number) for number in numbers[0].split(".")) if numbers else ()


def call_of(block: Block, cwd: str | None, version: str | None, at_ns: int | None) -> Call | None:
    """The call of a `tool_use` block; None where it has no id."""
    if block.id is None:
        return None
    tool = block.name or ""
    given = optional(_input, block.input)
    if given is None:
        return Call(block.id, tool, "none" if tool in READS else "any", at_ns=at_ns)
    if tool in AGENTS:
        return Call(block.id, tool, "any", background=_agent_in_background(given, version), at_ns=at_ns)
    files = _files_asked(tool, given, cwd)
    writes = "named" if files else "none" if tool in READS else "any"
    return Call(block.id, tool, writes, files, bool(given.run_in_background), at_ns)


def summary_of(block: Block) -> str:
    """One line that tells a person what was called."""
    given = optional(_input, block.input)
    told = given and (given.command or given.file_path or given.notebook_path or given.description)
    return f"{block.name or 'a tool'}: {told}" if told else block.name or "a tool"


def return_of(block: Block, result: msgspec.Raw, cwd: str | None) -> Return | None:
    """The end of the call that a `tool_result` block names; `result` is the line's `toolUseResult`."""
    if block.tool_use_id is None:
        return None
    failed = bool(block.is_error)
    said = None if failed else optional(_result, result)
    return Return(block.tool_use_id, failed, () if said is None else _files_told(said, cwd))


def resolved(path: str, cwd: str | None) -> bytes | None:
    """The path as the tool takes it: `~` is the user's home, a relative one starts at the session's
    folder. None where it cannot be a file on this machine."""
    if "\0" in path or not path:
        return None
    whole = os.path.expanduser(path) if path[0] == "~" else path
    whole = os.path.normpath(os.path.join(cwd or "", whole))
    return os.fsencode(whole) if whole.startswith("/") else None


def certain(text: str | None) -> bytes | None:
    """The bytes of a file that the agent shows as this text, where there can be no other."""
    if text is None or "\n" in text or "\ufffd" in text or text.startswith(BOM):
        return None
    return text.encode("utf-8")


def _agent_in_background(given: Input, version: str | None) -> bool:
    if given.run_in_background is not None:
        return given.run_in_background
    return version_of(version) > FOREGROUND_AGENTS


def _files_asked(tool: str, given: Input, cwd: str | None) -> tuple[FileNamed, ...]:
    if tool not in ("Write", "Edit", "MultiEdit", "NotebookEdit"):
        return ()
    named = given.notebook_path if tool == "NotebookEdit" else given.file_path
    path = resolved(named, cwd) if named else None
    if path is None:
        return ()
    if tool == "Write":
        return (FileNamed(path, after=_written(given.content)),)
    return (FileNamed(path, fragment=_stands_in(given.new_string) if tool == "Edit" else None),)


def _written(content: str | None) -> bytes | None:
    return None if content is None or "\ufffd" in content else content.encode("utf-8")


def _stands_in(new: str | None) -> bytes | None:
    """The longest piece of the new text that stands in the file whatever its line ends and quotes."""
    piece = max(_UNSURE.split(new or ""), key=len).strip()
    return piece.encode("utf-8") if piece else None


def _files_told(said: Result, cwd: str | None) -> tuple[FileNamed, ...]:
    named = said.file_path or said.notebook_path
    path = resolved(named, cwd) if named else None
    if path is None or said.staged:
        return ()
    if said.type in ("create", "update"):
        return (_write_told(path, said),)
    if said.old_string is not None and said.new_string is not None:
        return (_edit_told(path, said),)
    return (FileNamed(path),) if said.notebook_path else ()


def _write_told(path: bytes, said: Result) -> FileNamed:
    content = optional(_string, said.content)
    if content is not None and content.startswith(BOM):
        content = None
    if said.type == "create":
        return FileNamed(path, absent_before=True, after=_written(content))
    marked = (said.original_file or "").startswith(BOM)
    return FileNamed(path, before=certain(said.original_file), after=None if marked else _written(content))


def _edit_told(path: bytes, said: Result) -> FileNamed:
    old, new = said.old_string or "", said.new_string or ""
    before = certain(said.original_file)
    if not old:
        # A file that was empty and one that was not there look alike.
        return FileNamed(path, after=_written(new) if before == b"" else None)
    count = (said.original_file or "").count(old)
    exact = count >= 1 if said.replace_all else count == 1
    if before is None or not exact or not new or _CURLY.search(old):
        return FileNamed(path, before=before)
    return FileNamed(path, before=before, after=_written((said.original_file or "").replace(old, new)))
