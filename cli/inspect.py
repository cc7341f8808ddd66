"""Everything about one checkpoint, put together for `recorder show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cli.files import attributed, stored_files
from cli.output import path_fields
from projections import changes, conversation
from projections.capture import known_tree
from projections.checkpoints import checkpoints_of
from projections.listing import (
    change_word,
    changes_by_run,
    checkpoint_document,
    net_changes,
    steps_of,
)
from recorder.errors import RecorderError
from recorder.history import Change
from recorder.states import PathNote

if TYPE_CHECKING:
    from cli.context import Recording
    from projections.checkpoints import Checkpoint
    from projections.sessions import SessionRow


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
    document = checkpoint_document(
        checkpoint,
        prompt,
        session.session,
        checkpoint.entry in active,
        ids.get(prompt.parent_prompt or ""),
        found,
    )
    document |= {
        "files": _files(found),
        "skipped": [{**path_fields(note.path), "why": note.why} for note in skipped],
        "unknown": [{**path_fields(note.path), "why": note.why} for note in unknown],
        "steps": steps_of(connection, session.stream, checkpoint.entry),
    }
    return document, prompt_text(recording, prompt.text, prompt.excerpt)


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
    return "Its run changed no file."


def prompt_text(recording: Recording, digest: str, excerpt: str) -> str:
    """A prompt's full text; its excerpt where the text was forgotten."""
    try:
        return recording.log.body(digest).decode("utf-8", "replace")
    except RecorderError:
        return excerpt


def _files(found: list[Change]) -> list[dict[str, str]]:
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


def _notes(recording: Recording, checkpoint: Checkpoint) -> tuple[list[PathNote], list[PathNote]]:
    if checkpoint.commit is None or checkpoint.tree is None or not checkpoint.restorable:
        return [], []
    with stored_files(recording, checkpoint.tree) as files:
        skipped, unknown = files.notes(checkpoint.commit)
    known = {note.path for note in unknown}
    recorded = changes.unknown_paths(recording.views.connection, checkpoint.capture or "")
    return skipped, unknown + [note for note in recorded if note.path not in known]
