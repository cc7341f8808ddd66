"""One record per prompt: its number, its captures before and after the run, its state and its names.

A checkpoint is bound to its prompt's entry; the first capture that succeeds for it is its own for
ever. A fork's inherited prompts have the captures of the session that they come from.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple
from uuid import UUID

from projections.views import Projection
from recorder import events
from recorder.events import Fact
from recorder.states import PathNote

SCHEMA = """
CREATE TABLE checkpoints (
    id TEXT PRIMARY KEY, stream TEXT, entry TEXT, number INTEGER, state TEXT, why TEXT, tree TEXT,
    capture TEXT, commit_id TEXT, capture_position INTEGER, source TEXT, late INTEGER,
    after_capture TEXT, after_commit TEXT, after_why TEXT,
    pinned INTEGER, label TEXT, retired TEXT, given_at INTEGER
) WITHOUT ROWID;
CREATE INDEX checkpoints_by_entry ON checkpoints (stream, entry);
CREATE INDEX checkpoints_by_tree ON checkpoints (tree);
CREATE INDEX checkpoints_by_label ON checkpoints (label) WHERE label IS NOT NULL;
CREATE TABLE announcements (
    stream TEXT, key TEXT, entry TEXT, state TEXT, why TEXT, tree TEXT, capture TEXT, commit_id TEXT,
    capture_position INTEGER, source TEXT, late INTEGER,
    PRIMARY KEY (stream, key)
) WITHOUT ROWID;
CREATE INDEX announcements_by_entry ON announcements (stream, entry) WHERE entry IS NOT NULL
"""


class Checkpoint(NamedTuple):
    """`state`: `capturing`, `complete`, `partial`, `lost`, `retired`. `capture_position` is where in the
    log the files' state from before the prompt stands."""

    id: str
    stream: str
    entry: str
    number: int
    state: str
    why: str | None
    tree: str | None
    capture: str | None
    commit: str | None
    capture_position: int | None
    source: str
    late: bool
    after_capture: str | None
    after_commit: str | None
    after_why: str | None
    pinned: bool
    label: str | None
    retired: str | None
    given_at: int

    @property
    def restorable(self) -> bool:
        return self.state in ("complete", "partial")


def _prompt_given(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.PromptGiven)
    stream = fact.originator_id.hex
    number = connection.execute(
        "SELECT number FROM prompts WHERE stream = ? AND entry = ?", (stream, fact.entry)
    ).fetchone()["number"]
    identifier = events.checkpoint_id(fact.originator_id, fact.entry)
    connection.execute(
        "INSERT OR IGNORE INTO checkpoints VALUES (?,?,?,?,'capturing',NULL,NULL,NULL,NULL,NULL,'log',0,"
        "NULL,NULL,NULL,0,NULL,NULL,?)",
        (identifier, stream, fact.entry, number, fact.at),
    )
    if fact.copied:
        _inherit(connection, identifier, stream, fact.entry)
    elif fact.key is not None:
        _bind(connection, fact.originator_id, fact.key, fact.entry)
    else:
        _take_announced(connection, fact.originator_id, fact.entry)


def _prompt_bound(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.PromptBound)
    _bind(connection, fact.originator_id, fact.key, fact.entry)


def _bind(connection: sqlite3.Connection, stream: UUID, key: str, entry: str) -> None:
    """The prompt that was announced under a key is this one."""
    connection.execute(
        "INSERT INTO announcements (stream, key, entry) VALUES (?,?,?)"
        " ON CONFLICT DO UPDATE SET entry = excluded.entry WHERE entry IS NULL",
        (stream.hex, key, entry),
    )
    _take_announced(connection, stream, entry)


def _take_announced(connection: sqlite3.Connection, stream: UUID, entry: str) -> None:
    """The capture that was made when a prompt was announced is its own, if both are known by now; one that
    was made late by the log yields to it."""
    captured = connection.execute(
        "SELECT state, why, tree, capture, commit_id, capture_position, source, late FROM announcements"
        " WHERE stream = ? AND entry = ? AND capture IS NOT NULL",
        (stream.hex, entry),
    ).fetchone()
    if captured is None:
        return
    connection.execute(
        "UPDATE checkpoints SET state = ?, why = ?, tree = ?, capture = ?, commit_id = ?,"
        " capture_position = ?, source = ?, late = ?"
        " WHERE id = ? AND (capture IS NULL OR late) AND retired IS NULL",
        (*captured, events.checkpoint_id(stream, entry)),
    )
    _hand_down(connection, stream, entry)


def _inherit(connection: sqlite3.Connection, identifier: str, stream: str, entry: str) -> None:
    origin = connection.execute(
        "SELECT c.* FROM checkpoints c JOIN sessions parent ON parent.stream = c.stream"
        " JOIN sessions child ON child.parent_session = parent.session AND child.agent = parent.agent"
        " WHERE child.stream = ? AND c.entry = ?",
        (stream, entry),
    ).fetchone()
    if origin is None:
        connection.execute(
            "UPDATE checkpoints SET state = 'lost', why = 'inherited from a session that was not recorded'"
            " WHERE id = ?",
            (identifier,),
        )
        return
    connection.execute(
        "UPDATE checkpoints SET state = ?, why = ?, tree = ?, capture = ?, commit_id = ?,"
        " capture_position = ?, source = ?, late = ?, after_capture = ?, after_commit = ? WHERE id = ?",
        (
            origin["state"],
            origin["why"],
            origin["tree"],
            origin["capture"],
            origin["commit_id"],
            origin["capture_position"],
            origin["source"],
            origin["late"],
            origin["after_capture"],
            origin["after_commit"],
            identifier,
        ),
    )


def _hand_down(connection: sqlite3.Connection, origin: UUID, entry: str) -> None:
    """What a prompt came to is told to the forks that inherited it before that was known."""
    forks = connection.execute(
        "SELECT c.id, c.stream FROM checkpoints c JOIN sessions child ON child.stream = c.stream"
        " JOIN sessions parent ON parent.session = child.parent_session AND parent.agent = child.agent"
        " JOIN prompts ON prompts.stream = c.stream AND prompts.entry = c.entry"
        " WHERE parent.stream = ? AND c.entry = ? AND c.capture IS NULL AND c.retired IS NULL"
        " AND prompts.copied AND c.stream != parent.stream",
        (origin.hex, entry),
    )
    for fork in forks.fetchall():
        before = _answer(connection, fork["id"])
        _inherit(connection, fork["id"], fork["stream"], entry)
        if _answer(connection, fork["id"]) != before:
            _hand_down(connection, UUID(fork["stream"]), entry)


def _answer(connection: sqlite3.Connection, identifier: str) -> tuple[object, ...]:
    row = connection.execute("SELECT state, why, capture FROM checkpoints WHERE id = ?", (identifier,))
    return tuple(row.fetchone())


def _captured(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.Captured)
    if fact.session is None:
        return
    if fact.moment == "prompt" and fact.entry is not None:
        connection.execute(
            "UPDATE checkpoints SET state = ?, why = ?, tree = ?, capture = ?, commit_id = ?,"
            " capture_position = ?, source = ?, late = ?"
            " WHERE id = ? AND capture IS NULL AND retired IS NULL",
            (*_own_capture(connection, position, fact), events.checkpoint_id(fact.session, fact.entry)),
        )
        _hand_down(connection, fact.session, fact.entry)
    if fact.moment == "prompt" and fact.announced is not None:
        _captured_announced(connection, position, fact, fact.session, fact.announced)
    if fact.moment == "settled" and fact.entry is not None:
        connection.execute(
            "UPDATE checkpoints SET after_capture = ?, after_commit = ? WHERE id = ?",
            (fact.capture, fact.commit, events.checkpoint_id(fact.session, fact.entry)),
        )


def _captured_announced(
    connection: sqlite3.Connection, position: int, fact: events.Captured, stream: UUID, key: str
) -> None:
    connection.execute("INSERT OR IGNORE INTO announcements (stream, key) VALUES (?,?)", (stream.hex, key))
    connection.execute(
        "UPDATE announcements SET state = ?, why = ?, tree = ?, capture = ?, commit_id = ?,"
        " capture_position = ?, source = ?, late = ? WHERE stream = ? AND key = ? AND capture IS NULL",
        (*_own_capture(connection, position, fact), stream.hex, key),
    )
    bound = connection.execute(
        "SELECT entry FROM announcements WHERE stream = ? AND key = ?", (stream.hex, key)
    ).fetchone()
    if bound["entry"] is not None:
        _take_announced(connection, stream, bound["entry"])


def _own_capture(connection: sqlite3.Connection, position: int, fact: events.Captured) -> tuple[object, ...]:
    """What a capture makes of its checkpoint, from its state to whether it is late."""
    per_file = connection.execute(
        "SELECT why FROM trees WHERE tree = ? AND kind = 'per-file'", (fact.originator_id.hex,)
    ).fetchone()
    reasons = [f"only the files that tools name are kept here: {per_file['why']}"] if per_file else []
    reasons += [_unknown_sentence(fact)] if fact.unknown or fact.late else []
    return (
        "partial" if reasons else "complete",
        "; ".join(reasons) or None,
        fact.originator_id.hex,
        fact.capture,
        fact.commit,
        position,
        fact.source,
        fact.late,
    )


def _unknown_sentence(fact: events.Captured) -> str:
    if not fact.unknown:
        return "captured late: what its run deleted before is not known"
    return f"not known: {_some_of(fact.unknown)} ({fact.unknown[0].why})"


def _some_of(notes: tuple[PathNote, ...]) -> str:
    name = notes[0].path.decode(errors="replace")
    return f"{name} and {len(notes) - 1} more" if len(notes) > 1 else name


def _capture_failed(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.CaptureFailed)
    if fact.moment == "prompt" and fact.session is not None and fact.entry is not None:
        identifier = events.checkpoint_id(fact.session, fact.entry)
        connection.execute(
            "UPDATE checkpoints SET state = 'lost', why = ?, tree = ? WHERE id = ? AND capture IS NULL",
            (fact.why, fact.originator_id.hex, identifier),
        )
        _hand_down(connection, fact.session, fact.entry)
    if fact.moment == "settled" and fact.session is not None and fact.entry is not None:
        connection.execute(
            "UPDATE checkpoints SET after_why = ? WHERE id = ?",
            (fact.why, events.checkpoint_id(fact.session, fact.entry)),
        )


def _capture_refused(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.CaptureRefused)
    connection.execute(
        "UPDATE checkpoints SET state = 'lost', why = ? WHERE id = ? AND capture IS NULL",
        (fact.why, events.checkpoint_id(fact.originator_id, fact.entry)),
    )
    _hand_down(connection, fact.originator_id, fact.entry)


def _pinned(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.CheckpointPinned)
    connection.execute("UPDATE checkpoints SET pinned = ? WHERE id = ?", (fact.pinned, fact.checkpoint))


def _labelled(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.CheckpointLabelled)
    connection.execute("UPDATE checkpoints SET label = ? WHERE id = ?", (fact.label, fact.checkpoint))


def _retired(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.CheckpointRetired)
    connection.execute(
        "UPDATE checkpoints SET state = 'retired', retired = ?, why = ? WHERE id = ?",
        (fact.reason, f"retired: {fact.reason}", fact.checkpoint),
    )


def _capture_lost(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    """The record of its checkpoints says why; what is left of them is restorable."""
    assert isinstance(fact, events.CaptureLost)
    why = f"{_some_of(fact.unknown)}: {fact.why}" if fact.commit else fact.why
    connection.execute(
        "UPDATE checkpoints SET state = ?, commit_id = ?, why = CASE WHEN ? != '' AND why IS NOT NULL"
        " THEN why || '; ' ELSE '' END || ? WHERE capture = ? AND state IN ('complete', 'partial')",
        ("partial" if fact.commit else "lost", fact.commit or None, fact.commit, why, fact.capture),
    )
    connection.execute(
        "UPDATE announcements SET state = ?, commit_id = ?, why = ? WHERE capture = ?",
        ("partial" if fact.commit else "lost", fact.commit or None, why, fact.capture),
    )
    if fact.commit:
        after = "UPDATE checkpoints SET after_commit = ? WHERE after_capture = ?"
        connection.execute(after, (fact.commit, fact.capture))
    else:
        after = "UPDATE checkpoints SET after_capture = NULL, after_commit = NULL, after_why = ?"
        connection.execute(f"{after} WHERE after_capture = ?", (why, fact.capture))


PROJECTION = Projection(
    "checkpoints",
    SCHEMA,
    {
        events.PromptGiven: _prompt_given,
        events.PromptBound: _prompt_bound,
        events.Captured: _captured,
        events.CaptureFailed: _capture_failed,
        events.CaptureRefused: _capture_refused,
        events.CheckpointPinned: _pinned,
        events.CheckpointLabelled: _labelled,
        events.CheckpointRetired: _retired,
        events.CaptureLost: _capture_lost,
    },
)


def checkpoints_of(connection: sqlite3.Connection, stream: str) -> list[Checkpoint]:
    """All checkpoints of a session, by number."""
    rows = connection.execute("SELECT * FROM checkpoints WHERE stream = ? ORDER BY number", (stream,))
    return [_checkpoint(row) for row in rows]


def checkpoint(connection: sqlite3.Connection, identifier: str) -> Checkpoint | None:
    row = connection.execute("SELECT * FROM checkpoints WHERE id = ?", (identifier,)).fetchone()
    return _checkpoint(row) if row else None


def checkpoint_of_entry(connection: sqlite3.Connection, stream: str, entry: str) -> Checkpoint | None:
    row = connection.execute(
        "SELECT * FROM checkpoints WHERE stream = ? AND entry = ?", (stream, entry)
    ).fetchone()
    return _checkpoint(row) if row else None


def is_captured(connection: sqlite3.Connection, stream: str, key: str) -> bool:
    """Whether an announced prompt has its capture; a complete one that its line asked for is as good."""
    row = connection.execute(
        "SELECT a.capture, c.state FROM announcements a LEFT JOIN checkpoints c USING (stream, entry)"
        " WHERE a.stream = ? AND a.key = ?",
        (stream, key),
    ).fetchone()
    return row is not None and (row["capture"] is not None or row["state"] == "complete")


def uncaptured(connection: sqlite3.Connection) -> list[Checkpoint]:
    """Checkpoints that nobody has answered for yet; what a fork inherited is answered where it was given."""
    rows = connection.execute(
        "SELECT checkpoints.* FROM checkpoints JOIN prompts USING (stream, entry)"
        " WHERE state = 'capturing' AND NOT copied ORDER BY given_at"
    )
    return [_checkpoint(row) for row in rows]


def _checkpoint(row: sqlite3.Row) -> Checkpoint:
    values = [row[key] for key in row.keys()]  # noqa: SIM118 (a Row iterates over values)
    fields = dict(zip(Checkpoint._fields, values, strict=True))
    fields["late"], fields["pinned"] = bool(fields["late"]), bool(fields["pinned"])
    return Checkpoint(**fields)
