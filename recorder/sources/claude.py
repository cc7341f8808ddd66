"""Claude Code (2.1.197 to 2.1.332) as a source: where its transcripts lie, which session each holds, and
how to make a closed session go on from an earlier place.

What the lines say is `recorder.sources.claude_reader`'s, whether a session is open
`recorder.sources.claude_live`'s.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from recorder.sources.base import Closed, Move, Root, Signal
from recorder.sources.claude_hooks import signal
from recorder.sources.claude_lines import (
    CHAINED,
    UNCHAINED,
    UUID,
    Line,
    NotARecord,
    OddRecord,
    decode,
    optional,
)
from recorder.sources.claude_live import closed, config_of
from recorder.sources.claude_reader import ClaudeReader

SLUG_LENGTH = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_NAME = "-".join("?" * length for length in (8, 4, 4, 4, 12))


class ClaudeSource:
    """See `recorder.sources.base.Source`."""

    agent = "claude"
    one_leaf = False
    has_registry = True
    flush_ns = 150_000_000
    """It writes what it has about every 100 ms."""

    def roots(self, environment: Mapping[str, str], home: Path) -> list[Root]:
        """Transcripts and child agents' logs under `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
        named = environment.get("CLAUDE_CONFIG_DIR")
        projects = (Path(named) if named else home / ".claude") / "projects"
        return [Root(projects, f"{_NAME}.jsonl"), Root(projects, "agent-*.jsonl")]

    def claims(self, path: Path, first_line: bytes) -> bool:
        if config_of(path) is not None and (UUID.fullmatch(path.stem) or path.name.startswith("agent-")):
            return path.suffix == ".jsonl"
        line = _decoded(first_line)
        if line is None:
            return False
        if line.type in CHAINED:
            return line.uuid is not None and line.session_id is not None
        if line.type not in UNCHAINED:
            return False
        return line.session_id is not None or line.type in (
            "file-history-snapshot",
            "file-history-delta",
            "summary",
        )

    def reader(self, path: Path) -> ClaudeReader:
        return ClaudeReader(path)

    def session_of(self, path: Path, first_lines: list[bytes]) -> str | None:
        """A transcript is named by its session; a child agent's lines name its parent's."""
        if UUID.fullmatch(path.stem):
            return path.stem
        named = (line.session_id for line in map(_decoded, first_lines) if line is not None)
        return next((session for session in named if session), None)

    def signal(self, payload: bytes, at: int, deadline: int) -> Signal | None:
        return signal(payload, at, deadline)

    def closed(self, log: Path, session: str) -> Closed:
        return closed(log, session)

    def move(self, log: Path, session: str, keep: str | None, prompt: str, cwd: str | None) -> Move:
        """One line, an explicit pointer to the place to go on from; the agent follows it on its next
        resume, in the terminal and with `-p`. Proved with 2.1.197 and 2.1.332 (`tests/agents/claude`),
        also for the place before the first prompt."""
        try:
            with log.open("rb") as lines:
                view = _View(lines, keep, prompt)
        except OSError as error:
            return Move(None, None, f"the transcript {log} cannot be read: {error.strerror}")
        folder = next((path for path in [cwd, *view.folders] if path and slug(path) == log.parent.name), cwd)
        resume = f"claude --resume {session}"
        resume = f"cd {shlex.quote(folder)} && {resume}" if folder else resume
        why = view.obstacle()
        if why is not None:
            return Move(None, None, why)
        copy = f"{resume} --resume-session-at {prompt} --fork-session -p 'YOUR PROMPT'" if prompt else None
        pointer = {"type": "last-prompt", "leafUuid": keep, "explicit": True, "sessionId": session}
        line = msgspec.json.encode(pointer) + b"\n"
        return Move(line if view.ends_whole else b"\n" + line, resume, None, copy)


SOURCE = ClaudeSource()


class _Preserved(msgspec.Struct):
    uuids: list[str] = []


class _Compaction(msgspec.Struct, rename="camel"):
    preserved_messages: _Preserved | None = None


_compaction = msgspec.json.Decoder(_Compaction)


class _View:
    """What a transcript says about going on from one entry of it."""

    def __init__(self, lines: Iterable[bytes], keep: str | None, prompt: str) -> None:
        self.keep = keep
        self.ends_whole = True
        self.folders: dict[str, None] = {}
        self._found = keep is None
        self._forgotten = False
        self._absorbed = False
        for raw in lines:
            self.ends_whole = raw.endswith(b"\n")
            line = _decoded(raw)
            if line is not None:
                self._see(line, prompt)

    def obstacle(self) -> str | None:
        """Why the conversation cannot be made to go on from there, None where it can."""
        if not self._found:
            return f"the entry {self.keep} is not in the transcript"
        if self._absorbed:
            return "the prompt was taken into a running turn, so there is no place of its own to go back to"
        if self._forgotten:
            return (
                "the conversation was compacted since, and Claude Code forgets on resume what stands before "
                "a compaction; give the prompt again in a new session"
            )
        return None

    def _see(self, line: Line, prompt: str) -> None:
        if line.cwd:
            self.folders.setdefault(line.cwd)
        if line.uuid is None:
            return
        if line.uuid == self.keep and not line.is_sidechain:
            self._found = True
        if line.uuid == prompt and line.type == "attachment":
            self._absorbed = True
        if line.subtype == "compact_boundary" and self.keep is not None and self._found:
            self._forgotten = self.keep not in _preserved(line)


def _preserved(line: Line) -> list[str]:
    """What a compaction kept word for word; this the agent still knows after a resume."""
    compaction = optional(_compaction, line.compact_metadata)
    kept = compaction.preserved_messages if compaction is not None else None
    return kept.uuids if kept is not None else []


def _decoded(line: bytes) -> Line | None:
    try:
        return decode(line)
    except (NotARecord, OddRecord):
        return None


def slug(folder: str) -> str:
    """The name of a folder's transcripts: each UTF-16 unit that is no ASCII letter or digit becomes `-`; a
    long one is cut and ends in a hash (31 · h + unit, 32 bits, signed, in base 36)."""
    encoded = folder.encode("utf-16-le", "surrogatepass")
    units = [int.from_bytes(encoded[at : at + 2], "little") for at in range(0, len(encoded), 2)]
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    if len(name) <= SLUG_LENGTH:
        return name
    hashed = 0
    for unit in units:
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return f"{name[:SLUG_LENGTH]}-{_base36(min(hashed, (1 << 32) - hashed))}"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
