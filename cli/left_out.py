"""What captures leave out by policy and a rewind therefore cannot deal with: said, not passed over."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.output import path_text
from recorder.errors import NotFound
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
    """Warnings for what was left out at the target's capture and is gone now, and for what was made since
    and is left out; `paths` narrows as in the plan. Ignored files come and go: they are told only when
    gone."""
    if target is None:
        return []
    then = {note.path: note for note in _skipped(tree, target) if inside(note.path, paths)}
    gone = [note for note in then.values() if not _stands(work_tree, note.path)]
    made = [
        note
        for note in _skipped(tree, newest or target)
        if note.path not in then
        and not note.why.startswith(IGNORED)
        and inside(note.path, paths)
        and not tree.state(target, note.path).present
        and _stands(work_tree, note.path)
    ]
    warnings = []
    if gone:
        warnings.append(
            Warned("left_out", f"left out of captures and gone now, so not put back: {_listed(gone)}")
        )
    if made:
        warnings.append(Warned("left_out", f"left out of captures, so left as they are: {_listed(made)}"))
    return warnings


def _skipped(tree: Tree, commit: str) -> list[PathNote]:
    try:
        return tree.notes(commit)[0]
    except NotFound:
        return []


def _stands(work_tree: WorkTree, path: bytes) -> bool:
    return os.path.lexists(os.path.join(work_tree.path, path))


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _listed(notes: Sequence[PathNote]) -> str:
    return listed([f"{path_text(note.path)} ({note.why})" for note in notes])
