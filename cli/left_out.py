"""What captures leave out by policy and a rewind therefore cannot deal with: said, not passed over."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.output import path_text
from recorder.capturing.looking import CHANGING
from recorder.errors import IntegrityFailure, NotFound, StoreFailure
from recorder.planning.planned import Warned
from recorder.planning.routes import inside

if TYPE_CHECKING:
    from recorder.capture import Tree
    from recorder.states import PathNote
    from recorder.worktree import WorkTree

NAMED = 5
"""Paths that a warning names; it counts the others."""
IGNORED = "ignored"


def left_out_warnings(
    tree: Tree, work_tree: WorkTree, target: str | None, newest: str | None, paths: tuple[bytes, ...]
) -> list[Warned]:
    """Warnings for what was left out at the target's capture and is gone now, for what is left out only
    since, and for what cannot be read any more; `paths` narrows as in the plan. Ignored files come and go:
    they are told only when gone."""
    if target is None:
        return []
    skipped_then, unknown_then = _noted(tree, target, paths)
    skipped, unknown = _noted(tree, newest or target, paths)
    gone = [note for note in skipped_then.values() if not _stands(work_tree, note.path)]
    made = [
        note
        for note in skipped.values()
        if note.path not in skipped_then
        and not note.why.startswith(IGNORED)
        and _stands(work_tree, note.path)
    ]
    unread = [
        note
        for note in unknown.values()
        if note.path not in unknown_then
        and tree.state(target, note.path).known
        and _still_unknown(tree, note)
    ]
    warnings = []
    if gone:
        warnings.append(
            Warned("left_out", f"left out of captures and gone now, so not put back: {_listed(gone)}")
        )
    if made:
        warnings.append(Warned("left_out", f"left out of captures, so left as they are: {_listed(made)}"))
    if unread:
        warnings.append(Warned("unreadable", f"not known now, so left as they are: {_listed(unread)}"))
    return warnings


def _still_unknown(tree: Tree, note: PathNote) -> bool:
    """What could not be read may be readable by now; what git could not be asked about is as it was."""
    state = tree.current(note.path)
    return not state.known or (state.present and not note.why.startswith((CHANGING, "cannot be read")))


def _noted(
    tree: Tree, commit: str, paths: tuple[bytes, ...]
) -> tuple[dict[bytes, PathNote], dict[bytes, PathNote]]:
    """What a capture left out and what it could not read, by path."""
    try:
        skipped, unknown = tree.notes(commit)
    except (NotFound, IntegrityFailure, StoreFailure):
        return {}, {}
    return _within(skipped, paths), _within(unknown, paths)


def _within(notes: Sequence[PathNote], paths: tuple[bytes, ...]) -> dict[bytes, PathNote]:
    return {note.path: note for note in notes if inside(note.path, paths)}


def _stands(work_tree: WorkTree, path: bytes) -> bool:
    return os.path.lexists(os.path.join(work_tree.path, path))


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _listed(notes: Sequence[PathNote]) -> str:
    return listed([f"{path_text(note.path)} ({note.why})" for note in notes])
