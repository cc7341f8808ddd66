"""The lines of a pi session file as records: one reader per file, one record per line.

Which file is a session, and whether it is open, is `recorder.sources.pi`'s.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from recorder.sources import pi_tools
from recorder.sources.base import BadLine, Call, Record, Return
from recorder.sources.pi_format import (
    Header,
    Line,
    Message,
    Outline,
    blocks,
    clock,
    decode,
    header_from,
    milliseconds,
    text_of,
)

_MIGRATED = re.compile(
    rb',"id":"[^"]+","parentId":(?:null|"[^"]+")(?:,"firstKeptEntryId":"[^"]*")?}\s*\Z', re.DOTALL
)
"""How a line of version 1 ends after pi rewrote it: the new keys stand last."""


class _Phase(NamedTuple):
    """Whether a run was under way at an entry, by the entries above it, and since when (ms) that is so."""

    state: str
    at_ms: int | None


_IDLE = _Phase("idle", None)


class PiReader:
    """Reads one session file from its first line on; see `recorder.sources.base.Reader`.

    Version 1 has no ids. Entries then get one made from their place and content, and lines that pi
    migrated in place get the same one again, so that the rewritten file holds the same entries;
    `native` gives back pi's own id.
    """

    def __init__(self) -> None:
        self.header: Header | None = None
        self._place = 0
        self._previous: str | None = None
        self._copying = False
        self._migrating = False
        self._phases: dict[str, _Phase] = {}
        self._called: dict[str, int | None] = {}
        self._made: list[str | None] = []
        self._renamed: dict[str, str] = {}

    def native(self, entry: str) -> str:
        """The id that the file itself has for an entry."""
        return next((own for own, made in self._renamed.items() if made == entry), entry)

    def read(self, line: bytes) -> Record | BadLine:
        try:
            parsed = decode(line)
            if parsed.type == "session" and self.header is None:
                return self._start(line, parsed)
            return self._entry(line, parsed)
        except RecursionError:
            return BadLine("it is nested too deeply")
        except (msgspec.DecodeError, ValueError) as error:
            return BadLine(f"it is no entry of a session: {error}")

    def _start(self, line: bytes, parsed: Outline) -> Record | BadLine:
        header = header_from(line, parsed)
        if header is None:
            return BadLine("it is a session header without an id")
        self.header = header
        self._place, self._made = 1, [None]
        self._copying = header.parent is not None and header.at_ms is not None
        self._migrating = header.migrated
        return Record(
            entry=header.session,
            kind="session",
            raw_type="session",
            time=header.time,
            session=header.session,
            cwd=header.cwd,
            parent_session=header.parent,
            foreign=_foreign(header.cwd),
        )

    def _entry(self, line: bytes, parsed: Outline) -> Record:
        time, at_ms = clock(parsed.timestamp)
        text = text_of(parsed)
        entry, parent, in_tree = self._identity(line, parsed, text)
        common: dict[str, Any] = {
            "entry": entry,
            "parent": parent,
            "in_tree": in_tree,
            "time": time,
            "text": text,
            "copied": self._copied(at_ms),
        }
        phase = self._phases.get(parent, _IDLE) if parent is not None else _IDLE
        record, phase = self._classify(parsed, common, phase, at_ms)
        if in_tree:
            self._phases[entry] = phase
            self._previous = entry
        return record

    def _identity(self, line: bytes, parsed: Outline, text: str) -> tuple[str, str | None, bool]:
        """The entry's id, its parent, and whether it is a node of the tree."""
        place, self._place = self._place, self._place + 1
        own = parsed.id if isinstance(parsed.id, str) else None
        parent = parsed.parent_id if isinstance(parsed.parent_id, str) else None
        first = self.header is not None and self.header.version < 2
        migrated = self._migrating = (
            self._migrating and _MIGRATED.search(line, max(0, len(line) - 512)) is not None
        )
        if first or migrated:
            made = own if first and own is not None else _made_id(place, parsed, text)
            if own is not None:
                self._renamed[own] = made
            self._made.append(made)
            return made, parent if parent in self._phases else self._previous, True
        if own is None:
            return f"line.{place}.{hashlib.sha256(line).hexdigest()[:12]}", parent, False
        return own, self._renamed.get(parent, parent) if parent is not None else None, True

    def _copied(self, at_ms: int | None) -> bool:
        """Copies stand before all that is the fork's own, and are older than the fork's header."""
        header_ms = self.header.at_ms if self.header is not None else None
        if self._copying and at_ms is not None and header_ms is not None and at_ms >= header_ms:
            self._copying = False
        return self._copying

    def _classify(
        self, parsed: Outline, common: dict[str, Any], phase: _Phase, at_ms: int | None
    ) -> tuple[Record, _Phase]:
        if not isinstance(parsed, Line) or not common["in_tree"]:
            return _unknown(parsed.type, common), phase
        if parsed.type != "message":
            return self._plain(parsed, common), phase
        if parsed.message is None:
            return _unknown(parsed.type, common), phase
        return self._message(parsed.message, common, phase, at_ms)

    def _plain(self, line: Line, common: dict[str, Any]) -> Record:
        match line.type:
            case "compaction":
                return Record(
                    kind="compaction", raw_type=line.type, kept_from=self._kept_from(line), **common
                )
            case "branch_summary":
                return Record(kind="summary", raw_type=line.type, **common)
            case "label" if line.target_id is not None:
                target = self._renamed.get(line.target_id, line.target_id)
                return Record(kind="label", raw_type=line.type, label=(target, line.label or None), **common)
            case "session_info":
                return Record(kind="name", raw_type=line.type, name=(line.name or "").strip(), **common)
            case (
                "custom"
                | "custom_message"
                | "model_change"
                | "thinking_level_change"
                | "context_edit"
                | "usage"
            ):
                return Record(kind="note", raw_type=line.type, **common)
        return _unknown(line.type, common)

    def _kept_from(self, line: Line) -> str | None:
        if line.first_kept_entry_id is not None:
            return self._renamed.get(line.first_kept_entry_id, line.first_kept_entry_id)
        index = line.first_kept_entry_index
        return self._made[index] if index is not None and 0 <= index < len(self._made) else None

    def _message(
        self, message: Message, common: dict[str, Any], phase: _Phase, at_ms: int | None
    ) -> tuple[Record, _Phase]:
        raw_type = f"message/{message.role}"
        match message.role:
            case "user":
                how = _how(phase, milliseconds(message.timestamp))
                return Record(kind="prompt", raw_type=raw_type, prompt=how, **common), phase
            case "assistant":
                return self._answer(message, raw_type, common, at_ms)
            case "toolResult":
                return self._result(message, raw_type, common, at_ms)
            case "bashExecution":
                return Record(kind="command", raw_type=raw_type, **common), phase
            case "system":
                return Record(kind="system", raw_type=raw_type, **common), phase
            case "custom" | "hookMessage":
                return Record(kind="note", raw_type=raw_type, **common), phase
            case "branchSummary" | "compactionSummary":
                return Record(kind="summary", raw_type=raw_type, **common), phase
        return _unknown(raw_type, common), phase

    def _answer(
        self, message: Message, raw_type: str, common: dict[str, Any], at_ms: int | None
    ) -> tuple[Record, _Phase]:
        failed = message.stop_reason in ("error", "aborted")
        # pi runs the tools of an answer whatever its stop reason is, but for one that was cut off.
        calls = () if failed else tuple(self._calls(message, at_ms))
        settles = message.stop_reason if failed else None if calls else "done"
        record = Record(
            kind="answer", raw_type=raw_type, step=common["entry"], settles=settles, calls=calls, **common
        )
        return record, _Phase("settled" if settles else "running", at_ms)

    def _calls(self, message: Message, at_ms: int | None) -> Iterator[Call]:
        at_ns = None if at_ms is None else at_ms * 1_000_000
        for block in blocks(message.content):
            if block.type == "toolCall" and block.id:
                self._called[block.id] = at_ns
                yield pi_tools.call(block.id, block.name, block.arguments, self._cwd, at_ns)

    @property
    def _cwd(self) -> str | None:
        return self.header.cwd if self.header is not None else None

    def _result(
        self, message: Message, raw_type: str, common: dict[str, Any], at_ms: int | None
    ) -> tuple[Record, _Phase]:
        ended_ms = milliseconds(message.timestamp)
        ended_ms = at_ms if ended_ms is None else ended_ms
        # The clock is cut to a millisecond: the tool may have ended anywhere in it.
        at_ns = None if ended_ms is None else ended_ms * 1_000_000 + 999_999
        began_ns = self._called.pop(message.tool_call_id, None)
        calls, returns = self._nested(message, began_ns, at_ns)
        if message.tool_call_id:
            returns = (*returns, Return(message.tool_call_id, message.is_error, at_ns=at_ns))
        record = Record(kind="result", raw_type=raw_type, calls=calls, returns=returns, **common)
        return record, _Phase("running", at_ms)

    def _nested(
        self, message: Message, began_ns: int | None, ended_ns: int | None
    ) -> tuple[tuple[Call, ...], tuple[Return, ...]]:
        """The writing calls that the tool itself made. When each of them ran is not in the log, only how
        long: their window is that of the tool. One that is `unfinished` has no end."""
        if message.nested_calls is None:
            return (), ()
        writing = [nested for nested in message.nested_calls.calls if not pi_tools.reads_only(nested.name)]
        calls = tuple(
            pi_tools.call(nested.id, nested.name, nested.arguments, self._cwd, began_ns) for nested in writing
        )
        returns = tuple(
            Return(nested.id, nested.status != "ok", at_ns=ended_ns)
            for nested in writing
            if nested.status != "unfinished"
        )
        return calls, returns


def _how(phase: _Phase, given_ms: int | None) -> str:
    """A prompt that was given before the last thing above it happened had to wait for it: inside a run
    it was steered in, after the run's end it had been queued."""
    if phase.at_ms is None or given_ms is None or given_ms >= phase.at_ms:
        return "typed"
    return "steered" if phase.state == "running" else "queued"


def _unknown(raw_type: str, common: dict[str, Any]) -> Record:
    return Record(kind="unknown", raw_type=raw_type, understood=False, **common)


def _made_id(place: int, parsed: Outline, text: str) -> str:
    content = f"{parsed.type}\0{parsed.timestamp}\0{text}".encode()
    return f"v1.{place}.{hashlib.sha256(content).hexdigest()[:8]}"


def _foreign(cwd: str | None) -> str | None:
    if cwd is None or cwd.startswith("/"):
        return None
    return f"the session's folder {cwd} is not a path of this machine"
