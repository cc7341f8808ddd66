"""Everything about one checkpoint, put together for `recorder show`, and about the steps of its run."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

from cli.beyond import changes_beyond, of_runs
from cli.files import attributed, stored_files, written_unseen
from cli.left_out import IGNORED
from cli.output import path_fields
from projections import changes, conversation
from projections.capture import known_tree
from projections.checkpoints import checkpoints_of
from projections.listing import change_word, changes_by_run, checkpoint_document, iso, net_changes
from projections.steps import Capture, ran_in, steps_of
from recorder.errors import RecorderError
from recorder.history import Change
from recorder.states import PathNote

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.places import Place
    from projections.checkpoints import Checkpoint
    from projections.sessions import SessionRow


NO_CHANGE = "Its run changed no file."


def checkpoint_details(
    recording: Recording, session: SessionRow, checkpoint: Checkpoint
) -> tuple[dict[str, Any], str]:
    """The document of `show`, and the prompt's full text."""
    connection = recording.views.connection
    prompt = next(
        one for one in conversation.prompts_of(connection, session.stream) if one.entry == checkpoint.entry
    )
    ids = {one.entry: one.id for one in checkpoints_of(connection, session.stream)}
    active = {one.entry for one in conversation.active_prompts(connection, session.stream)}
    by_run = changes_by_run(attributed(recording, session), session.stream)
    found = by_run.get(checkpoint.entry, [])
    skipped, unknown = _notes(recording, checkpoint)
    skipped += _beyond(recording, session, checkpoint)
    if checkpoint.tree is not None:
        unknown += written_unseen(recording, checkpoint.tree, session.stream, checkpoint.entry)
    document = checkpoint_document(
        checkpoint,
        prompt,
        session.session,
        checkpoint.entry in active,
        ids.get(prompt.parent_prompt or ""),
        found,
    )
    document |= {
        "files": files_document(found),
        "skipped": [{**path_fields(note.path), "why": note.why} for note in skipped],
        "unknown": [{**path_fields(note.path), "why": note.why} for note in unknown],
        "steps": step_documents(connection, session.stream, checkpoint.entry, checkpoint.number, found),
    }
    return document, prompt_text(recording, prompt.text, prompt.excerpt)


def _beyond(recording: Recording, session: SessionRow, checkpoint: Checkpoint) -> list[PathNote]:
    """What the checkpoint's run changed in other work trees."""
    found = changes_beyond(recording, session.stream, checkpoint)
    why = "changed in the run, but recorded with {}: a rewind of this session leaves it"
    of_run = of_runs(found, session.stream, [checkpoint.entry])
    told = {one.path: why.format(os.fsdecode(one.root)) for one in of_run}
    return [PathNote(path, why) for path, why in told.items()]


def place_details(recording: Recording, place: Place) -> dict[str, Any]:
    """The document of `show` for a state within a run."""
    one, stream = place.checkpoint, place.session.stream
    by_run = changes_by_run(attributed(recording, place.session), stream)
    found = by_run.get(one.entry, [])
    steps = step_documents(recording.views.connection, stream, one.entry, one.number, found)
    skipped, unknown = _notes(recording, one)
    return {
        "name": place.name,
        "session": place.session.session,
        "checkpoint": {"number": one.number, "id": one.id},
        "state": one.state,
        "captured_at": iso(place.captured_at or 0),
        "step": steps[place.step.ordinal - 1] if place.step else None,
        "skipped": [{**path_fields(note.path), "why": note.why} for note in skipped],
        "unknown": [{**path_fields(note.path), "why": note.why} for note in unknown],
    }


def without_changes(recording: Recording, checkpoint: Checkpoint) -> str:
    """What to say of a run that no change is known of: none is not the same as none seen."""
    connection = recording.views.connection
    if checkpoint.tree is None or checkpoint.capture_position is None:
        return "What its run changed on disk was not recorded."
    if checkpoint.after_why is not None:
        return (
            f"What its run changed could not be looked at: {checkpoint.after_why}.\n"
            f"The files from before it can be read with “recorder cat {checkpoint.number} PATH”."
        )
    if not changes.looked_since(connection, checkpoint.tree, checkpoint.capture_position):
        return "What its run changes is seen when the run ends."
    if known_tree(recording.views, checkpoint.tree).kind == "per-file":
        return "Of the files that tools named its run changed none; the others are not looked at here."
    return NO_CHANGE


def prompt_text(recording: Recording, digest: str, excerpt: str) -> str:
    """A prompt's full text; its excerpt where the text was forgotten."""
    try:
        return recording.log.body(digest).decode("utf-8", "replace")
    except RecorderError:
        return excerpt


def step_documents(
    connection: sqlite3.Connection, stream: str, run: str, number: int, found: Sequence[Change]
) -> list[dict[str, Any]]:
    """`steps` of the checkpoint with this number, in order. `found` are the changes of its run, as
    `changes_by_run` gives them; `files` is None where the state before or after the step was not captured."""
    calls = _calls_by_step(connection, stream, run)
    return [
        {
            "name": f"{number}.{one.ordinal}",
            "step": one.step,
            "calls": calls.get(one.step, []),
            "before": _capture_document(one.before),
            "after": _capture_document(one.after),
            "files": _files_between(found, one.before, one.after),
        }
        for one in steps_of(connection, stream, run)
    ]


def files_document(found: Sequence[Change]) -> list[dict[str, str]]:
    """`files` of a run or a step: what it changed from its first to its last state, and whose that is."""
    whose = {change.path: change for change in found}
    return [
        {
            **path_fields(path),
            "change": change_word(before, after),
            "by": whose[path].by,
            "why": whose[path].why,
        }
        for path, (before, after) in sorted(net_changes(found).items())
    ]


def _capture_document(capture: Capture | None) -> dict[str, str] | None:
    if capture is None:
        return None
    return {
        "capture": capture.capture,
        "captured_at": iso(capture.ended_at),
        "state": "complete" if capture.whole else "partial",
    }


def _files_between(
    found: Sequence[Change], before: Capture | None, after: Capture | None
) -> list[dict[str, str]] | None:
    if before is None or after is None:
        return None
    return files_document([one for one in found if before.position < one.position <= after.position])


def _calls_by_step(connection: sqlite3.Connection, stream: str, run: str) -> dict[str, list[dict[str, Any]]]:
    rows = connection.execute(
        "SELECT step, tool, call, writes, failed FROM calls WHERE stream = ? AND run = ? ORDER BY position",
        (ran_in(connection, stream, run), run),
    )
    steps: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        steps.setdefault(row["step"], []).append(
            {
                "call": row["call"],
                "tool": row["tool"],
                "writes": row["writes"],
                "failed": bool(row["failed"]) if row["failed"] is not None else None,
            }
        )
    return steps


def _stored_notes(recording: Recording, tree: str, commit: str) -> tuple[list[PathNote], list[PathNote]]:
    """Of a capture that the store has lost nothing is known any more."""
    with stored_files(recording, tree) as files:
        try:
            return files.notes(commit)
        except RecorderError as error:
            return [], [PathNote(b".", error.message)]


def _notes(recording: Recording, checkpoint: Checkpoint) -> tuple[list[PathNote], list[PathNote]]:
    if checkpoint.commit is None or checkpoint.tree is None or not checkpoint.restorable:
        return [], []
    skipped, unknown = _stored_notes(recording, checkpoint.tree, checkpoint.commit)
    if checkpoint.after_commit is not None:
        after, _ = _stored_notes(recording, checkpoint.tree, checkpoint.after_commit)
        skipped += _made_since(after, {note.path for note in skipped})
    known = {note.path for note in unknown}
    recorded = changes.unknown_paths(recording.views.connection, checkpoint.capture or "")
    return skipped, unknown + [note for note in recorded if note.path not in known]


def _made_since(after: Sequence[PathNote], before: Set[bytes]) -> list[PathNote]:
    """What captures leave out since the run; not what is ignored, which comes and goes."""
    return [
        PathNote(note.path, f"since the run: {note.why}")
        for note in after
        if note.path not in before and not note.why.startswith(IGNORED)
    ]
