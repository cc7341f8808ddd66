"""A capture as git objects: how what was found becomes a commit, and how a commit is read back.

The commit has no parent and no time: the same files, notes and position of the project's repository
always give the same id. Its tree holds `files/` (the work tree; an empty folder is an empty tree),
`manifest/` (per folder a blob `notes`, and a tree `+<name>` for each folder in it that has notes) and
`outside/` (a blob `index`, and each of its blobs under its id, so that they stay reachable).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import msgspec

from recorder.capturing.found import Found
from recorder.capturing.looking import Leaf
from recorder.capturing.manifest import (
    USUAL_FOLDER,
    Facts,
    Notes,
    Outside,
    decode_notes,
    decode_outside,
    encode,
    git_mode,
    usual_mode,
)
from recorder.capturing.store import BLOB, COMMIT, TREE
from recorder.errors import IntegrityFailure, NotFound, StoreFailure
from recorder.private import inside_never_captured
from recorder.states import ABSENT, SKIPPED, UNKNOWN, GitPosition, PathNote, PathState

Add = Callable[[bytes, bytes], bytes]
"""Takes an object (type, content) in and gives its raw id."""
Read = Callable[[bytes], bytes]
"""The content of an object by its raw id."""

UNREADABLE = (NotFound, IntegrityFailure, StoreFailure)
"""What reading a capture raises where the store has lost some of it."""
LOST = "the store has lost it"
"""Why a path is unknown in a capture that knew it."""

_FOLDER, _FILE, _LINK = 0o40000, 0o100644, 0o120000
_BY = b"recorder <recorder@localhost> 0 +0000"


# ---- writing


def write(found: Found, facts: Facts, add: Add) -> bytes:
    """Make a capture's objects; the raw id of its commit."""
    files, manifest = _write_folders(found, add)
    entries = [(b"files", _FOLDER, files), (b"manifest", _FOLDER, manifest or add(TREE, b""))]
    if found.outside:
        entries.append((b"outside", _FOLDER, _write_outside(found, add)))
    tree = add(TREE, _tree(entries))
    message = msgspec.json.encode(facts, order="deterministic")
    head = b"tree %b\nauthor %b\ncommitter %b\n\n" % (tree.hex().encode(), _BY, _BY)
    return add(COMMIT, head + b"capture\n\n" + message + b"\n")


def _write_folders(found: Found, add: Add) -> tuple[bytes, bytes]:
    """The trees of the root's files and of its manifest (empty where there are no notes)."""
    done: dict[bytes, tuple[bytes, bytes]] = {}
    for folder in reversed(found.folders()):
        files: list[tuple[bytes, int, bytes]] = []
        notes = Notes(mode=folder.mode)
        below: list[tuple[bytes, int, bytes]] = []
        for name, entry in folder.entries.items():
            if isinstance(entry, Leaf):
                _write_leaf(name, entry, files, notes)
            else:
                tree, manifest = done.pop(entry.path)
                files.append((name, _FOLDER, tree))
                if manifest:
                    below.append((b"+" + name, _FOLDER, manifest))
        if notes:
            below.append((b"notes", _FILE, add(BLOB, encode(_sorted(notes)))))
        done[folder.path] = add(TREE, _tree(files)), add(TREE, _tree(below)) if below else b""
    return done[b""]


def _write_leaf(name: bytes, leaf: Leaf, files: list[tuple[bytes, int, bytes]], notes: Notes) -> None:
    if leaf.kind == "file":
        mode = git_mode(leaf.mode)
        files.append((name, mode, leaf.oid))
        if leaf.mode != usual_mode(mode):
            notes.modes[name] = leaf.mode
    elif leaf.kind == "link":
        files.append((name, _LINK, leaf.oid))
    elif leaf.kind == "skipped":
        notes.skipped.setdefault(leaf.why, []).append(name)
    else:
        notes.unknown.setdefault(leaf.why, []).append(name)


def _sorted(notes: Notes) -> Notes:
    """The same notes in the one order that they are stored in."""
    return Notes(
        notes.mode,
        dict(sorted(notes.modes.items())),
        {why: sorted(names) for why, names in sorted(notes.skipped.items())},
        {why: sorted(names) for why, names in sorted(notes.unknown.items())},
    )


def _write_outside(found: Found, add: Add) -> bytes:
    index = [
        Outside(path, leaf.kind, leaf.mode, leaf.oid, leaf.why)
        for path, leaf in sorted(found.outside.items())
    ]
    blobs = {leaf.oid for leaf in found.outside.values() if leaf.oid}
    entries = [(oid.hex().encode(), _FILE, oid) for oid in blobs]
    return add(TREE, _tree([*entries, (b"index", _FILE, add(BLOB, encode(index)))]))


def _tree(entries: list[tuple[bytes, int, bytes]]) -> bytes:
    """A tree's content, in git's order: by name, a folder's as if it ended in a slash."""
    entries.sort(key=lambda entry: entry[0] + b"/" if entry[1] == _FOLDER else entry[0])
    return b"".join(b"%o %b\0%b" % (mode, name, oid) for name, mode, oid in entries)


# ---- reading


class Seen(msgspec.Struct, frozen=True):
    """What a capture says of one path; of a folder, also its trees of files and notes."""

    state: PathState
    tree: bytes = b""
    manifest: bytes = b""
    why: str = ""


_BELOW = {"unknown": Seen(UNKNOWN), "skipped": Seen(SKIPPED)}
_NOTHING = Seen(ABSENT)


def unnamed(above: Seen) -> Seen:
    """What is said of a path in a folder that has no entry of its own."""
    return _BELOW.get(above.state.kind, _NOTHING)


class Views:
    """Folders of captures, read and put together from files and notes; the last ones are kept."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.folder = functools.lru_cache(maxsize=4096)(self._folder)

    def children(self, seen: Seen) -> dict[bytes, Seen]:
        """By name; not to be changed."""
        return self.folder(seen.tree, seen.manifest) if seen.tree else {}

    def _folder(self, tree: bytes, manifest: bytes) -> dict[bytes, Seen]:
        beside = self.entries(manifest) if manifest else {}
        notes = self.notes(beside)
        seen: dict[bytes, Seen] = {}
        for name, (mode, oid) in self.entries(tree).items():
            if mode == _FOLDER:
                inner = beside.get(b"+" + name, (0, b""))[1]
                own = self.notes(self.entries(inner)).mode if inner else USUAL_FOLDER
                seen[name] = Seen(PathState("dir", own), oid, inner)
            elif mode == _LINK:
                seen[name] = Seen(PathState("link", 0, oid.hex()))
            else:
                seen[name] = Seen(PathState("file", notes.modes.get(name, usual_mode(mode)), oid.hex()))
        for state, reasons in ((SKIPPED, notes.skipped), (UNKNOWN, notes.unknown)):
            seen.update((name, Seen(state, why=why)) for why, names in reasons.items() for name in names)
        return seen

    def entries(self, tree: bytes) -> dict[bytes, tuple[int, bytes]]:
        """A git tree's entries: mode and raw id by name."""
        from dulwich.errors import ObjectFormatException
        from dulwich.objects import parse_tree

        try:
            parsed = parse_tree(self._read(tree), 20)
            return {name: (mode, bytes.fromhex(oid.decode())) for name, mode, oid in parsed}
        except (ObjectFormatException, ValueError) as error:
            raise IntegrityFailure(f"tree {tree.hex()} of the shadow store is damaged: {error}") from error

    def notes(self, beside: dict[bytes, tuple[int, bytes]]) -> Notes:
        """The notes in a folder's manifest."""
        standing = beside.get(b"notes")
        return decode_notes(self._read(standing[1])) if standing else Notes()

    def snapshot(self, commit: bytes) -> Snapshot:
        """A capture by its commit's raw id. Raises NotFound, IntegrityFailure, StoreFailure."""
        head, _, message = self._read(commit).partition(b"\n\n")
        if not head.startswith(b"tree "):
            raise IntegrityFailure(f"{commit.hex()} of the shadow store is no capture")
        try:
            facts = msgspec.json.decode(message.partition(b"\n\n")[2], type=Facts)
        except msgspec.DecodeError as error:
            raise IntegrityFailure(f"capture {commit.hex()} is damaged: {error}") from error
        top = self.entries(bytes.fromhex(head[5:45].decode()))
        outside: dict[bytes, Outside] = {}
        if b"outside" in top:
            index = self.entries(top[b"outside"][1])[b"index"][1]
            outside = {entry.path: entry for entry in decode_outside(self._read(index))}
        root = Seen(PathState("dir", USUAL_FOLDER), top[b"files"][1], top[b"manifest"][1])
        return Snapshot(self, facts, root, outside)


class Snapshot:
    """One capture, read where it is asked. What lies in a folder that the store has lost is unknown."""

    def __init__(self, views: Views, facts: Facts, root: Seen, outside: dict[bytes, Outside]) -> None:
        self._views, self.facts, self.root, self.outside = views, facts, root, outside

    @property
    def position(self) -> GitPosition | None:
        return self.facts.position

    @property
    def per_file(self) -> bool:
        return self.facts.kind == "per-file"

    def seen(self, path: bytes) -> Seen:
        """What the capture says of a path: absolute, or relative to the work tree."""
        try:
            return self.found(path)
        except UNREADABLE:
            return Seen(UNKNOWN, why=LOST)

    def found(self, path: bytes) -> Seen:
        """The same, where what is lost is no answer: raises as `children`."""
        if inside_never_captured(path):
            return _BELOW["skipped"]
        if path in self.outside:
            entry = self.outside[path]
            return Seen(PathState(entry.kind, entry.mode, entry.oid.hex()), why=entry.why)
        if path.startswith(b"/") or self.per_file:
            return _BELOW["skipped"]
        here = self.root
        for name in path.split(b"/") if path else ():
            here = self._views.children(here).get(name) or unnamed(here)
        return here

    def state(self, path: bytes) -> PathState:
        return self.seen(path).state

    def children(self, folder: Seen) -> dict[bytes, Seen]:
        """What lies in a folder, by name. Raises NotFound, IntegrityFailure, StoreFailure where that is
        lost."""
        return self._views.children(folder)

    def walk(self) -> Iterator[tuple[bytes, PathState]]:
        """Every path at which something stands. Raises as `children`."""
        for path, seen in self.below(b""):
            if seen.state.present and path not in self.outside:
                yield path, seen.state
        for path in sorted(self.outside):
            if (state := self.state(path)).present:
                yield path, state

    def notes(self) -> tuple[list[PathNote], list[PathNote]]:
        """What was skipped and what is unknown."""
        skipped, unknown = [], []
        beside = ((path, self.seen(path)) for path in sorted(self.outside))
        lost: list[bytes] = []
        inside = ((path, seen) for path, seen in self.below(b"", lost) if path not in self.outside)
        for path, seen in (*inside, *beside):
            if seen.state == SKIPPED:
                skipped.append(PathNote(path, seen.why))
            elif seen.state == UNKNOWN:
                unknown.append(PathNote(path, seen.why))
        return skipped, unknown + [PathNote(path or b".", LOST) for path in lost]

    def below(self, folder: bytes, lost: list[bytes] | None = None) -> Iterator[tuple[bytes, Seen]]:
        """Everything in a folder of the work tree and in those in it. Folders that cannot be read are put
        into `lost`; without one, raises as `children`."""
        start = self.seen(folder)
        if start.why == LOST and lost is None:
            raise NotFound(
                f"{folder.decode(errors='replace')} is not known any more: {LOST}", code="not_stored"
            )
        stack = [(folder, start)]
        while stack:
            path, here = stack.pop()
            try:
                children = self._views.children(here)
            except UNREADABLE:
                if lost is None:
                    raise
                lost.append(path)
                continue
            for name in sorted(children):
                below = path + b"/" + name if path else name
                yield below, children[name]
                if children[name].tree:
                    stack.append((below, children[name]))
