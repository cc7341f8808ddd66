"""The difference between two captures of a work tree: only folders that differ are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from recorder.capturing.trees import UNREADABLE, Seen, Snapshot, unnamed
from recorder.states import PathChange, PathState

Lost = Callable[[bytes], Iterable[PathChange]]
"""The changes below a folder of which one side cannot be read."""


def difference(before: Snapshot, after: Snapshot, lost: Lost | None = None) -> list[PathChange]:
    """Every path whose state differs, in order of path; without times and without whose it is.

    Listed is what a reader of the history needs to know of: any difference where something stands on one
    side, and a path that was absent and is unknown, or the reverse. That an absent path is now skipped
    (somebody made an ignored file) is none. Where a folder cannot be read, `lost` is asked; without it,
    raises NotFound, IntegrityFailure or StoreFailure.
    """
    changes = _in_folders(before, after, lost)
    for path in before.outside.keys() | after.outside.keys():
        changes.pop(path, None)
        old, new = before.state(path), after.state(path)
        if matters(old, new):
            changes[path] = PathChange(path, old, new)
    return [changes[path] for path in sorted(changes)]


def _in_folders(before: Snapshot, after: Snapshot, lost: Lost | None) -> dict[bytes, PathChange]:
    changes: dict[bytes, PathChange] = {}
    if before.per_file or after.per_file:
        return changes
    stack = [(b"", before.root, after.root)]
    while stack:
        path, old_folder, new_folder = stack.pop()
        try:
            old, new = before.children(old_folder), after.children(new_folder)
        except UNREADABLE:
            if lost is None:
                raise
            changes.update((change.path, change) for change in lost(path))
            continue
        for name in old.keys() | new.keys():
            was = old.get(name) or unnamed(old_folder)
            now = new.get(name) or unnamed(new_folder)
            below = path + b"/" + name if path else name
            if matters(was.state, now.state):
                changes[below] = PathChange(below, was.state, now.state)
            if _inside_differs(was, now):
                stack.append((below, was, now))
    return changes


def _inside_differs(was: Seen, now: Seen) -> bool:
    return (was.tree, was.manifest) != (now.tree, now.manifest)


def matters(old: PathState, new: PathState) -> bool:
    """Whether a path with these two states is listed."""
    if old == new:
        return False
    return old.present or new.present or {old.kind, new.kind} == {"absent", "unknown"}
