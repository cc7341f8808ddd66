"""The files that a person names: how the store calls them, and whether there is anything by that name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.output import path_text
from recorder.errors import NotFound, UsageProblem

if TYPE_CHECKING:
    from cli.context import Recording
    from recorder.capture import Tree
    from recorder.states import PathState
    from recorder.worktree import WorkTree


def path_word(word: str) -> bytes:
    """The raw bytes of a file's name as it was typed. Raises UsageProblem for an empty one."""
    if not word:
        raise UsageProblem("an empty path names no file")
    return os.fsencode(word)


def relative_to_tree(path: bytes, root: bytes, cwd: bytes) -> bytes:
    """A path as the store names it. A relative one is tried from the current folder where that lies in
    the work tree, else it is taken as relative to the work tree; outside it is absolute."""
    inside = cwd == root or cwd.startswith(root.rstrip(b"/") + b"/")
    base = cwd if inside else root
    whole = os.path.normpath(os.path.join(base, path))
    if whole == root:
        return b""
    prefix = root.rstrip(b"/") + b"/"
    return whole[len(prefix) :] if whole.startswith(prefix) else whole


def check_paths(
    recording: Recording,
    tree: Tree,
    work_tree: WorkTree,
    paths: Sequence[bytes],
    commits: Sequence[str | None],
) -> None:
    """Raises NotFound for a path that is neither on disk, nor in one of these captures, nor among the
    changes ever recorded: a slip of the pen must not look like nothing to do."""
    for path in paths:
        if os.path.lexists(os.path.join(work_tree.path, path)):
            continue
        if any(_held(tree.state(commit, path), path) for commit in commits if commit):
            continue
        if not _ever_recorded(recording, work_tree, path):
            raise NotFound(
                f"there is no {path_text(path)}: not on disk, not in the checkpoint, and no recorded change "
                "names it",
                code="no_file",
            )


def _held(state: PathState, path: bytes) -> bool:
    """Whether a capture knows of the path; of what lies outside it knows nothing that it does not hold."""
    return state.kind != "absent" and not (state.kind == "skipped" and path.startswith(b"/"))


def _ever_recorded(recording: Recording, work_tree: WorkTree, path: bytes) -> bool:
    """Whether a recorded change, or a tool, named the path or one below it."""
    below, whole = path + b"/", os.path.join(work_tree.path, path)
    row = recording.views.connection.execute(
        "SELECT 1 FROM transitions WHERE tree = ? AND (path = ? OR substr(path, 1, ?) = ?)"
        " UNION SELECT 1 FROM named_paths WHERE path = ? LIMIT 1",
        (work_tree.stream.hex, path, len(below), below, whole),
    ).fetchone()
    return row is not None
