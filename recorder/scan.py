"""The scanning path of the capture engine: goes through a whole work tree and reads what may have changed.

First everything is listed, and what is left out is decided, in waves of folders so that git is asked in
bulk; then what the stat cache does not know is read. No link is followed, nothing is written.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from fnmatch import fnmatchcase

import msgspec

from recorder import events, repository
from recorder.errors import StoreFailure
from recorder.found import Folder
from recorder.home import Home
from recorder.ignore import Ignore, Verdict, Zone, key_below
from recorder.looking import (
    CHANGING,
    Contents,
    Leaf,
    OpenFolders,
    failed,
    left_out,
    look,
)
from recorder.manifest import USUAL_FOLDER
from recorder.patterns import Patterns
from recorder.policy import (
    MAX_DEPTH,
    MAX_NESTED_FILES,
    MAX_SMALL_IGNORED_BYTES,
    MAX_SMALL_IGNORED_FILES,
    SMALL_IGNORED,
    Policy,
    size,
)
from recorder.private import never_captured
from recorder.statcache import Folder as CachedFolder
from recorder.statcache import StatCache, known_id, record
from recorder.store import LARGE
from recorder.trees import Seen, Snapshot
from recorder.worktree import WorkTree

_WAVE = 256
"""Folders that are listed before git is asked about them."""

_GIT_IGNORE = b".gitignore"


class Nested(msgspec.Struct):
    """A nested repository: how many files it has, and whether the capture before this one holds some."""

    parent: Folder
    name: bytes
    above: Nested | None
    held_before: bool
    files: int = 0
    dropped: bool = False


class Place(msgspec.Struct):
    """A folder to be listed: where it hangs, the rules that hold in it, and what is known of it."""

    folder: Folder
    parent: Folder | None
    zone: Zone
    key: bytes
    nested: Nested | None
    included: bool
    before: Seen | None
    listed: list[tuple[bytes, os.stat_result]] = []


class Surroundings:
    """What a scan must not enter: the recorder's home, and folders that have a store of their own."""

    def __init__(self, home: Home, tree: WorkTree) -> None:
        status = home.folder.stat()
        self._home = (status.st_dev, status.st_ino)
        self._root = tree.path.rstrip(b"/")
        self._stores = {entry.name for entry in home.trees.iterdir()} - {tree.stream.hex}

    def claim(self, path: bytes, status: os.stat_result) -> str | None:
        """Why this folder belongs to something else, or None."""
        if (status.st_dev, status.st_ino) == self._home:
            return "the recorder's own home"
        if self._stores:
            stream = events.tree_stream(self._root + b"/" + path, status.st_dev, status.st_ino)
            if stream.hex in self._stores:
                return "a work tree that is recorded by itself"
        return None


class Scan:
    """One scan. `before` is the capture before this one; `now` when the scan began (ns)."""

    def __init__(
        self,
        tree: WorkTree,
        policy: Policy,
        surroundings: Surroundings,
        rules: Ignore,
        before: Snapshot | None,
        now: int,
    ) -> None:
        self._tree, self._policy, self._rules = tree, policy, rules
        self._surroundings, self._before, self._now = surroundings, before, now
        self._exclude = Patterns(policy.exclude)
        self._include = Patterns(policy.include_ignored)
        self._small_ignored = 0
        self._queue: deque[Place] = deque()
        self._unread: list[tuple[Place, list[tuple[bytes, os.stat_result]]]] = []

    def run(self, folders: OpenFolders, cache: StatCache, contents: Contents) -> Folder:
        """The root with everything in it. Raises StoreFailure when the tree cannot be listed."""
        root = self._root(folders)
        while self._queue:
            wave = [self._queue.popleft() for _ in range(min(_WAVE, len(self._queue)))]
            listed = [place for place in wave if self._list(place, folders)]
            verdicts = self._ask(listed)
            for place in listed:
                self._sort(place, verdicts)
                place.listed = []
        self._read(folders, cache, contents)
        return root

    # ---- listing

    def _root(self, folders: OpenFolders) -> Folder:
        status = os.fstat(folders.root)
        root = Folder(b"", USUAL_FOLDER, status.st_ctime_ns, status.st_mtime_ns, {})
        zone = self._rules.zone(b"", self._tree.repository, self._now)
        seen = self._before.root if self._before else None
        self._queue.append(Place(root, None, zone, zone.key, None, False, seen))
        return root

    def _list(self, place: Place, folders: OpenFolders) -> bool:
        """Fill `place.listed`; False where there is nothing to go on with."""
        if _dropped(place.nested):
            return False
        try:
            with os.scandir(folders.open(place.folder.path)) as entries:
                place.listed = [
                    (os.fsencode(entry.name), entry.stat(follow_symlinks=False)) for entry in entries
                ]
        except FileNotFoundError:
            return self._list_carefully(place, folders)
        except OSError as error:
            return self._give_up(place, error)
        return self._enter(place)

    def _list_carefully(self, place: Place, folders: OpenFolders) -> bool:
        """A name vanished between the listing and its status, or the folder did."""
        place.listed = []
        try:
            descriptor = folders.open(place.folder.path)
            for name in os.listdir(descriptor):
                try:
                    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                place.listed.append((os.fsencode(name), status))
        except OSError as error:
            return self._give_up(place, error)
        return self._enter(place)

    def _give_up(self, place: Place, error: OSError) -> bool:
        """An unreadable folder is unknown with all in it; one that is gone, or was swapped, says so."""
        leaf = Leaf("unknown", why=CHANGING) if error.errno == errno.ENOTDIR else failed(error)
        if place.parent is None:
            raise StoreFailure(
                f"{os.fsdecode(self._tree.path)} cannot be listed: {error.strerror}"
            ) from error
        _hang(place.parent, _name(place.folder), leaf)
        return False

    def _enter(self, place: Place) -> bool:
        """Take in what the folder itself says: a repository of its own, an ignore file."""
        if place.parent is not None and any(name == b".git" for name, _ in place.listed):
            found = repository.at(self._tree.path.rstrip(b"/") + b"/" + place.folder.path)
            if found is not None and found.linked:
                why = "a linked work tree of a git repository, recorded by itself"
                _hang(place.parent, _name(place.folder), Leaf("skipped", why=why))
                return False
            if found is not None:
                self._enter_nested(place, found)
        status = next((status for name, status in place.listed if name == _GIT_IGNORE), None)
        place.key = key_below(place.key, status, self._now)
        return True

    def _enter_nested(self, place: Place, found: repository.Repository) -> None:
        assert place.parent is not None
        place.zone = self._rules.zone(place.folder.path, found, self._now)
        place.key = place.zone.key
        held = place.before is not None and place.before.state.kind == "dir"
        place.nested = Nested(place.parent, _name(place.folder), place.nested, held)

    # ---- asking git

    def _ask(self, places: list[Place]) -> dict[bytes, Verdict]:
        """The verdicts, by path, of what git does not track in these folders."""
        verdicts: dict[bytes, Verdict] = {}
        open_questions: dict[bytes, tuple[Zone, list[tuple[bytes, dict[bytes, bool], bytes]]]] = {}
        for place in places:
            known = self._rules.known(place.folder.path, place.key)
            for name, status in place.listed:
                path = place.folder.child(name)
                if never_captured(name) or left_out(status.st_mode) or place.zone.tracks(path):
                    continue
                remembered = name + b"/" if stat.S_ISDIR(status.st_mode) else name
                if remembered in known:
                    verdicts[path] = known[remembered]
                else:
                    questions = open_questions.setdefault(place.zone.prefix, (place.zone, []))[1]
                    questions.append((path, known, remembered))
        for zone, questions in open_questions.values():
            answers = self._rules.ask(zone, [path for path, _, _ in questions])
            for (path, known, remembered), verdict in zip(questions, answers, strict=True):
                verdicts[path] = verdict
                if isinstance(verdict, bool):
                    known[remembered] = verdict
        return verdicts

    # ---- deciding

    def _sort(self, place: Place, verdicts: dict[bytes, Verdict]) -> None:
        """Give every listed name its entry: left out, to be listed, or to be read."""
        before = self._before.children(place.before) if self._before and place.before else {}
        unread: list[tuple[bytes, os.stat_result]] = []
        for name, status in place.listed:
            if never_captured(name):
                continue
            seen = before.get(name)
            leaf = self._left_out(place, name, status, verdicts, seen)
            if leaf is not None:
                place.folder.entries[name] = leaf
            elif stat.S_ISDIR(status.st_mode):
                self._descend(place, name, status, verdicts, seen)
            elif self._counts(place.nested, seen):
                unread.append((name, status))
            else:
                why = f"in a nested repository with more than {MAX_NESTED_FILES:,} files"
                place.folder.entries[name] = Leaf("skipped", why=why)
        if unread:
            self._unread.append((place, unread))

    def _left_out(
        self,
        place: Place,
        name: bytes,
        status: os.stat_result,
        verdicts: dict[bytes, Verdict],
        seen: Seen | None,
    ) -> Leaf | None:
        """The leaf for what is not captured, or None. What was captured before stays, whatever git says
        and however large it is; what the settings exclude does not."""
        path, is_folder = place.folder.child(name), stat.S_ISDIR(status.st_mode)
        why = left_out(status.st_mode)
        if why is None and is_folder:
            why = self._surroundings.claim(path, status)
            if path.count(b"/") >= MAX_DEPTH:
                why = f"nested deeper than {MAX_DEPTH:,} folders"
        if why is None and self._exclude and self._exclude.match(path, is_folder):
            why = "excluded by the settings"
        if why is not None:
            return Leaf("skipped", ctime=status.st_ctime_ns, why=why)
        if seen is not None and seen.state.present:
            return None
        return self._ruled_out(place, path, status, verdicts)

    def _ruled_out(
        self, place: Place, path: bytes, status: os.stat_result, verdicts: dict[bytes, Verdict]
    ) -> Leaf | None:
        tracked = path not in verdicts
        verdict = verdicts.get(path, False)
        if isinstance(verdict, str):
            return Leaf("unknown", ctime=status.st_ctime_ns, why=verdict)
        if verdict and not self._wanted_all_the_same(place, path, status):
            return Leaf("skipped", ctime=status.st_ctime_ns, why="ignored by git's rules")
        limit = self._policy.max_untracked_bytes
        if stat.S_ISREG(status.st_mode) and not tracked and status.st_size > limit:
            return Leaf("skipped", ctime=status.st_ctime_ns, why=f"untracked and larger than {size(limit)}")
        return None

    def _wanted_all_the_same(self, place: Place, path: bytes, status: os.stat_result) -> bool:
        is_folder = stat.S_ISDIR(status.st_mode)
        if place.included:
            return True
        if self._include and (
            self._include.match(path, is_folder) or (is_folder and self._include.lead_into(path))
        ):
            return True
        if (
            stat.S_ISREG(status.st_mode)
            and status.st_size <= MAX_SMALL_IGNORED_BYTES
            and self._small_ignored < MAX_SMALL_IGNORED_FILES
            and any(fnmatchcase(path.rpartition(b"/")[2], pattern) for pattern in SMALL_IGNORED)
        ):
            self._small_ignored += 1
            return True
        return False

    def _descend(
        self,
        place: Place,
        name: bytes,
        status: os.stat_result,
        verdicts: dict[bytes, Verdict],
        seen: Seen | None,
    ) -> None:
        path = place.folder.child(name)
        mode = stat.S_IMODE(status.st_mode)
        folder = Folder(path, mode, status.st_ctime_ns, status.st_mtime_ns, {})
        place.folder.entries[name] = folder
        included = place.included or (verdicts.get(path) is True and self._include.match(path, True))
        self._queue.append(Place(folder, place.folder, place.zone, place.key, place.nested, included, seen))

    def _counts(self, nested: Nested | None, seen: Seen | None) -> bool:
        """Count a file of a nested repository; False where it is one too many."""
        while nested is not None:
            nested.files += 1
            if nested.files > MAX_NESTED_FILES:
                if not nested.held_before:
                    why = f"a nested repository with more than {MAX_NESTED_FILES:,} files: per file"
                    nested.parent.entries[nested.name] = Leaf("skipped", why=why)
                    nested.dropped = True
                    return False
                if seen is None or not seen.state.present:
                    return False
            nested = nested.above
        return True

    # ---- reading

    def _read(self, folders: OpenFolders, cache: StatCache, contents: Contents) -> None:
        known, fresh, changed = cache.folders, {}, False
        for place, names in self._unread:
            if _dropped(place.nested):
                continue
            cached = known.get(place.folder.path, {})
            records: CachedFolder = {}
            changed |= self._read_folder(place.folder, names, folders, (cached, records), contents)
            fresh[place.folder.path] = records
            changed |= len(records) != len(cached)
        cache.replace(fresh, changed=changed or len(fresh) != len(known))

    def _read_folder(
        self,
        folder: Folder,
        names: list[tuple[bytes, os.stat_result]],
        folders: OpenFolders,
        caches: tuple[CachedFolder, CachedFolder],
        contents: Contents,
    ) -> bool:
        """Give every name its leaf; True where something had to be read."""
        cached, records = caches
        unread = []
        for name, status in names:
            standing = cached.get(name)
            oid = known_id(standing, status)
            if oid is None or standing is None or not contents.holds(oid):
                unread.append(name)
                continue
            records[name] = standing
            is_link = stat.S_ISLNK(status.st_mode)
            mode = 0 if is_link else stat.S_IMODE(status.st_mode)
            folder.entries[name] = Leaf("link" if is_link else "file", mode, oid, status.st_ctime_ns)
        for name in unread:
            leaf, seen = self._look(folder, name, folders, contents)
            _hang(folder, name, leaf)
            if seen is not None and leaf.oid:
                records[name] = record(seen, leaf.oid, self._now)
        return bool(unread)

    def _look(
        self, folder: Folder, name: bytes, folders: OpenFolders, contents: Contents
    ) -> tuple[Leaf, os.stat_result | None]:
        try:
            descriptor = folders.open(folder.path)
        except OSError as error:
            return failed(error), None
        leaf, status = look(descriptor, name, contents, LARGE)
        if leaf.kind == "dir":
            return Leaf("unknown", ctime=leaf.ctime, why=CHANGING), None
        return leaf, status


def _hang(folder: Folder, name: bytes, leaf: Leaf) -> None:
    """Put a leaf into its folder; what is gone has no entry."""
    if leaf.kind == "absent":
        folder.entries.pop(name, None)
    else:
        folder.entries[name] = leaf


def _name(folder: Folder) -> bytes:
    return folder.path.rpartition(b"/")[2]


def _dropped(nested: Nested | None) -> bool:
    while nested is not None:
        if nested.dropped:
            return True
        nested = nested.above
    return False
