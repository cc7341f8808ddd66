"""A capture that came after its moment: which paths may have changed since then, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from recorder.capturing.found import Folder, Found
from recorder.capturing.looking import Leaf
from recorder.capturing.manifest import USUAL_FILE
from recorder.capturing.trees import Snapshot
from recorder.states import SKIPPED, PathChange, PathState

WHY = "changed after the prompt was given and before it could be captured"


def paths(
    found: Found,
    before: Snapshot | None,
    delta: Iterable[PathChange],
    reference_at: int,
    *,
    all_of_it: bool,
    looked_at: int | None = None,
) -> list[bytes]:
    """Paths whose state cannot be told to be from before `reference_at` (ns): they changed later, and differ
    from the capture before, which began to read at `looked_at` (ns). `all_of_it` tells that this one came
    too late to compare with, as where there is none."""
    late = {change.path for change in delta if _latest(change, looked_at) > reference_at}
    for path, leaf in found.outside.items():
        first_seen = before is None or not before.state(path).known
        if first_seen and leaf.ctime > reference_at:
            late.add(path)
    if before is None or all_of_it:
        late.update(path for path, leaf in found.leaves() if leaf.ctime > reference_at)
        late.update(_in_moved_folders(found, reference_at))
    return sorted(late)


def _latest(change: PathChange, looked_at: int | None) -> int:
    """When a path changed at the latest. What is older than the look before and yet differs from what that
    saw came with a folder that was moved: only the folders above tell when."""
    if looked_at is not None and change.changed_at < looked_at:
        return max(change.changed_at, change.above_changed_at)
    return change.changed_at


def _in_moved_folders(found: Found, reference_at: int) -> Iterator[bytes]:
    """What lies in folders of which something else than their contents changed later: they may have been
    moved to where they are."""
    moved = set()
    for folder in found.folders():
        above = folder.path.rpartition(b"/")[0]
        if folder.path and (above in moved or folder.ctime > reference_at >= folder.mtime):
            moved.add(folder.path)
            yield from (
                folder.child(name) for name, entry in folder.entries.items() if isinstance(entry, Leaf)
            )


def overlay(
    found: Found, late: Iterable[bytes], before: Snapshot | None, earlier: Mapping[bytes | None, bytes]
) -> None:
    """Put what is known of the earlier state of these paths in the place of what stands there now: the
    blob id that `earlier` has, else that it is unknown."""
    for path in late:
        was = before.state(path) if before else SKIPPED
        leaf = Leaf("unknown", ctime=found.changed_at(path), why=WHY)
        if path in earlier:
            mode = was.mode if was.kind == "file" else _mode_at(found, path)
            leaf = Leaf("file", mode, earlier[path], leaf.ctime)
        _put(found, path, leaf, was)


def _mode_at(found: Found, path: bytes) -> int:
    leaf = found.outside.get(path) or found.nearest(path)[0]
    return leaf.mode if isinstance(leaf, Leaf) and leaf.kind == "file" else USUAL_FILE


def _put(found: Found, path: bytes, leaf: Leaf, was: PathState) -> None:
    """A folder that was there before is kept with its mode of then: its change time moves with every file in
    it, and says nothing of its own."""
    here, left = found.nearest(path)
    if path in found.outside:
        found.outside[path] = leaf
    elif not left and isinstance(here, Folder) and was.kind == "dir":
        here.mode = was.mode
    else:
        found.put(path, leaf)
