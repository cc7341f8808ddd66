"""What a scan found in a work tree, in memory: folders with their entries, before they become git trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from recorder.capturing.looking import Leaf
from recorder.states import PathNote


class Folder(msgspec.Struct):
    """A folder that was listed. `entries` holds everything in it that a capture has a word on; `mtime` and
    `ctime` are in ns."""

    path: bytes
    mode: int
    ctime: int
    mtime: int
    entries: dict[bytes, Leaf | Folder] = {}

    def child(self, name: bytes) -> bytes:
        """The path of an entry."""
        return self.path + b"/" + name if self.path else name


class Found(msgspec.Struct):
    """The whole of one look: the work tree's folders from `root`, and what was looked at beside them,
    by its path (absolute, or relative to the work tree for what lies in it)."""

    root: Folder
    outside: dict[bytes, Leaf] = {}

    def nearest(self, path: bytes) -> tuple[Leaf | Folder, bytes]:
        """The deepest thing found on the way to a relative path, and what of the path is left below it."""
        here: Leaf | Folder = self.root
        left = path
        while left and isinstance(here, Folder):
            name, _, rest = left.partition(b"/")
            entry = here.entries.get(name)
            if entry is None:
                break
            here, left = entry, rest
        return here, left

    def covers(self, path: bytes) -> bool:
        """Whether the folders say what stands at a relative path, were it only that nothing does."""
        here, _ = self.nearest(path)
        return isinstance(here, Folder) or here.kind != "skipped"

    def changed_at(self, path: bytes) -> int:
        """The change time of what stands at a path, or the time of the last change in the folder that it is
        gone from; 0 where neither is known."""
        if path in self.outside:
            return self.outside[path].ctime
        here, left = self.nearest(path)
        if isinstance(here, Leaf):
            return here.ctime
        return here.mtime if left else here.ctime

    def above_changed_at(self, path: bytes) -> int:
        """The latest change time of the folders above a path in the work tree; 0 outside it."""
        if path in self.outside:
            return 0
        here, latest = self.root, self.root.ctime
        for name in path.split(b"/")[:-1]:
            below = here.entries.get(name)
            if not isinstance(below, Folder):
                break
            here, latest = below, max(latest, below.ctime)
        return latest

    def put(self, path: bytes, leaf: Leaf) -> None:
        """Say something else of a relative path; where its folder is not there, of the first missing one."""
        here, left = self.nearest(path)
        if isinstance(here, Folder) and left:
            here.entries[left.partition(b"/")[0]] = leaf
        elif not left:
            above, _, name = path.rpartition(b"/")
            folder, _ = self.nearest(above)
            if isinstance(folder, Folder):
                folder.entries[name] = leaf

    def folders(self) -> list[Folder]:
        """Every folder, each before those in it."""
        order = [self.root]
        for folder in order:
            order.extend(entry for entry in folder.entries.values() if isinstance(entry, Folder))
        return order

    def summary(self) -> tuple[Counter[str], list[PathNote]]:
        """How many leaves there are of each kind, and what should have been read and was not."""
        counts = Counter(leaf.kind for leaf in self.outside.values())
        unknown = [PathNote(path, leaf.why) for path, leaf in self.outside.items() if leaf.kind == "unknown"]
        for folder in self.folders():
            for name, leaf in folder.entries.items():
                if isinstance(leaf, Folder) or (self.outside and folder.child(name) in self.outside):
                    continue
                counts[leaf.kind] += 1
                if leaf.kind == "unknown":
                    unknown.append(PathNote(folder.child(name), leaf.why))
        return counts, sorted(unknown, key=lambda note: note.path)

    def leaves(self) -> Iterator[tuple[bytes, Leaf]]:
        for folder in self.folders():
            for name, entry in folder.entries.items():
                if isinstance(entry, Leaf):
                    yield folder.child(name), entry
