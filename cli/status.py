"""Everything that `recorder checkpoint` says of one folder.

Looks only: captures nothing, mends nothing, makes no home, and waits for no lock.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from cli.checks.problem import words
from cli.standing import tell_out_of_reach, why_out_of_reach
from recorder.errors import NotFound, RecorderError
from recorder.home import Home

if TYPE_CHECKING:
    from cli.context import Recording
    from projections.sessions import SessionRow
    from recorder.history import Change
    from recorder.worktree import WorkTree


class Kind(NamedTuple):
    """How a folder is captured: `repository`, `folder`, `per-file` (why), or `disabled` (why: not at all)."""

    word: str
    why: str | None
    tree: WorkTree | None


def status_document(arguments: argparse.Namespace) -> dict[str, Any]:
    """The document of `checkpoint`. Raises NotFound for a session that is named and not recorded, LogFailure
    where the event log cannot be read."""
    from cli.context import Recording, home_folder
    from migrations.upcasts import UPCASTS
    from projections.glance import glance
    from projections.views import views_as_of
    from recorder.home import find_home
    from recorder.log import open_log

    folder = home_folder(arguments)
    home = find_home(folder)
    if home is None or not home.log.exists():
        return _document(arguments, Home(folder), None)
    with open_log(home, upcasts=UPCASTS) as log:
        try:
            with glance(home, log, log.head().position) as views:
                return _document(arguments, home, Recording(home, log, views))
        except sqlite3.DatabaseError as error:
            with views_as_of(log, None) as views:
                document = _document(arguments, home, Recording(home, log, views))
            document["notes"].append(f"the views are damaged ({error}); run “recorder doctor --fix”")
            return document


def _document(arguments: argparse.Namespace, home: Home, recording: Recording | None) -> dict[str, Any]:
    from cli.context import current_folder
    from cli.policy import settings

    session = _session(arguments, recording)
    kind = _kind(os.fsdecode(current_folder(arguments)), home, recording, session)
    limits = settings()
    document: dict[str, Any] = {
        "recorded": session is not None and session.tree is not None,
        "kind": kind.word,
        "how": _how(home, recording, session),
        "work_tree": kind.tree.path.decode("utf-8", "replace") if kind.tree else None,
        "session": session.session if session else None,
        "checkpoints": 0,
        "steps": 0,
        "recent": [],
        "store": {"path": None, "bytes": 0},
        "retention_days": limits.retention_days,
        "max_checkpoints": limits.max_checkpoints,
        "last_failure": None,
        "can_undo": False,
        "why": kind.why,
        "notes": _switched_off() if kind.word != "disabled" else [],
    }
    if recording is not None and session is not None:
        document |= _of_session(recording, session, document["notes"])
    return document


def _session(arguments: argparse.Namespace, recording: Recording | None) -> SessionRow | None:
    """The session that is meant; None where nothing of this folder is recorded."""
    from cli.context import the_session

    if recording is None:
        if arguments.session:
            raise NotFound(f"no session {arguments.session!r} is recorded", code="no_session")
        return None
    try:
        return the_session(recording, arguments)
    except NotFound:
        if arguments.session:
            raise
        return None


def _kind(here: str, home: Home, recording: Recording | None, session: SessionRow | None) -> Kind:
    """What a folder is captured as, or would be."""
    from projections.capture import known_tree
    from recorder.worktree import resolve

    off = _why_off(session)
    if session is not None and session.tree is not None and recording is not None:
        tree = known_tree(recording.views, session.tree)
        return Kind("disabled" if off else tree.kind, off or tree.why, tree)
    if session is not None and session.foreign_why:
        return Kind("disabled", session.foreign_why, None)
    try:
        tree = resolve(session.cwd if session and session.cwd else here, home, Path.home())
    except RecorderError as error:
        return Kind("disabled", off or error.message, None)
    return Kind("disabled" if off else tree.kind, off or tree.why, tree)


def _why_off(session: SessionRow | None) -> str | None:
    """Why nothing is captured by the user's wish: of the session's agent, or of all agents."""
    from cli.policy import why_not_captured
    from recorder.sources import all_sources

    if session is not None:
        return why_not_captured(session.agent)
    reasons = [why_not_captured(source.agent) for source in all_sources()]
    return "; ".join(dict.fromkeys(filter(None, reasons))) if all(reasons) else None


def _switched_off() -> list[str]:
    """A sentence for each agent whose sessions are not captured."""
    from cli.policy import why_not_captured
    from recorder.sources import all_sources

    reasons = {source.agent: why_not_captured(source.agent) for source in all_sources()}
    return [f"sessions of {agent} are {why}" for agent, why in reasons.items() if why]


def _how(home: Home, recording: Recording | None, session: SessionRow | None) -> str:
    from projections.status import captured_by_hook

    tree = session.tree if session else None
    if recording is not None and tree is not None and captured_by_hook(recording.views.connection, tree):
        return "hook"
    return "watch" if home.held("watch") else "none"


def _of_session(recording: Recording, session: SessionRow, notes: list[str]) -> dict[str, Any]:
    from cli.commands.import_ import WHY as IMPORTED
    from projections import status
    from projections.capture import UNWATCHED, known_tree
    from projections.listing import checkpoint_documents

    connection = recording.views.connection
    store, changes = _of_store(recording, session, notes)
    recent = checkpoint_documents(connection, session.stream, session.session, changes, all_branches=False)[
        : status.RECENT
    ]
    if session.tree is not None:
        why = why_out_of_reach(known_tree(recording.views, session.tree))
        tell_out_of_reach(recent, why)
        notes += [f"{why}: what is recorded of it can be looked at, and not gone back to"] if why else []
    return {
        **status.counts(connection, session),
        "recent": recent,
        "store": store,
        "last_failure": status.last_failure(connection, session, (IMPORTED, UNWATCHED)),
        "can_undo": session.tree is not None and status.can_undo(connection, session.tree),
    }


def _of_store(
    recording: Recording, session: SessionRow, notes: list[str]
) -> tuple[dict[str, Any], list[Change]]:
    """The store of the session's work tree, and the changes whose owners it tells; where it is damaged a note
    says so, and the rest goes on without it."""
    from cli.files import attributed, stored_files
    from projections.capture import last_commit

    if session.tree is None:
        return {"path": None, "bytes": 0}, []
    tree = UUID(session.tree)
    store = {"path": str(recording.home.tree(tree)), "bytes": 0}
    try:
        with stored_files(recording, session.tree) as files:
            store["bytes"] = files.bytes_used()
            newest = last_commit(recording.views, tree)
            if newest is not None:
                next(files.walk(newest), None)
        return store, attributed(recording, session)
    except (RecorderError, OSError) as error:
        notes.append(f"what is stored of this folder is damaged: {words(error)}; run “recorder doctor --fix”")
        return store, []
