"""The scanning path of the capture engine: goes through a whole work tree and reads what may have changed.

First everything is listed, in waves of folders so that git is asked in bulk about what it does not
track; then what the stat cache does not know is read. No link is followed, nothing is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque

import msgspec

from recorder.capturing import repository
from recorder.capturing.choice import Choice
from recorder.capturing.filling import Listed, fill, hang
from recorder.capturing.found import Folder
from recorder.capturing.ignore import Ignore, Verdict, Zone, key_below
from recorder.capturing.looking import CHANGING, Contents, Leaf, OpenFolders, failed, left_out
from recorder.capturing.manifest import USUAL_FOLDER
from recorder.capturing.statcache import StatCache
from recorder.errors import StoreFailure
from recorder.policy import MAX_NESTED_FILES
from recorder.private import never_captured
from recorder.worktree import WorkTree

_WAVE = 256
"""Folders that are listed before git is asked about them."""

_GIT = "a repository's own, never captured and never touched"

_UNTOLD = "git cannot say whether it is ignored: a .gitignore above it is"

_LINKED = "a linked work tree of a git repository, recorded by itself"


class Nested(msgspec.Struct):
    """A nested repository: how many files it has, and whether the capture before this one holds some."""

    parent: Folder
    name: bytes
    above: Nested | None
    held_before: bool
    files: int = 0
    dropped: bool = False


class Place(msgspec.Struct):
    """A folder to be listed: where it hangs, and the rules that hold in it. `included` tells that the
    settings take in all of an ignored folder that it is or lies in; `untold`, why git cannot be asked
    about anything in it."""

    folder: Folder
    parent: Folder | None
    zone: Zone
    key: bytes
    nested: Nested | None
    included: bool
    untold: str | None = None

    @property
    def name(self) -> bytes:
        return self.folder.path.rpartition(b"/")[2]


class Question(msgspec.Struct):
    """A path that git is to be asked about, and where the answer is remembered, under what name."""

    path: bytes
    known: dict[bytes, bool]
    remembered: bytes


class Scan:
    """One scan; `now` is when it began (ns)."""

    def __init__(self, tree: WorkTree, rules: Ignore, choice: Choice, now: int) -> None:
        self._tree, self._rules, self._choice, self._now = tree, rules, choice, now
        self._queue: deque[Place] = deque()
        self._unread: list[tuple[Place, list[Listed]]] = []

    def run(self, folders: OpenFolders, cache: StatCache, contents: Contents) -> Folder:
        """The root with everything in it. Raises StoreFailure when the tree cannot be listed."""
        root = self._start(folders)
        while self._queue:
            wave = [self._queue.popleft() for _ in range(min(_WAVE, len(self._queue)))]
            listed = [(place, entries) for place in wave if (entries := self._list(place, folders))]
            verdicts = self._ask(listed)
            for place, entries in listed:
                self._sort(place, entries, verdicts)
        unread = ((place.folder, names) for place, names in self._unread if not _dropped(place.nested))
        fill(unread, folders, cache, contents, self._now)
        return root

    def _start(self, folders: OpenFolders) -> Folder:
        status = os.fstat(folders.root)
        root = Folder(b"", USUAL_FOLDER, status.st_ctime_ns, status.st_mtime_ns, {})
        zone = self._rules.zone(b"", self._tree.repository, self._now)
        self._queue.append(Place(root, None, zone, zone.key, None, False))
        return root

    # ---- listing

    def _list(self, place: Place, folders: OpenFolders) -> list[Listed]:
        """Everything in a folder; nothing where there is no going on with it."""
        if _dropped(place.nested):
            return []
        try:
            descriptor = folders.open(place.folder.path)
            try:
                listed = _names(descriptor)
            except FileNotFoundError:
                listed = _names_left(descriptor)
        except OSError as error:
            self._give_up(place, error)
            return []
        if not self._enter(place, dict(listed)):
            return []
        prefix = place.folder.path + b"/" if place.folder.path else b""
        return [(prefix + name, name, status) for name, status in listed if not never_captured(name)]

    def _give_up(self, place: Place, error: OSError) -> None:
        """An unreadable folder is unknown with all in it; one that is gone, or was swapped, says so."""
        if place.parent is None:
            raise StoreFailure(
                f"{os.fsdecode(self._tree.path)} cannot be listed: {error.strerror}"
            ) from error
        swapped = error.errno == errno.ENOTDIR
        hang(place.parent, place.name, Leaf("unknown", why=CHANGING) if swapped else failed(error))

    def _enter(self, place: Place, names: dict[bytes, os.stat_result]) -> bool:
        """Take in what the folder itself says: a repository of its own, an ignore file. False where it is
        not to be entered."""
        if place.parent is not None and b".git" in names:
            place.folder.entries[b".git"] = Leaf("skipped", ctime=names[b".git"].st_ctime_ns, why=_GIT)
            found = repository.at(self._tree.path.rstrip(b"/") + b"/" + place.folder.path)
            if found is not None and found.linked:
                hang(place.parent, place.name, Leaf("skipped", why=_LINKED))
                return False
            if found is not None:
                self._enter_nested(place, place.parent, found)
        rules = names.get(b".gitignore")
        if rules is not None and left_out(rules.st_mode):
            place.untold = f"{_UNTOLD} {left_out(rules.st_mode)}"
        place.key = key_below(place.key, rules, self._now)
        return True

    def _enter_nested(self, place: Place, parent: Folder, found: repository.Repository) -> None:
        place.zone = self._rules.zone(place.folder.path, found, self._now)
        place.key, place.untold = place.zone.key, None
        held = self._choice.held(place.folder.path) is not None
        place.nested = Nested(parent, place.name, place.nested, held)

    # ---- asking git

    def _ask(self, listed: list[tuple[Place, list[Listed]]]) -> dict[bytes, Verdict]:
        """The verdicts, by path, on what git does not track in these folders."""
        verdicts: dict[bytes, Verdict] = {}
        zones: dict[bytes, tuple[Zone, list[Question]]] = {}
        for place, entries in listed:
            known = self._rules.known(place.folder.path, place.key)
            tracks = place.zone.tracks
            for path, name, status in entries:
                if tracks(path) or left_out(status.st_mode):
                    continue
                if place.untold:
                    verdicts[path] = place.untold
                    continue
                remembered = name + b"/" if stat.S_ISDIR(status.st_mode) else name
                if remembered in known:
                    verdicts[path] = known[remembered]
                else:
                    questions = zones.setdefault(place.zone.prefix, (place.zone, []))[1]
                    questions.append(Question(path, known, remembered))
        for zone, questions in zones.values():
            answers = self._rules.ask(zone, [question.path for question in questions])
            for question, verdict in zip(questions, answers, strict=True):
                verdicts[question.path] = verdict
                if isinstance(verdict, bool):
                    question.known[question.remembered] = verdict
        return verdicts

    # ---- sorting

    def _sort(self, place: Place, entries: list[Listed], verdicts: dict[bytes, Verdict]) -> None:
        """Give every listed name its entry: left out, to be listed, or to be read."""
        unread: list[Listed] = []
        choice, into = self._choice, place.folder.entries
        for entry in entries:
            path, name, status = entry
            verdict = verdicts.get(path)
            leaf = choice.left_out(path, status, verdict, place.included)
            if leaf is not None:
                into[name] = leaf
            elif stat.S_ISDIR(status.st_mode):
                self._descend(place, name, path, status, verdict)
            elif place.nested is None or self._counts(place.nested, path):
                unread.append(entry)
            else:
                why = f"in a nested repository with more than {MAX_NESTED_FILES:,} files"
                into[name] = Leaf("skipped", ctime=status.st_ctime_ns, why=why)
        if unread:
            self._unread.append((place, unread))

    def _descend(
        self, place: Place, name: bytes, path: bytes, status: os.stat_result, verdict: Verdict | None
    ) -> None:
        mode = stat.S_IMODE(status.st_mode)
        folder = Folder(path, mode, status.st_ctime_ns, status.st_mtime_ns, {})
        place.folder.entries[name] = folder
        included = place.included or (verdict is True and self._choice.included(path))
        self._queue.append(
            Place(folder, place.folder, place.zone, place.key, place.nested, included, place.untold)
        )

    def _counts(self, nested: Nested | None, path: bytes) -> bool:
        """Count a file of a nested repository; False where it is one too many."""
        while nested is not None:
            nested.files += 1
            if nested.files > MAX_NESTED_FILES:
                if not nested.held_before:
                    why = f"a nested repository with more than {MAX_NESTED_FILES:,} files: per file"
                    hang(nested.parent, nested.name, Leaf("skipped", why=why))
                    nested.dropped = True
                    return False
                if self._choice.held(path) is None:
                    return False
            nested = nested.above
        return True


def _names(folder: int) -> list[tuple[bytes, os.stat_result]]:
    """Every name in an open folder with its status."""
    encode = os.fsencode
    with os.scandir(folder) as entries:
        return [(encode(entry.name), entry.stat(follow_symlinks=False)) for entry in entries]


def _names_left(folder: int) -> list[tuple[bytes, os.stat_result]]:
    """The same, where names vanish before their status is read."""
    listed = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            listed.append((os.fsencode(name), status))
    return listed


def _dropped(nested: Nested | None) -> bool:
    while nested is not None:
        if nested.dropped:
            return True
        nested = nested.above
    return False
