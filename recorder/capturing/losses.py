"""What captures have lost that the store does not hold any more, and storing what is left of them.

What is left is a capture of its own, in which every path that is lost is unknown: the store is then whole for
git, and nothing else has to know of losses.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from recorder.capturing import trees
from recorder.capturing.found import Folder, Found
from recorder.capturing.looking import Leaf
from recorder.capturing.manifest import USUAL_FOLDER
from recorder.capturing.trees import LOST, UNREADABLE, Seen, Snapshot, Views
from recorder.states import PathNote, PathState


class Loss(msgspec.Struct, frozen=True):
    """What a capture lost: everything (`whole`), or just what was at `paths`, each with the reason. A path
    that is a folder stands for all that was in it. `contents` are the lost blobs of the paths, by path."""

    commit: str
    whole: bool
    why: str
    paths: tuple[PathNote, ...] = ()
    contents: dict[bytes, str] = {}


class Losses:
    """Finds the losses of captures; a folder that several captures share is read once."""

    def __init__(self, views: Views, sound: Collection[bytes]) -> None:
        """`sound` are the raw ids of the objects that are stored and whole."""
        self._views, self._sound = views, sound
        self._known: dict[tuple[bytes, bytes], dict[bytes, str]] = {}

    def of(self, commit: str) -> Loss | None:
        """None where a capture is whole."""
        try:
            snapshot = self._views.snapshot(bytes.fromhex(commit))
            self._views.children(snapshot.root)
        except UNREADABLE as error:
            return Loss(commit, True, f"{LOST}: {error.message}")
        lost = dict(self._below(snapshot.root))
        for path, entry in snapshot.outside.items():
            if entry.oid and entry.oid not in self._sound:
                lost[path] = entry.oid.hex()
        if not lost:
            return None
        notes = tuple(PathNote(path, LOST) for path in sorted(lost))
        return Loss(commit, False, LOST, notes, {path: oid for path, oid in lost.items() if oid})

    def _below(self, folder: Seen) -> dict[bytes, str]:
        """By path relative to the folder: the blob that is lost, or nothing for a folder that is."""
        key = (folder.tree, folder.manifest)
        if key not in self._known:
            lost: dict[bytes, str] = {}
            for name, seen in self._views.children(folder).items():
                lost |= self._at(name, seen)
            self._known[key] = lost
        return self._known[key]

    def _at(self, name: bytes, seen: Seen) -> dict[bytes, str]:
        if seen.tree:
            try:
                return {name + b"/" + path: oid for path, oid in self._below(seen).items()}
            except UNREADABLE:
                return {name: ""}
        oid = seen.state.oid
        return {name: oid} if oid and bytes.fromhex(oid) not in self._sound else {}


def remainder(snapshot: Snapshot, loss: Loss) -> Found:
    """A capture without what it lost."""
    lost = {note.path for note in loss.paths}
    root = Folder(b"", USUAL_FOLDER, 0, 0)
    folders = {b"": root}
    for path, seen in snapshot.below(b"", []):
        above, _, name = path.rpartition(b"/")
        if seen.tree and path not in lost:
            folders[path] = Folder(path, seen.state.mode, 0, 0)
            folders[above].entries[name] = folders[path]
        else:
            folders[above].entries[name] = _leaf(seen.state, seen.why, path in lost)
    beside = {path: snapshot.seen(path) for path in snapshot.outside}
    return Found(root, {path: _leaf(seen.state, seen.why, path in lost) for path, seen in beside.items()})


def _leaf(state: PathState, why: str, lost: bool) -> Leaf:
    if lost:
        return Leaf("unknown", why=LOST)
    return Leaf(state.kind, state.mode, bytes.fromhex(state.oid), 0, why)


def store_remainder(views: Views, loss: Loss, add: trees.Add) -> bytes:
    """Make the objects of what is left of a capture; the raw id of its commit."""
    snapshot = views.snapshot(bytes.fromhex(loss.commit))
    return trees.write(remainder(snapshot, loss), snapshot.facts, add)
