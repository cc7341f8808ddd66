"""What happened to the files of each work tree: captures and their deltas, runs, tool windows.

The rows that `recorder.history` names; whose a change is, is decided from them when asked
(`recorder.planning.attribution`), because a tool's lines may reach the log after the change they explain.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from uuid import UUID

import msgspec

from projections.views import Projection
from recorder import events
from recorder.events import Fact, NamedFile
from recorder.history import Reach, Run, Transition, Window, place_of
from recorder.states import GitPosition, PathNote, PathState

SCHEMA = """
CREATE TABLE trees (
    tree TEXT PRIMARY KEY, path BLOB, device INTEGER, inode INTEGER, kind TEXT, why TEXT
) WITHOUT ROWID;
CREATE INDEX trees_by_path ON trees (path);
CREATE TABLE session_trees (stream TEXT, tree TEXT, position INTEGER, PRIMARY KEY (stream)) WITHOUT ROWID;
CREATE INDEX sessions_by_tree ON session_trees (tree);
CREATE TABLE captures (
    capture TEXT PRIMARY KEY, tree TEXT, position INTEGER, moment TEXT, source TEXT, stream TEXT, entry TEXT,
    operation TEXT, began_at INTEGER, ended_at INTEGER, commit_id TEXT, unknown BLOB, skipped INTEGER,
    files INTEGER, git BLOB, late INTEGER
) WITHOUT ROWID;
CREATE INDEX captures_by_tree ON captures (tree, position);
CREATE TABLE transitions (
    id TEXT PRIMARY KEY, tree TEXT, position INTEGER, ordinal INTEGER, path BLOB, before BLOB, after BLOB,
    changed_at INTEGER, by_git INTEGER, since INTEGER, until INTEGER, operation TEXT,
    above_changed_at INTEGER, place BLOB
) WITHOUT ROWID;
CREATE INDEX transitions_by_tree ON transitions (tree, position, ordinal);
CREATE INDEX transitions_by_place ON transitions (place, tree);
CREATE TABLE runs (
    stream TEXT, run TEXT, position INTEGER, began_at INTEGER, ended_at INTEGER, last_sign_at INTEGER,
    outcome TEXT,
    PRIMARY KEY (stream, run)
) WITHOUT ROWID;
CREATE TABLE calls (
    stream TEXT, call TEXT, run TEXT, step TEXT, tool TEXT, writes TEXT, began_at INTEGER, ended_at INTEGER,
    background INTEGER, failed INTEGER, files BLOB, position INTEGER, returned_at INTEGER, witnessed INTEGER,
    PRIMARY KEY (stream, call)
) WITHOUT ROWID;
CREATE INDEX calls_by_run ON calls (stream, run);
CREATE TABLE named_paths (stream TEXT, path BLOB, position INTEGER, PRIMARY KEY (stream, path)) WITHOUT ROWID;
CREATE INDEX named_paths_by_position ON named_paths (position);
CREATE INDEX named_paths_by_path ON named_paths (path)
"""

_BEGIN, _END = 1, 2
"""What a hook told of a call, whose times are exact: the log's do not replace them."""

AT_ONCE = 500
"""Values of a list that one query takes."""

_encode = msgspec.msgpack.encode
NO_FILES = _encode(())
_state = msgspec.msgpack.Decoder(PathState).decode
_files = msgspec.msgpack.Decoder(tuple[NamedFile, ...]).decode
_notes = msgspec.msgpack.Decoder(tuple[PathNote, ...]).decode
_git = msgspec.msgpack.Decoder(GitPosition | None).decode


def _tree_opened(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.TreeOpened)
    connection.execute(
        "INSERT OR IGNORE INTO trees VALUES (?,?,?,?,?,?)",
        (fact.originator_id.hex, fact.path, fact.device, fact.inode, fact.kind, fact.why),
    )


def _captured(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.Captured)
    tree = fact.originator_id.hex
    since = last_look(connection, tree)
    root = root_of(connection, tree)
    connection.execute(
        "INSERT INTO captures VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            fact.capture,
            tree,
            position,
            fact.moment,
            fact.source,
            fact.session.hex if fact.session else None,
            fact.entry,
            fact.operation,
            fact.began_at,
            fact.at,
            fact.commit,
            _encode(fact.unknown),
            fact.skipped,
            fact.files,
            _encode(fact.git),
            fact.late,
        ),
    )
    connection.executemany(
        "INSERT INTO transitions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        (
            (
                f"{fact.capture}:{ordinal}",
                tree,
                position,
                ordinal,
                change.path,
                _encode(change.before),
                _encode(change.after),
                change.changed_at,
                change.by_git,
                since,
                fact.at,
                fact.operation,
                change.above_changed_at,
                place_of(root, change.path),
            )
            for ordinal, change in enumerate(fact.delta)
        ),
    )
    _bind(connection, position, fact.session, tree)


def _capture_failed(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.CaptureFailed)
    _bind(connection, position, fact.session, fact.originator_id.hex)


def _capture_lost(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    """Its commit is what is left of it: empty for nothing."""
    assert isinstance(fact, events.CaptureLost)
    connection.execute("UPDATE captures SET commit_id = ? WHERE capture = ?", (fact.commit, fact.capture))


def _bind(connection: sqlite3.Connection, position: int, session: UUID | None, tree: str) -> None:
    """A session's work tree is that of its first capture."""
    if session is not None:
        connection.execute(
            "INSERT OR IGNORE INTO session_trees VALUES (?,?,?)", (session.hex, tree, position)
        )


def _run_started(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.RunStarted)
    stream = fact.originator_id.hex
    prompt = connection.execute(
        "SELECT reference_at FROM prompts WHERE stream = ? AND entry = ?", (stream, fact.run)
    ).fetchone()
    began_at = prompt["reference_at"] if prompt else fact.at
    connection.execute(
        "INSERT OR IGNORE INTO runs VALUES (?,?,?,?,NULL,?,NULL)",
        (stream, fact.run, position, began_at, max(began_at, fact.at)),
    )


def _run_settled(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.RunSettled)
    connection.execute(
        "UPDATE runs SET ended_at = ?, outcome = ?, last_sign_at = MAX(last_sign_at, ?)"
        " WHERE stream = ? AND run = ?",
        (fact.at, fact.outcome, fact.at, fact.originator_id.hex, fact.run),
    )


def _step_started(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.StepStarted)
    _sign_of_life(connection, fact.originator_id, fact.run, fact.at)
    connection.execute(
        "UPDATE runs SET ended_at = NULL, outcome = NULL WHERE stream = ? AND run = ? AND ended_at < ?",
        (fact.originator_id.hex, fact.run, fact.at),
    )


def _step_ended(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.StepEnded)
    _sign_of_life(connection, fact.originator_id, fact.run, fact.at)


def _sign_of_life(connection: sqlite3.Connection, stream: UUID, run: str, at: int) -> None:
    connection.execute(
        "UPDATE runs SET last_sign_at = MAX(last_sign_at, ?) WHERE stream = ? AND run = ?",
        (at, stream.hex, run),
    )


def _tool_called(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.ToolCalled)
    stream = fact.originator_id.hex
    known = _known_call(connection, stream, fact.call)
    if known is None:
        _add_call(connection, position, fact)
    elif fact.witness == "hook":
        _set_call(connection, fact, began_at=fact.at, witnessed=known["witnessed"] | _BEGIN)
    else:
        began_at = known["began_at"] if known["witnessed"] & _BEGIN else fact.at
        _set_call(
            connection,
            fact,
            run=fact.run,
            step=fact.step,
            tool=fact.tool,
            writes=fact.writes,
            background=fact.background,
            position=position,
            began_at=began_at,
        )
    if known is not None:
        _set_call(connection, fact, files=_encode(_both(fact.files, _files(known["files"]))))
    _sign_of_life(connection, fact.originator_id, fact.run, fact.at)
    if fact.writes != "none":
        _name_paths(connection, stream, position, fact.files)


def _known_call(connection: sqlite3.Connection, stream: str, call: str) -> sqlite3.Row | None:
    row = connection.execute("SELECT * FROM calls WHERE stream = ? AND call = ?", (stream, call)).fetchone()
    return row if isinstance(row, sqlite3.Row) else None


def _add_call(connection: sqlite3.Connection, position: int, fact: events.ToolCalled) -> None:
    connection.execute(
        "INSERT INTO calls VALUES (?,?,?,?,?,?,?,NULL,?,NULL,?,?,NULL,?)",
        (
            fact.originator_id.hex,
            fact.call,
            fact.run,
            fact.step,
            fact.tool,
            fact.writes,
            fact.at,
            fact.background,
            _encode(fact.files),
            position,
            _BEGIN if fact.witness == "hook" else 0,
        ),
    )


def _set_call(
    connection: sqlite3.Connection, fact: events.ToolCalled | events.ToolReturned, **columns: object
) -> None:
    names = ", ".join(f"{name} = ?" for name in columns)
    connection.execute(
        f"UPDATE calls SET {names} WHERE stream = ? AND call = ?",
        (*columns.values(), fact.originator_id.hex, fact.call),
    )


def _both(first: tuple[NamedFile, ...], then: tuple[NamedFile, ...]) -> tuple[NamedFile, ...]:
    """What two witnesses say of files, each thing once."""
    return tuple(dict.fromkeys(first + then))


def _tool_returned(connection: sqlite3.Connection, position: int, fact: Fact) -> None:
    assert isinstance(fact, events.ToolReturned)
    stream = fact.originator_id.hex
    known = _known_call(connection, stream, fact.call)
    if known is None:
        return
    if fact.witness == "hook" or not known["witnessed"] & _END:
        ended_at = None if known["background"] else fact.at
        _set_call(connection, fact, ended_at=ended_at, returned_at=fact.at)
    _set_call(
        connection,
        fact,
        failed=fact.failed,
        files=_encode(_both(_files(known["files"]), fact.files)),
        witnessed=known["witnessed"] | (_END if fact.witness == "hook" else 0),
    )
    _sign_of_life(connection, fact.originator_id, fact.run, fact.at)
    if known["writes"] != "none":
        _name_paths(connection, stream, position, fact.files)


def _prompt_given(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    """What hooks told before the prompt's line was read belongs to its run."""
    assert isinstance(fact, events.PromptGiven)
    if fact.key is not None:
        _place_calls(connection, fact.originator_id, fact.key, fact.entry)


def _prompt_bound(connection: sqlite3.Connection, _: int, fact: Fact) -> None:
    assert isinstance(fact, events.PromptBound)
    _place_calls(connection, fact.originator_id, fact.key, fact.entry)


def _place_calls(connection: sqlite3.Connection, stream: UUID, key: str, entry: str) -> None:
    connection.execute("UPDATE calls SET run = ? WHERE stream = ? AND run = ?", (entry, stream.hex, key))


def _name_paths(
    connection: sqlite3.Connection, stream: str, position: int, files: tuple[NamedFile, ...]
) -> None:
    connection.executemany(
        "INSERT INTO named_paths VALUES (?,?,?)"
        " ON CONFLICT (stream, path) DO UPDATE SET position = excluded.position",
        ((stream, file.path, position) for file in files),
    )


PROJECTION = Projection(
    "changes",
    SCHEMA,
    {
        events.TreeOpened: _tree_opened,
        events.Captured: _captured,
        events.CaptureFailed: _capture_failed,
        events.CaptureLost: _capture_lost,
        events.PromptGiven: _prompt_given,
        events.PromptBound: _prompt_bound,
        events.RunStarted: _run_started,
        events.RunSettled: _run_settled,
        events.StepStarted: _step_started,
        events.StepEnded: _step_ended,
        events.ToolCalled: _tool_called,
        events.ToolReturned: _tool_returned,
    },
)


def transitions_of(connection: sqlite3.Connection, tree: str, after: int = 0) -> tuple[Transition, ...]:
    """Every transition of a work tree behind a log position, in log order."""
    rows = connection.execute(
        "SELECT * FROM transitions WHERE tree = ? AND position > ? ORDER BY position, ordinal", (tree, after)
    )
    return tuple(transition(row) for row in rows)


def transition(row: sqlite3.Row) -> Transition:
    return Transition(
        id=row["id"],
        position=row["position"],
        path=row["path"],
        before=_state(row["before"]),
        after=_state(row["after"]),
        changed_at=row["changed_at"],
        by_git=bool(row["by_git"]),
        since=row["since"],
        until=row["until"],
        operation=row["operation"],
        above_changed_at=row["above_changed_at"],
    )


def sessions_of(connection: sqlite3.Connection, tree: str) -> list[str]:
    """The sessions that are bound to a work tree."""
    rows = connection.execute("SELECT stream FROM session_trees WHERE tree = ?", (tree,))
    return [row["stream"] for row in rows]


def runs_of(connection: sqlite3.Connection, reaches: Mapping[str, Reach | None]) -> tuple[Run, ...]:
    """The runs of sessions, by their start; each has the reach that is given for its session."""
    rows = rows_with(connection, "SELECT * FROM runs WHERE stream IN ({})", reaches)
    return tuple(
        Run(
            session=row["stream"],
            run=row["run"],
            position=row["position"],
            began_at=row["began_at"],
            ended_at=row["ended_at"],
            last_sign_at=row["last_sign_at"],
            reach=reaches[row["stream"]],
        )
        for row in sorted(rows, key=itemgetter("position"))
    )


def windows_of(
    connection: sqlite3.Connection, reaches: Mapping[str, Reach | None], since: int = 0
) -> tuple[Window, ...]:
    """The windows of every writing tool call of sessions that had not returned before `since` (ns), by their
    calls; each has the reach that is given for its session."""
    rows = rows_with(
        connection,
        "SELECT * FROM calls WHERE stream IN ({}) AND writes != 'none'"
        " AND (ended_at IS NULL OR ended_at >= ?)",
        reaches,
        since,
    )
    return tuple(
        Window(
            session=row["stream"],
            run=row["run"],
            call=row["call"],
            tool=row["tool"],
            writes=row["writes"],
            began_at=row["began_at"],
            ended_at=row["ended_at"],
            background=bool(row["background"]),
            files=_files(row["files"]) if row["files"] != NO_FILES else (),
            failed=bool(row["failed"]),
            reach=reaches[row["stream"]],
        )
        for row in sorted(rows, key=itemgetter("position"))
    )


def rows_with(
    connection: sqlite3.Connection, query: str, values: Iterable[object], *more: object
) -> Iterator[sqlite3.Row]:
    """The rows of a query in which `{}` stands for a list of values, some at a time: SQLite takes no more
    than so many in one query. `more` are the values after it."""
    listed = list(values)
    for start in range(0, len(listed), AT_ONCE):
        part = listed[start : start + AT_ONCE]
        yield from connection.execute(query.format(",".join("?" * len(part))), (*part, *more))


def looks_of(connection: sqlite3.Connection, tree: str) -> tuple[tuple[int, int], ...]:
    """The log position of each capture of a work tree, and the moment that it shows (ns), in log order: when
    it began to read, or when the prompt was given that it came late for."""
    rows = connection.execute(
        "SELECT captures.position, MIN(began_at, COALESCE(prompts.reference_at, began_at)) AS moment"
        " FROM captures LEFT JOIN prompts ON captures.moment = 'prompt'"
        " AND prompts.stream = captures.stream AND prompts.entry = captures.entry"
        " WHERE tree = ? ORDER BY captures.position",
        (tree,),
    )
    return tuple((row["position"], row["moment"]) for row in rows)


def last_look(connection: sqlite3.Connection, tree: str) -> int:
    """When the newest capture of a work tree began to read (ns); 0 before the first."""
    row = connection.execute(
        "SELECT began_at FROM captures WHERE tree = ? ORDER BY position DESC LIMIT 1", (tree,)
    ).fetchone()
    return int(row["began_at"]) if row else 0


def looked_since(connection: sqlite3.Connection, tree: str, position: int) -> bool:
    """Whether a work tree was captured again after a position of the log."""
    row = connection.execute(
        "SELECT MAX(position) AS newest FROM captures WHERE tree = ?", (tree,)
    ).fetchone()
    return row["newest"] is not None and row["newest"] > position


def git_positions(connection: sqlite3.Connection, tree: str) -> dict[str, GitPosition]:
    """Where the project's repository stood, by capture id, where that is known."""
    rows = connection.execute("SELECT capture, git FROM captures WHERE tree = ?", (tree,))
    positions = {row["capture"]: _git(row["git"]) for row in rows}
    return {capture: position for capture, position in positions.items() if position is not None}


def newly_named(connection: sqlite3.Connection, tree: str, stream: str | None = None) -> set[bytes]:
    """The absolute paths that writing tools named since the work tree's last capture, in its sessions and
    in the session `stream`; what was named earlier is in that capture."""
    rows = connection.execute(
        "SELECT path FROM named_paths"
        " WHERE position > (SELECT COALESCE(MAX(position), 0) FROM captures WHERE tree = ?)"
        " AND (stream = ? OR stream IN (SELECT stream FROM session_trees WHERE tree = ?))",
        (tree, stream, tree),
    )
    return {row["path"] for row in rows}


def unknown_paths(connection: sqlite3.Connection, capture: str) -> tuple[PathNote, ...]:
    """What a capture should have read and did not."""
    row = connection.execute("SELECT unknown FROM captures WHERE capture = ?", (capture,)).fetchone()
    return _notes(row["unknown"]) if row else ()


def root_of(connection: sqlite3.Connection, tree: str) -> bytes:
    """The absolute path of a work tree's root."""
    row = connection.execute("SELECT path FROM trees WHERE tree = ?", (tree,)).fetchone()
    return bytes(row["path"]) if row else b"/"


def tree_of(connection: sqlite3.Connection, stream: str) -> str | None:
    """The work tree that a session is bound to, by its first capture."""
    row = connection.execute("SELECT tree FROM session_trees WHERE stream = ?", (stream,)).fetchone()
    return row["tree"] if row else None
