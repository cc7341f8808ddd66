"""Every fact that the event log holds, as frozen, typed structs.

Two kinds of stream: one per agent session (what the agent did, and what kept a prompt from being
captured), one per work tree (captures, rewinds, names given to checkpoints). *Observed* facts carry
the agent's own ids and times; *own* facts are the recorder's. Stored as MessagePack arrays: a field
may only be appended, with a default; any other change is a new version with an upcast in
`migrations/`.
"""

from __future__ import annotations

import hashlib
from typing import ClassVar
from uuid import NAMESPACE_URL, UUID, uuid5

import msgspec

from recorder.states import GitPosition, PathChange, PathNote, PathState

NAMESPACE = uuid5(NAMESPACE_URL, "agent-recorder")


def session_stream(agent: str, session: str) -> UUID:
    """The stream of an agent's session."""
    return uuid5(NAMESPACE, f"session\0{agent}\0{session}")


def tree_stream(path: bytes, device: int, inode: int) -> UUID:
    """The stream of a work tree: its real path and the device and inode of its root."""
    return uuid5(NAMESPACE, f"tree\0{path.hex()}\0{device}\0{inode}")


def checkpoint_id(stream: UUID, entry: str) -> str:
    """The id of the checkpoint of a prompt: `c` and 12 hex digits, the same in every home."""
    return "c" + hashlib.sha256(f"{stream.hex}\0{entry}".encode()).hexdigest()[:12]


class Body(msgspec.Struct, frozen=True, array_like=True):
    """Where a large text lies: keyed digest (hex) in the body store, and its size in bytes."""

    digest: str
    size: int


class NamedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file that a tool call names: absolute path as the tool resolves it (links not followed).

    `before` and `after` are what the agent's log says stood there: a git blob id (hex), `absent`, or
    None where the log does not say. `before_body` holds the content where the log has it in full.
    """

    path: bytes
    before: str | None = None
    after: str | None = None
    before_body: Body | None = None
    fragment: Body | None = None


class Fact(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """`at` is ns since the epoch on this machine's clock: when it happened, as well as is known."""

    schema: ClassVar[int] = 1

    originator_id: UUID
    originator_version: int
    at: int


# ---- the session's stream: observed


class Observed(Fact, frozen=True, array_like=True, kw_only=True):
    """`time` is the agent's own time (ISO 8601 UTC, for display), empty where it gives none."""

    time: str


class SessionStarted(Observed, frozen=True, array_like=True, kw_only=True):
    """Always version 1 of a session's stream. `parent` is what the agent wrote of its origin: a
    session id or a path; `log` the path of the log it was first read from; `live` whether it was
    being followed (not imported)."""

    agent: str
    session: str
    agent_version: str | None
    cwd: str | None
    parent: str | None
    log: bytes
    live: bool


class SessionDescribed(Observed, frozen=True, array_like=True, kw_only=True):
    """Something about the session became known or changed; None means no news."""

    agent_version: str | None = None
    cwd: str | None = None
    name: str | None = None
    log: bytes | None = None
    foreign: str | None = None
    """Why the session's paths are not this machine's, where the log shows it."""


class SessionForked(Observed, frozen=True, array_like=True, kw_only=True):
    """The session began as a copy of another one (the agent's id of it)."""

    parent_session: str


class SessionEnded(Observed, frozen=True, array_like=True, kw_only=True):
    reason: str


class EntryAdded(Observed, frozen=True, array_like=True, kw_only=True):
    """One line of the session's log. `entry` is the agent's id, or one made from the line where it
    has none; `in_tree` whether it is a node of the conversation; `copied` whether it came from the
    session this one was forked from; `understood` is False for a type no source knows."""

    entry: str
    parent: str | None
    kind: str
    raw_type: str
    in_tree: bool
    copied: bool
    understood: bool
    body: Body
    excerpt: str


class PromptGiven(Observed, frozen=True, array_like=True, kw_only=True):
    """`how`: `typed`, `sdk`, `steered`, `queued`, `absorbed` (into a running turn: no node of its own
    to go back to in the conversation). `late` is set where lines of its run were read with it."""

    entry: str
    how: str
    text: Body
    excerpt: str
    copied: bool
    late: bool
    reference_at: int
    """Changes on disk after this moment (ns) may already be the run's."""
    key: str | None = None
    """The agent's other name of the prompt, by which its hooks announce it."""


class PromptAnnounced(Observed, frozen=True, array_like=True, kw_only=True):
    """A hook told that a prompt is given, before anything is done for it; its line of the log comes
    later, or never. `how` as in PromptGiven."""

    key: str
    how: str
    text: Body
    excerpt: str


class PromptBound(Observed, frozen=True, array_like=True, kw_only=True):
    """An announced prompt got its place in the conversation."""

    key: str
    entry: str


class RunStarted(Observed, frozen=True, array_like=True, kw_only=True):
    run: str
    """The entry id of the prompt that started it."""


class RunSettled(Observed, frozen=True, array_like=True, kw_only=True):
    """`outcome`: `done`, `error`, `aborted`, `interrupted`."""

    run: str
    entry: str
    outcome: str


class StepStarted(Observed, frozen=True, array_like=True, kw_only=True):
    """A step is one answer of the model with the tools that it calls."""

    run: str
    step: str


class StepEnded(Observed, frozen=True, array_like=True, kw_only=True):
    run: str
    step: str


class ToolCalled(Observed, frozen=True, array_like=True, kw_only=True):
    """`writes`: `named` (only the files it names), `any` (a shell, a child agent, an unknown tool),
    `none`. `at` opens the tool's window."""

    run: str
    step: str
    call: str
    tool: str
    writes: str
    files: tuple[NamedFile, ...]
    background: bool
    witness: str = "log"
    """Who told: `log` or `hook`. Both may tell of one call: the hook's times are exact."""


class ToolReturned(Observed, frozen=True, array_like=True, kw_only=True):
    """`at` closes the tool's window. `files` holds what the result says of them."""

    run: str
    call: str
    failed: bool
    files: tuple[NamedFile, ...]
    witness: str = "log"


class BranchLeft(Observed, frozen=True, array_like=True, kw_only=True):
    """The conversation went on from `to`, leaving `leaf` on a branch of its own."""

    leaf: str
    to: str | None


class Compacted(Observed, frozen=True, array_like=True, kw_only=True):
    entry: str
    kept_from: str | None


class LabelSet(Observed, frozen=True, array_like=True, kw_only=True):
    entry: str
    label: str | None


class LeafSet(Observed, frozen=True, array_like=True, kw_only=True):
    """The log itself says where the conversation goes on."""

    entry: str | None


class LineUnread(Observed, frozen=True, array_like=True, kw_only=True):
    """A line that is no record: kept as it is, and counted."""

    line: str
    """An id made from the bytes of the line and where it stands."""
    why: str
    body: Body


class CaptureRefused(Fact, frozen=True, array_like=True, kw_only=True):
    """Own. A prompt's files cannot be captured at all: the folder is gone, foreign, or unreadable."""

    entry: str
    why: str


# ---- the work tree's stream: own


class TreeOpened(Fact, frozen=True, array_like=True, kw_only=True):
    """Always version 1 of a work tree's stream. `kind`: `repository`, `folder`, `per-file`."""

    path: bytes
    device: int
    inode: int
    kind: str
    why: str | None


class Captured(Fact, frozen=True, array_like=True, kw_only=True):
    """A capture of the work tree. `at` is when it ended.

    `moment`: `start`, `prompt`, `settled`, `call` (before a tool that may write; `entry` is the run),
    `step` (its tools have returned; `entry` is the step's id), `safety` (before a rewind), `rewound`
    (after one).
    `source`: `hook`, `watch`, `log`. `delta` is against the capture before it in this stream.
    `unknown` names every path that should have been read and was not; `skipped` counts what policy
    left out (the list is in the store's manifest).
    """

    capture: str
    moment: str
    source: str
    session: UUID | None
    entry: str | None
    operation: str | None
    began_at: int
    commit: str
    delta: tuple[PathChange, ...]
    unknown: tuple[PathNote, ...]
    skipped: int
    files: int
    git: GitPosition | None
    late: bool
    announced: str | None = None
    """The key of the announced prompt that this is the state from before of, where its entry id is not
    known yet."""


class CaptureFailed(Fact, frozen=True, array_like=True, kw_only=True):
    """Nothing usable came of it: the checkpoint is lost."""

    capture: str
    moment: str
    session: UUID | None
    entry: str | None
    why: str


class FileStep(msgspec.Struct, frozen=True, array_like=True):
    """One path of a rewind: what stands there now and what is to stand there."""

    path: bytes
    before: PathState
    after: PathState


class RewindPlanned(Fact, frozen=True, array_like=True, kw_only=True):
    """Durable before the first write. `verb`: `rewind`, `undo`, `redo`, `revert`, `undo-rewind`,
    `redo-rewind`. `takes_back` and `puts_on` are ids of changes (`<capture>:<index>`). `inverts` is
    the operation that an undo-rewind or redo-rewind takes back. `safety` is the capture that holds
    the bytes of every `before`. `private` is the token in the private names that the apply uses."""

    operation: str
    verb: str
    session: UUID
    checkpoint: str | None
    safety: str
    private: str
    steps: tuple[FileStep, ...]
    takes_back: tuple[str, ...]
    puts_on: tuple[str, ...]
    inverts: str | None
    position_before: str | None
    """Where the session stood: a checkpoint id, or None for the leaf."""
    position_after: str | None
    leaf_before: str | None
    leaf_after: str | None
    line: bytes = b""
    """What is appended to the agent's log when the files are done, to move the conversation from
    `leaf_before` to `leaf_after`; empty where it stays."""


class RewindApplied(Fact, frozen=True, array_like=True, kw_only=True):
    """`left` names paths of the plan that were left as they are (conflicts skipped), with the reason;
    `conversation` is the status told to the user."""

    operation: str
    left: tuple[PathNote, ...]
    conversation: str


class RewindFailed(Fact, frozen=True, array_like=True, kw_only=True):
    """`unrecovered` is empty when everything is as before."""

    operation: str
    why: str
    unrecovered: tuple[PathNote, ...]


class CheckpointPinned(Fact, frozen=True, array_like=True, kw_only=True):
    checkpoint: str
    pinned: bool


class CheckpointLabelled(Fact, frozen=True, array_like=True, kw_only=True):
    checkpoint: str
    label: str | None


class CheckpointRetired(Fact, frozen=True, array_like=True, kw_only=True):
    """The capture's files are let go; the record stays."""

    checkpoint: str
    capture: str
    reason: str


class CaptureLost(Fact, frozen=True, array_like=True, kw_only=True):
    """The store has lost contents of a capture for good. `commit` is another one that holds what is left of
    it, in which the lost paths, `unknown`, are so; empty where nothing is left, and the checkpoints of the
    capture are lost with it."""

    capture: str
    commit: str
    why: str
    unknown: tuple[PathNote, ...]


class Unread(Fact, frozen=True, array_like=True, kw_only=True):
    """A stored fact of a type that this version does not know: kept, shown, never interpreted."""

    topic: str
    state: bytes


FACTS: tuple[type[Fact], ...] = (
    SessionStarted,
    SessionDescribed,
    SessionForked,
    SessionEnded,
    EntryAdded,
    PromptGiven,
    PromptAnnounced,
    PromptBound,
    RunStarted,
    RunSettled,
    StepStarted,
    StepEnded,
    ToolCalled,
    ToolReturned,
    BranchLeft,
    Compacted,
    LabelSet,
    LeafSet,
    LineUnread,
    CaptureRefused,
    TreeOpened,
    Captured,
    CaptureFailed,
    RewindPlanned,
    RewindApplied,
    RewindFailed,
    CheckpointPinned,
    CheckpointLabelled,
    CheckpointRetired,
    CaptureLost,
)
"""Every stored type. The stored topic is the class name and its schema version: `PromptGiven.1`."""
