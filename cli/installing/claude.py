"""Into Claude Code go hooks, in its own settings: each runs the hook client (code.claude.com/docs, hooks).

What was in the settings before is kept in the recorder's home, so that taking the hooks out again gives
the very file back; where the file was changed meanwhile, only ours is cut out of it.
"""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec

from cli.hooks import silent_line
from cli.installing import json_text
from cli.installing.base import Change, Where, read
from recorder.errors import Refused
from recorder.sources.claude_hooks import EVENTS
from recorder.sources.claude_tools import READS

TIMEOUT_SECONDS = 20
"""After so long the agent goes on whatever the client does; the client itself goes on much earlier."""
OF_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
OURS = "hook_client.py"
"""By this word in its command a hook is known as ours, of whatever version."""


class _Record(msgspec.Struct):
    """What a settings file was before the hooks went in (base64; None: it was not there), and the digest of
    what it was then."""

    before: str | None
    after: str


class ClaudeInstaller:
    """See `cli.installing.base.Installer`."""

    agent = "claude"

    def install(self, where: Where) -> list[Change]:
        path, root = place(where)
        current = read(path)
        text = _text(path, current)
        if _ours(text) == hooks(where):
            return []
        clean = _without_hooks(text) if _is_there(text) else text
        wanted = _with_hooks(clean, where)
        known = _known(where, path, current)
        before = current if not _is_there(text) else known if known is not _UNKNOWN else clean.encode()
        after = wanted.encode()
        return [_record(where, path, before, after), Change(path, current, after, root)]

    def uninstall(self, where: Where) -> list[Change]:
        path, root = place(where)
        current = read(path)
        text = _text(path, current)
        if not _is_there(text):
            return []
        known = _known(where, path, current)
        after = known if known is not _UNKNOWN else _without_hooks(text).encode()
        file = _record_file(where, path)
        gone = (
            [Change(file, kept, None, where.home, private=True)] if (kept := read(file)) is not None else []
        )
        return [Change(path, current, after, root), *gone]

    def switched_off(self, where: Where) -> bool:
        path, _ = place(where)
        return bool(json_text.parse(_text(path, read(path))).get("disableAllHooks"))

    def advice(self, where: Where) -> list[str]:
        notes = ["Sessions that are open already take the hooks up by themselves."]
        if self.switched_off(where):
            notes.append("But hooks are switched off in these settings (disableAllHooks).")
        return notes


INSTALLER = ClaudeInstaller()

_UNKNOWN = b"\0"


def place(where: Where) -> tuple[Path, Path]:
    """The settings file, and the folder that is there whether or not the recorder is. A project's is the one
    that is not shared: the command line is this machine's."""
    if where.scope == "project":
        return where.folder / ".claude" / "settings.local.json", where.folder
    named = where.environment.get("CLAUDE_CONFIG_DIR")
    folder = Path(named) if named else where.user_home / ".claude"
    return folder / "settings.json", folder.parent


def hooks(where: Where) -> dict[str, dict[str, Any]]:
    """The entry of each event."""
    command = silent_line("claude", where.home, where.budget_ms)
    entry: dict[str, Any] = {"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_SECONDS}]}
    writing = {"matcher": f"^(?!({'|'.join(sorted(READS))})$)", **entry}
    return {event: writing if event in OF_TOOLS else entry for event in EVENTS}


def _with_hooks(text: str, where: Where) -> str:
    wanted, indent = hooks(where), json_text.indent_of(text)
    top = json_text.root(text)
    if "hooks" not in json_text.parse(text):
        whole = {event: [entry] for event, entry in wanted.items()}
        return json_text.add(text, top, f'"hooks": {json_text.written(whole, 1, indent)}', 1, indent)
    for event, entry in wanted.items():
        at = _member(text, top, "hooks")
        known = {item.key: item.value_start for item in json_text.items(text, at)}
        if event in known:
            text = json_text.add(text, known[event], json_text.written(entry, 3, indent), 3, indent)
        else:
            text = json_text.add(text, at, f'"{event}": {json_text.written([entry], 2, indent)}', 2, indent)
    return text


def _without_hooks(text: str) -> str:
    """Ours cut out, and what held nothing but it."""
    at = _member(text, json_text.root(text), "hooks")
    for event in [item.key for item in json_text.items(text, at) if _any_ours(item.value)]:
        text = json_text.remove(text, _member(text, at, event), lambda item: _is_ours(item.value))
    emptied = [item.key for item in json_text.items(text, at) if item.key in EVENTS and item.value == []]
    text = json_text.remove(text, at, lambda item: item.key in emptied)
    if not json_text.items(text, at):
        text = json_text.remove(text, json_text.root(text), lambda item: item.key == "hooks")
    return text


def _member(text: str, start: int, key: str | None) -> int:
    """Where the value of an object's member begins."""
    return next(item.value_start for item in json_text.items(text, start) if item.key == key)


def _ours(text: str) -> dict[str, Any]:
    """The one entry of each event that is ours; None in its place where there are several."""
    entries = json_text.parse(text).get("hooks", {})
    ours = {event: [one for one in found if _is_ours(one)] for event, found in entries.items()}
    return {event: found[0] if len(found) == 1 else None for event, found in ours.items() if found}


def _is_there(text: str) -> bool:
    return bool(_ours(text))


def _any_ours(entries: object) -> bool:
    return isinstance(entries, list) and any(map(_is_ours, entries))


def _is_ours(entry: object) -> bool:
    inner = entry.get("hooks") if isinstance(entry, dict) else None
    commands = (
        [one.get("command") for one in inner if isinstance(one, dict)] if isinstance(inner, list) else []
    )
    return bool(commands) and all(isinstance(one, str) and OURS in one for one in commands)


def _text(path: Path, current: bytes | None) -> str:
    """The settings as text. Raises Refused where hooks cannot be put beside what stands there."""
    try:
        text = "{}\n" if current is None or not current.strip() else current.decode()
        settings = json_text.parse(text)
    except UnicodeDecodeError:
        raise Refused(f"{path} is not text in UTF-8", code="configuration") from None
    except Refused as error:
        raise Refused(f"{path} cannot be changed: {error.message}", code="configuration") from None
    entries = settings.get("hooks", {})
    if not isinstance(entries, dict) or not all(isinstance(one, list) for one in entries.values()):
        raise Refused(f"{path} cannot be changed: “hooks” is not as Claude Code has it", code="configuration")
    return text


def _record_file(where: Where, path: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return where.home / "installed" / f"claude-{name}"


def _record(where: Where, path: Path, before: bytes | None, after: bytes) -> Change:
    kept = None if before is None else base64.b64encode(before).decode()
    content = msgspec.json.encode(_Record(kept, hashlib.sha256(after).hexdigest()))
    file = _record_file(where, path)
    return Change(file, read(file), content, where.home, private=True)


def _known(where: Where, path: Path, current: bytes | None) -> bytes | None:
    """What stood there before the hooks, where the file is still as it was left then; _UNKNOWN else."""
    try:
        record = msgspec.json.decode(read(_record_file(where, path)) or b"", type=_Record)
    except msgspec.MsgspecError:
        return _UNKNOWN
    if current is None or hashlib.sha256(current).hexdigest() != record.after:
        return _UNKNOWN
    return None if record.before is None else base64.b64decode(record.before)
