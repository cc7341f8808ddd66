"""What the frozen store `v1/` holds: its bodies and, in log order, at least one fact of every type.

Frozen with the store: this file changes only together with it, by `write_v1`, and never after the
release of version 1. A struct that later gains a field with a default still equals what stands here.
"""

from __future__ import annotations

from itertools import count
from uuid import UUID

from recorder.eventlog.bodies import body_of
from recorder.events import (
    BranchLeft,
    Captured,
    CaptureFailed,
    CaptureLost,
    CaptureRefused,
    CheckpointLabelled,
    CheckpointPinned,
    CheckpointRetired,
    Compacted,
    EntryAdded,
    Fact,
    FileStep,
    LabelSet,
    LeafSet,
    LineUnread,
    NamedFile,
    PromptAnnounced,
    PromptBound,
    PromptGiven,
    RewindApplied,
    RewindFailed,
    RewindPlanned,
    RunSettled,
    RunStarted,
    SessionDescribed,
    SessionEnded,
    SessionForked,
    SessionStarted,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolReturned,
    TreeOpened,
)
from recorder.log import Reached
from recorder.states import ABSENT, SKIPPED, UNKNOWN, GitPosition, PathChange, PathNote, PathState

SECRET = bytes(range(32))

SESSION = UUID("5e551000-0000-5000-8000-000000000001")
TREE = UUID("7bee0000-0000-5000-8000-000000000001")

PROMPT = "Add a line to the notes, please. ¿Sí?".encode()
LINE = b'{"type":"message","text":"' + b"a long answer, " * 40 + b'"}'
TORN = b'{"type":"mess\xff\x00'

BODIES = tuple((body_of(SECRET, content), content) for content in (PROMPT, LINE, TORN))
_PROMPT, _LINE, _TORN = (body for body, _ in BODIES)

REACHED = (
    Reached("dev:8:1 ino:42 #1", 4_096, b"/home/ana/.agent/sessions/one.jsonl", b"the last bytes\n"),
    Reached("dev:8:1 ino:43 #1", 77, b"/home/ana/.agent/sessions/two \xff.jsonl", b"\n"),
)

_AT = 1_790_000_000_000_000_000
_TIME = "2026-09-21T14:13:20.000Z"
_OID = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_FILE = PathState("file", 0o644, _OID)
_CHANGES = (
    PathChange(b"notes.txt", ABSENT, _FILE, changed_at=_AT),
    PathChange(b"run \xff.sh", _FILE, PathState("file", 0o4755, _OID), changed_at=_AT, by_git=True),
    PathChange(b"link", SKIPPED, PathState("link", 0, _OID)),
    PathChange(b"folder", PathState("dir", 0o700), UNKNOWN),
)
_NOTES = (PathNote(b"private", "permission denied"),)
_NAMED = NamedFile(b"/home/ana/project/notes.txt", "absent", _OID, _PROMPT, _LINE)


_session_versions = count(1)
_tree_versions = count(1)


def _session() -> dict[str, object]:
    version = next(_session_versions)
    return {"originator_id": SESSION, "originator_version": version, "at": _AT + version, "time": _TIME}


def _own() -> dict[str, object]:
    version = next(_session_versions)
    return {"originator_id": SESSION, "originator_version": version, "at": _AT + version}


def _tree() -> dict[str, object]:
    version = next(_tree_versions)
    return {"originator_id": TREE, "originator_version": version, "at": _AT + 1_000 + version}


FACTS: tuple[Fact, ...] = (
    SessionStarted(
        **_session(),
        agent="pi",
        session="0b5e7c1e",
        agent_version="1.6.0",
        cwd="/home/ana/project",
        parent=None,
        log=b"/home/ana/.agent/sessions/one.jsonl",
        live=True,
    ),
    SessionDescribed(**_session(), name="Notes"),
    SessionDescribed(
        **_session(),
        agent_version="1.6.1",
        cwd="/workspace",
        log=b"/home/ana/.agent/sessions/moved \xff.jsonl",
        foreign="the log was written in a container",
    ),
    SessionForked(**_session(), parent_session="00000000"),
    PromptGiven(
        **_session(),
        entry="p1",
        how="typed",
        text=_PROMPT,
        excerpt="Add a line to the notes",
        copied=False,
        late=False,
        reference_at=_AT,
        key="prompt-1",
    ),
    PromptAnnounced(
        **_session(), key="prompt-2", how="queued", text=_PROMPT, excerpt="Add a line to the notes"
    ),
    PromptBound(**_session(), key="prompt-2", entry="p2"),
    TreeOpened(**_tree(), path=b"/home/ana/project", device=2049, inode=131_073, kind="repository", why=None),
    Captured(
        **_tree(),
        capture="cap1",
        moment="prompt",
        source="watch",
        session=SESSION,
        entry="p1",
        operation=None,
        began_at=_AT,
        commit=_OID,
        delta=_CHANGES,
        unknown=_NOTES,
        skipped=3,
        files=120,
        git=GitPosition(_OID, "refs/heads/main", "merge", _OID, _OID, 4_096),
        late=True,
    ),
    EntryAdded(
        **_session(),
        entry="e1",
        parent="p1",
        kind="answer",
        raw_type="assistant",
        in_tree=True,
        copied=True,
        understood=False,
        body=_LINE,
        excerpt="a long answer, a long answer",
    ),
    RunStarted(**_session(), run="p1"),
    StepStarted(**_session(), run="p1", step="s1"),
    ToolCalled(
        **_session(),
        run="p1",
        step="s1",
        call="c1",
        tool="edit",
        writes="named",
        files=(_NAMED, NamedFile(b"/etc/hosts")),
        background=False,
        witness="hook",
    ),
    ToolReturned(**_session(), run="p1", call="c1", failed=True, files=(_NAMED,), witness="hook"),
    StepEnded(**_session(), run="p1", step="s1"),
    RunSettled(**_session(), run="p1", entry="e1", outcome="done"),
    BranchLeft(**_session(), leaf="e1", to="p1"),
    BranchLeft(**_session(), leaf="e1", to=None),
    Compacted(**_session(), entry="k1", kept_from="p1"),
    LabelSet(**_session(), entry="p1", label="before the notes"),
    LeafSet(**_session(), entry=None),
    LineUnread(**_session(), line="l1", why="it is no JSON", body=_TORN),
    CaptureRefused(**_own(), entry="p1", why="the folder is on another machine"),
    Captured(
        **_tree(),
        capture="cap2",
        moment="safety",
        source="log",
        session=None,
        entry=None,
        operation="op1",
        began_at=_AT + 5,
        commit=_OID,
        delta=(),
        unknown=(),
        skipped=0,
        files=0,
        git=None,
        late=False,
        announced="prompt-2",
    ),
    CaptureFailed(
        **_tree(), capture="cap3", moment="settled", session=SESSION, entry="e1", why="no room left"
    ),
    RewindPlanned(
        **_tree(),
        operation="op1",
        verb="rewind",
        session=SESSION,
        checkpoint="c0123456789ab",
        safety="cap2",
        private="7f3a",
        steps=(FileStep(b"notes.txt", _FILE, ABSENT),),
        takes_back=("cap1:0",),
        puts_on=("cap1:1", "cap1:2"),
        inverts=None,
        position_before=None,
        position_after="c0123456789ab",
        leaf_before="e1",
        leaf_after=None,
        line=b'{"type":"custom","parentId":null}\n',
    ),
    RewindApplied(**_tree(), operation="op1", left=_NOTES, conversation="moved"),
    RewindFailed(**_tree(), operation="op2", why="the disk is full", unrecovered=_NOTES),
    CheckpointPinned(**_tree(), checkpoint="c0123456789ab", pinned=True),
    CheckpointLabelled(**_tree(), checkpoint="c0123456789ab", label="good"),
    CheckpointLabelled(**_tree(), checkpoint="c0123456789ab", label=None),
    CheckpointRetired(**_tree(), checkpoint="c0123456789ab", capture="cap1", reason="older than 30 days"),
    CaptureLost(**_tree(), capture="cap1", commit=_OID, why="a pack is damaged", unknown=_NOTES),
    CaptureLost(**_tree(), capture="cap2", commit="", why="the store was deleted", unknown=()),
    SessionEnded(**_session(), reason="quit"),
)
