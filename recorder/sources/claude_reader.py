"""Reads one Claude Code transcript line by line (2.1.197 to 2.1.332; older ones as far as they agree).

Keeps what a line needs to know of the lines before it in the same file, and nothing else. Parents are
reported as they stand: parallel tool calls make siblings, and only a prompt whose ancestors miss the
last prompt tells of a rewind.
"""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

from recorder.sources.base import BadLine, Record
from recorder.sources.claude_lines import (
    UNCHAINED,
    ZERO_UUID,
    Line,
    NotARecord,
    OddRecord,
    decode,
    glued,
    optional,
    text_of,
)
from recorder.sources.claude_messages import nanoseconds, said

SNAPSHOT_LAG_NS = 1_000_000_000
"""How long after a prompt's time the agent takes the checkpoint that it writes before the prompt."""

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class _ForkedFrom(msgspec.Struct, rename="camel"):
    session_id: str | None = None


class _Snapshot(msgspec.Struct, rename="camel"):
    message_id: str | None = None
    timestamp: str | None = None


class _Meta(msgspec.Struct, rename="camel"):
    """`agent-<id>.meta.json` beside a child agent's log: the call that started it."""

    tool_use_id: str | None = None


_forked_from = msgspec.json.Decoder(_ForkedFrom)
_snapshot = msgspec.json.Decoder(_Snapshot)
_meta = msgspec.json.Decoder(_Meta)


class ClaudeReader:
    """The state of one file's reading; see `recorder.sources.base.Reader`."""

    def __init__(self, path: Path) -> None:
        self._meta = path.with_suffix(".meta.json") if path.name.startswith("agent-") else None
        self._call: str | None = None
        self._chained = ""
        self._titled = False
        self._born = Born()

    def read(self, line: bytes) -> Record | BadLine:
        try:
            return self._record(decode(line), line)
        except OddRecord as odd:
            return Record(entry=self._made_id(line), kind="unknown", raw_type=str(odd), understood=False)
        except NotARecord as bad:
            rest = glued(line)
            return BadLine(str(bad)) if rest is None else self._after_torn(rest)

    def _after_torn(self, rest: bytes) -> Record:
        """It counts as not understood, for the record before it is lost."""
        record = self._record(decode(rest), rest)
        return msgspec.structs.replace(record, raw_type=f"torn+{record.raw_type}", understood=False)

    def _record(self, line: Line, raw: bytes) -> Record:
        if line.uuid is None:
            self._born.see(line)
            return self._unchained(line, raw)
        meaning = said(line)
        child = bool(line.is_sidechain)
        copied, origin = self._born.copied(line)
        if not child:
            self._chained = line.uuid
        return Record(
            entry=line.uuid,
            kind="note" if child and meaning.prompt else meaning.kind,
            raw_type=f"{line.type}/{meaning.detail}" if meaning.detail else line.type,
            time=line.timestamp or "",
            parent=line.parent_uuid,
            logical_parent=line.logical_parent_uuid,
            in_tree=not child,
            copied=copied,
            understood=meaning.understood,
            text=meaning.text,
            session=line.session_id,
            agent_version=line.version,
            cwd=line.cwd,
            parent_session=origin,
            foreign=meaning.foreign or _foreign(line),
            prompt=None if child else meaning.prompt,
            key=None if child or meaning.prompt is None else line.prompt_id,
            step=meaning.step,
            settles=None if child else meaning.settles,
            calls=meaning.calls,
            returns=meaning.returns,
            within=self._within(line) if child else None,
            kept_from=meaning.kept_from,
        )

    def _unchained(self, line: Line, raw: bytes) -> Record:
        known = line.type in UNCHAINED
        leaf = _leaf(line)
        name = self._name(line)
        kind = "name" if name is not None else "leaf" if leaf is not None else "note"
        entry = self._made_id(raw)
        if leaf is not None:
            # To and fro and to again are three moves, though the first and the last line are alike.
            self._chained = entry
        return Record(
            entry=entry,
            kind=kind if known else "unknown",
            raw_type=line.type,
            time=line.timestamp or "",
            understood=known,
            text=name or line.summary or text_of(line.content) or line.operation or "",
            session=line.session_id,
            cwd=line.relocated_cwd,
            name=name,
            leaf=leaf,
        )

    def _made_id(self, line: bytes) -> str:
        """The same for the same line at the same place of the conversation."""
        digest = hashlib.blake2b(line, digest_size=8, key=self._chained.encode()[:64])
        return f"~{digest.hexdigest()}"

    def _name(self, line: Line) -> str | None:
        """A title that a person gave is not replaced by one that the model made up."""
        given = line.custom_title or line.agent_name
        if given:
            self._titled = True
            return given
        return None if self._titled else line.ai_title

    def _within(self, line: Line) -> str:
        """The call that started the child agent; while nothing names it, the agent's own id."""
        if self._call is None and self._meta is not None:
            try:
                found = optional(_meta, msgspec.Raw(self._meta.read_bytes()))
            except OSError:
                found = None
            self._call = None if found is None else found.tool_use_id
        return self._call or line.agent_id or "sidechain"


class Born:
    """Tells the lines that a fork took over from the session before it.

    `/branch` marks each of them. `--fork-session` marks only answers, and not in 2.1.197; but it writes
    them behind a line of its own first prompt: the prompt's entry in the queue (headless), or the
    checkpoint made for it (interactive).
    """

    def __init__(self) -> None:
        self._since: int | None = None
        self._first: str | None = None
        self._begun = False

    def see(self, line: Line) -> None:
        if self._begun:
            return
        if line.type == "queue-operation":
            self._is_since(nanoseconds(line.timestamp), None)
        elif line.type == "file-history-snapshot":
            snapshot = optional(_snapshot, line.snapshot)
            taken = nanoseconds(snapshot.timestamp) if snapshot else None
            if snapshot is not None and taken is not None:
                self._is_since(taken - SNAPSHOT_LAG_NS, snapshot.message_id)

    def copied(self, line: Line) -> tuple[bool, str | None]:
        """Whether the line was taken over, and from which session as far as it says so."""
        self._begun = True
        if line.uuid == self._first:
            self._since = None
        forked = optional(_forked_from, line.forked_from)
        if forked is not None and forked.session_id:
            return True, forked.session_id
        if line.request_session_id not in (None, line.session_id):
            return True, line.request_session_id
        time = nanoseconds(line.timestamp) if self._since is not None else None
        return self._since is not None and time is not None and time < self._since, None

    def _is_since(self, time: int | None, first: str | None) -> None:
        if time is not None and (self._since is None or time >= self._since):
            self._since, self._first = time, first


def _leaf(line: Line) -> tuple[str | None] | None:
    """An explicit pointer: a line's id, or null for the place before the first one. The zero id takes an
    earlier pointer back."""
    if line.type != "last-prompt" or not line.explicit or line.leaf_uuid == ZERO_UUID:
        return None
    return (line.leaf_uuid,)


def _foreign(line: Line) -> str | None:
    if (line.entrypoint or "").startswith("remote"):
        return f"the session runs remotely (entrypoint {line.entrypoint})"
    if os.name == "posix" and line.cwd and _WINDOWS.match(line.cwd):
        return f"the session's folder is on Windows: {line.cwd}"
    return None
