"""The conversation: sessions, their entries by parent, prompts with their numbers, branches.

A branch is a path from a leaf to the root. The active leaf comes from the log alone: the newest
entry of the tree, or where the agent's log says that it goes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

from projections.views import Projection
from recorder import events
from recorder.events import Fact

SCHEMA = """
CREATE TABLE sessions (
    stream TEXT PRIMARY KEY, agent TEXT, session TEXT, agent_version TEXT, cwd TEXT, name TEXT,
    parent_session TEXT, foreign_why TEXT, log BLOB, started_time TEXT, started_at INTEGER,
    last_time TEXT, last_at INTEGER, first_prompt TEXT, leaf TEXT, ended TEXT, position INTEGER
) WITHOUT ROWID;
CREATE INDEX sessions_by_id ON sessions (session);
CREATE INDEX sessions_by_cwd ON sessions (cwd);
CREATE TABLE entries (
    stream TEXT, entry TEXT, position INTEGER, parent TEXT, kind TEXT, raw_type TEXT, time TEXT, at INTEGER,
    excerpt TEXT, body TEXT, in_tree INTEGER, copied INTEGER, understood INTEGER,
    PRIMARY KEY (stream, entry)
) WITHOUT ROWID;
CREATE INDEX entries_by_position ON entries (stream, position);
CREATE TABLE prompts (
    stream TEXT, entry TEXT, number INTEGER, how TEXT, text TEXT, excerpt TEXT, time TEXT, at INTEGER,
    copied INTEGER, late INTEGER, reference_at INTEGER, position INTEGER, parent_prompt TEXT,
    PRIMARY KEY (stream, entry)
) WITHOUT ROWID;
CREATE INDEX prompts_by_number ON prompts (stream, number);
CREATE TABLE labels (stream TEXT, entry TEXT, label TEXT, PRIMARY KEY (stream, entry)) WITHOUT ROWID;
CREATE TABLE left_branches (stream TEXT, leaf TEXT, onto TEXT, position INTEGER)
"""


class PromptRow(NamedTuple):
    """One prompt of a session. `text` is the digest of its full text."""

    stream: str
    entry: str
    number: int
    how: str
    text: str
    excerpt: str
    time: str
    at: int
    copied: bool
    late: bool
    reference_at: int
    position: int
    parent_prompt: str | None


def _session_started(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.SessionStarted)
    connection.execute(
        "INSERT OR IGNORE INTO sessions VALUES (?,?,?,?,?,NULL,?,NULL,?,?,?,?,?,NULL,NULL,NULL,?)",
        (
            fact.originator_id.hex,
            fact.agent,
            fact.session,
            fact.agent_version,
            fact.cwd,
            fact.parent,
            fact.log,
            fact.time,
            fact.at,
            fact.time,
            fact.at,
            position,
        ),
    )


def _session_described(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.SessionDescribed)
    news = {
        "agent_version": fact.agent_version,
        "cwd": fact.cwd,
        "name": fact.name,
        "log": fact.log,
        "foreign_why": fact.foreign,
    }
    for column, value in news.items():
        if value is not None:
            connection.execute(
                f"UPDATE sessions SET {column} = ? WHERE stream = ?", (value, fact.originator_id.hex)
            )


def _session_forked(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.SessionForked)
    connection.execute(
        "UPDATE sessions SET parent_session = ? WHERE stream = ?",
        (fact.parent_session, fact.originator_id.hex),
    )


def _session_ended(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.SessionEnded)
    connection.execute(
        "UPDATE sessions SET ended = ? WHERE stream = ?", (fact.reason, fact.originator_id.hex)
    )


def _entry_added(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.EntryAdded)
    stream = fact.originator_id.hex
    connection.execute(
        "INSERT OR IGNORE INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            stream,
            fact.entry,
            position,
            fact.parent,
            fact.kind,
            fact.raw_type,
            fact.time,
            fact.at,
            fact.excerpt,
            fact.body.digest,
            fact.in_tree,
            fact.copied,
            fact.understood,
        ),
    )
    connection.execute(
        "UPDATE sessions SET last_at = MAX(last_at, ?), last_time = MAX(last_time, ?), ended = NULL"
        + (", leaf = ?" if fact.in_tree else "")
        + " WHERE stream = ?",
        (fact.at, fact.time, *((fact.entry,) if fact.in_tree else ()), stream),
    )


def _leaf_set(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.LeafSet)
    connection.execute("UPDATE sessions SET leaf = ? WHERE stream = ?", (fact.entry, fact.originator_id.hex))


def _prompt_given(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.PromptGiven)
    stream = fact.originator_id.hex
    number = connection.execute(
        "SELECT COALESCE(MAX(number), 0) + 1 FROM prompts WHERE stream = ?", (stream,)
    ).fetchone()[0]
    parent = connection.execute(
        "SELECT parent FROM entries WHERE stream = ? AND entry = ?", (stream, fact.entry)
    ).fetchone()
    connection.execute(
        "INSERT OR IGNORE INTO prompts VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            stream,
            fact.entry,
            number,
            fact.how,
            fact.text.digest,
            fact.excerpt,
            fact.time,
            fact.at,
            fact.copied,
            fact.late,
            fact.reference_at,
            position,
            _nearest_prompt(connection, stream, parent["parent"] if parent else None),
        ),
    )
    connection.execute(
        "UPDATE sessions SET first_prompt = COALESCE(first_prompt, ?) WHERE stream = ?",
        (fact.excerpt, stream),
    )


def _label_set(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.LabelSet)
    connection.execute(
        "INSERT OR REPLACE INTO labels VALUES (?,?,?)", (fact.originator_id.hex, fact.entry, fact.label)
    )


def _branch_left(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.BranchLeft)
    connection.execute(
        "INSERT INTO left_branches VALUES (?,?,?,?)", (fact.originator_id.hex, fact.leaf, fact.to, position)
    )


PROJECTION = Projection(
    "conversation",
    SCHEMA,
    {
        events.SessionStarted: _session_started,
        events.SessionDescribed: _session_described,
        events.SessionForked: _session_forked,
        events.SessionEnded: _session_ended,
        events.EntryAdded: _entry_added,
        events.LeafSet: _leaf_set,
        events.PromptGiven: _prompt_given,
        events.LabelSet: _label_set,
        events.BranchLeft: _branch_left,
    },
)


def path_to_root(connection: sqlite3.Connection, stream: str, entry: str | None) -> Iterator[str]:
    """The entries from one up to the root, each once (a cycle in a log ends the path)."""
    seen: set[str] = set()
    while entry is not None and entry not in seen:
        row = connection.execute(
            "SELECT parent FROM entries WHERE stream = ? AND entry = ?", (stream, entry)
        ).fetchone()
        if row is None:
            return
        seen.add(entry)
        yield entry
        entry = row["parent"]


def _nearest_prompt(connection: sqlite3.Connection, stream: str, entry: str | None) -> str | None:
    for ancestor in path_to_root(connection, stream, entry):
        row = connection.execute(
            "SELECT 1 FROM prompts WHERE stream = ? AND entry = ?", (stream, ancestor)
        ).fetchone()
        if row:
            return ancestor
    return None


def prompts_of(connection: sqlite3.Connection, stream: str) -> list[PromptRow]:
    """All prompts of a session by number."""
    rows = connection.execute("SELECT * FROM prompts WHERE stream = ? ORDER BY number", (stream,))
    return [PromptRow(*row) for row in rows]


def active_prompts(connection: sqlite3.Connection, stream: str) -> list[PromptRow]:
    """The prompts on the active branch, oldest first."""
    return branch_prompts(connection, stream, leaf_of(connection, stream))


def branch_prompts(connection: sqlite3.Connection, stream: str, leaf: str | None) -> list[PromptRow]:
    """The prompts on the path from a leaf to the root, oldest first."""
    by_entry = {prompt.entry: prompt for prompt in prompts_of(connection, stream)}
    nearest = _nearest_prompt(connection, stream, leaf)
    path: list[PromptRow] = []
    while nearest is not None and nearest in by_entry and len(path) <= len(by_entry):
        path.append(by_entry[nearest])
        nearest = by_entry[nearest].parent_prompt
    return path[::-1]


def leaf_of(connection: sqlite3.Connection, stream: str) -> str | None:
    """The active leaf of a session's conversation."""
    row = connection.execute("SELECT leaf FROM sessions WHERE stream = ?", (stream,)).fetchone()
    return row["leaf"] if row else None


def stands_at(connection: sqlite3.Connection, stream: str, entry: str | None) -> bool:
    """Whether the conversation goes on from an entry (None: from its start)."""
    return is_same_place(connection, stream, leaf_of(connection, stream), entry)


def is_same_place(connection: sqlite3.Connection, stream: str, leaf: str | None, entry: str | None) -> bool:
    """Whether nothing that a model is sent stands between an entry (None: the start) and a leaf below it."""
    while leaf != entry:
        row = connection.execute(
            "SELECT parent, kind, raw_type FROM entries WHERE stream = ? AND entry = ?", (stream, leaf)
        ).fetchone()
        if row is None or not (row["kind"] in ("label", "name") or row["raw_type"] == "custom"):
            return False
        leaf = row["parent"]
    return True


def branch_leaves(connection: sqlite3.Connection, stream: str) -> list[str]:
    """The last prompt of every branch: prompts that no other prompt goes on from."""
    rows = connection.execute(
        "SELECT entry FROM prompts AS p WHERE stream = ? AND NOT EXISTS"
        " (SELECT 1 FROM prompts AS c WHERE c.stream = p.stream AND c.parent_prompt = p.entry)"
        " ORDER BY number",
        (stream,),
    )
    return [row["entry"] for row in rows]
