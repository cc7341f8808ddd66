"""What a source is: one agent's rules for where its logs lie and what a line of them says.

A source turns lines into *records*, which are the same for every agent; `recorder.reading.ingest` turns
records into facts. A source keeps no state beyond one log file's reader, writes nothing, and never
raises on a bad line: it answers with a record that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec


class FileNamed(msgspec.Struct, frozen=True):
    """A file that a tool call or its result names.

    `path` is as the tool resolves it: absolute (against the session's folder), `~`, a leading `@`,
    `file://` and Unicode spaces resolved as the agent does it, links not followed. `before` and
    `after` are its whole content where the log has it, `absent_before` that it did not exist;
    `fragment` is text that must stand in it afterwards.
    """

    path: bytes
    before: bytes | None = None
    absent_before: bool = False
    after: bytes | None = None
    fragment: bytes | None = None


class Call(msgspec.Struct, frozen=True):
    """A tool call. `writes`: `named` (changes only the files it names), `any` (a shell, a child agent,
    a tool nobody knows), `none` (reads only)."""

    call: str
    tool: str
    writes: str
    files: tuple[FileNamed, ...] = ()
    background: bool = False
    at_ns: int | None = None
    """When it began, by the agent's clock, where that differs from the record's time."""


class Return(msgspec.Struct, frozen=True):
    """The end of a tool call; `at_ns` as in Call."""

    call: str
    failed: bool = False
    files: tuple[FileNamed, ...] = ()
    at_ns: int | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What one line of a log says.

    `entry` is the agent's id of the line, or one made from its bytes where it has none (the same
    line read again gives the same id). `kind` is one of `session` (the header), `prompt`, `answer`,
    `result`, `command` (a person's own shell command), `compaction`, `summary`, `label`, `name`,
    `leaf`, `note` (extension and harness entries), `system`, `unknown`. `text` is what a person
    would read of it. `settles` is set on the line that ends a run: `done`, `error`, `aborted` or
    `interrupted`. `logical_parent` is where the conversation goes on from when `parent` was cut by a
    compaction. `time` is ISO 8601 UTC with `Z`, empty where the line has none.
    """

    entry: str
    kind: str
    raw_type: str
    time: str = ""
    parent: str | None = None
    logical_parent: str | None = None
    in_tree: bool = False
    copied: bool = False
    understood: bool = True
    text: str = ""

    session: str | None = None
    """The session the line belongs to, where the line says it (a log holds one session)."""
    agent_version: str | None = None
    cwd: str | None = None
    parent_session: str | None = None
    name: str | None = None
    foreign: str | None = None

    prompt: str | None = None
    """How a prompt was given: `typed`, `sdk`, `steered`, `queued`, `absorbed`."""
    key: str | None = None
    """The prompt's other name, by which the agent's hooks announce it."""
    step: str | None = None
    """The id of the model's answer that this line is a part of (several lines may share one)."""
    settles: str | None = None
    calls: tuple[Call, ...] = ()
    returns: tuple[Return, ...] = ()
    within: str | None = None
    """The tool call whose child agent wrote this line: its work belongs to the run of that call."""
    label: tuple[str, str | None] | None = None
    leaf: tuple[str | None] | None = None
    """An explicit pointer to where the conversation goes on."""
    kept_from: str | None = None
    ends_session: str | None = None


class Signal(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook call or an agent's extension tells at the moment it happens.

    `kind`: `start`, `prompt`, `bound` (a prompt got its entry id), `call`, `return`, `step` (a step
    ended), `settled`, `end`, `moved` (the conversation went elsewhere), `other`. `key` is unique in the
    session: the same signal told twice has the same one. `at` is when the hook began, `deadline` when
    the agent stops waiting (ns); `waits` tells whether it waits for the capture that this asks for.
    """

    kind: str
    session: str
    key: str
    at: int
    deadline: int
    waits: bool = False
    log: Path | None = None
    cwd: str | None = None
    agent_version: str | None = None
    prompt: str | None = None
    """The agent's key of the prompt that this belongs to."""
    text: str = ""
    how: str = ""
    """As Record.prompt; empty for what nobody gave."""
    entry: str | None = None
    call: Call | None = None
    returned: Return | None = None
    within: str | None = None
    outcome: str = ""


class BadLine(msgspec.Struct, frozen=True):
    """A line that is no record of this agent's log at all, and why."""

    why: str


class Reader(Protocol):
    """Reads one log file from its first line on; lines come in order and without their newline."""

    def read(self, line: bytes) -> Record | BadLine: ...


class Root(msgspec.Struct, frozen=True):
    """A folder where an agent's logs may appear. It need not exist yet."""

    folder: Path
    pattern: str
    """A glob below it, as `Path.rglob` takes it."""


class Closed(msgspec.Struct, frozen=True):
    """Whether a session is open in a live agent. `state`: `closed` (proved), `open`, `unknown`."""

    state: str
    why: str
    busy: bool | None = None
    """Whether a run is under way in it, by the agent's own registry; None where that does not tell."""


class Move(msgspec.Struct, frozen=True):
    """How a conversation can be brought to go on from an entry. `line` is what must be appended to the
    log, complete with its newline, where that is possible in place; `resume` the command that goes
    on from there then; `why` the reason where it is not possible in place. `copy` is a command that goes
    on from there in a session of its own, also while this one is open, where the agent has one."""

    line: bytes | None
    resume: str | None
    why: str | None
    copy: str | None = None


class Source(Protocol):
    """One agent. `flush_ns` is how long a line may lie in the agent's memory before it is written.

    `one_leaf` tells that the agent adds every entry at the conversation's one leaf, so that an entry
    with another parent has left a branch. Where it is False (parallel tools fork the tree) only a
    prompt's ancestry tells. `has_registry` tells that the agent keeps a list of its live sessions, so
    that `closed` can say of any session whether it is busy.
    """

    agent: str
    flush_ns: int
    one_leaf: bool
    has_registry: bool

    def roots(self, environment: Mapping[str, str], home: Path) -> list[Root]:
        """The folders of this agent's logs by its own rules; `home` is the user's home folder."""
        ...

    def claims(self, path: Path, first_line: bytes) -> bool:
        """Whether a file with this first complete line is a session log of this agent."""
        ...

    def reader(self, path: Path) -> Reader:
        """A reader for one file from its start."""
        ...

    def session_of(self, path: Path, first_lines: list[bytes]) -> str | None:
        """The id of the session that a log holds, from its name and first lines."""
        ...

    def signal(self, payload: bytes, at: int, deadline: int) -> Signal | None:
        """What a hook's payload tells; None where that is nothing. May be called from any thread."""
        ...

    def closed(self, log: Path, session: str) -> Closed:
        """Whether the session is open in a live agent right now."""
        ...

    def move(self, log: Path, session: str, keep: str | None, prompt: str, cwd: str | None) -> Move:
        """How to make the conversation go on after entry `keep` (None: from its start), just before
        the prompt with id `prompt`. Reads the log; writes nothing."""
        ...
