"""A work tree with its shadow store: looking at it, keeping what is there, and reading it back.

The caller holds the work tree's lock around `capture`, `release` and `collect`, and appends the events.
A capture writes nothing in the work tree and nothing in the project's repository.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType, TracebackType

import msgspec

from recorder.capturing import bygit, late, layout, mending, outside, refs, repository, trees
from recorder.capturing.batch import Batch
from recorder.capturing.choice import Choice, Surroundings
from recorder.capturing.difference import difference
from recorder.capturing.found import Folder, Found
from recorder.capturing.ignore import Ignore
from recorder.capturing.looking import OpenFolders
from recorder.capturing.manifest import USUAL_FOLDER, Facts, facts_of
from recorder.capturing.past import Past, changes_below, then
from recorder.capturing.scan import Scan
from recorder.capturing.statcache import StatCache
from recorder.capturing.store import Store
from recorder.capturing.trees import UNREADABLE, Snapshot, Views
from recorder.errors import IntegrityFailure, NotFound, StoreFailure
from recorder.home import Home
from recorder.policy import Policy
from recorder.states import UNKNOWN, GitPosition, PathChange, PathNote, PathState
from recorder.worktree import WorkTree, remember_kind, still_there

__all__ = ["Look", "Policy", "Tree"]


class Look(msgspec.Struct, frozen=True):
    """What a capture found. Times in ns; `delta` is against the capture before it; `skipped` and `files`
    are counts; `commit` is the capture's id, empty where nothing was stored; `written` counts objects."""

    began_at: int
    ended_at: int
    commit: str
    delta: tuple[PathChange, ...]
    unknown: tuple[PathNote, ...]
    skipped: int
    files: int
    git: GitPosition | None
    written: int


class _Wanted(msgspec.Struct, frozen=True):
    """Which moment's state a capture is to show, as the arguments of `Tree.capture` say; `outdated`: the
    capture before it was made after that moment; it began to read at `looked_at` (ns)."""

    reference_at: int | None
    deadline: int | None = None
    contents: Mapping[bytes, bytes] = MappingProxyType({})
    outdated: bool = False
    looked_at: int | None = None

    def moment(self, now: int) -> int | None:
        """The moment (ns), asked when all is read; None: what is there now."""
        if self.reference_at is None and self.deadline is not None and now > self.deadline:
            return self.deadline
        return self.reference_at


class Tree:
    """An open work tree. Not for several threads; another process may have the same one open.

    Opening writes nothing, and does not mind that the store is damaged: reading tells what is lost, and the
    next capture puts right what can be. `damaged` tells that one had to, and that contents may be lost.
    """

    def __init__(self, home: Home, tree: WorkTree, policy: Policy, past: Past = tuple) -> None:
        """`past` gives the captures of the work tree that the log has: what was there is put together from
        them where the store has lost it."""
        self._home, self._tree, self._policy, self._past = home, tree, policy, past
        self._store = Store(home.store(tree.stream))
        self.damaged = False
        self._torn = False
        self._cache = StatCache(home.tree(tree.stream) / "stat-cache")
        self._rules = Ignore(self._store.git_dir, tree.path)
        self._roots = outside.Roots(tree.path, os.path.realpath(os.fsencode(home.folder)))
        self._batch: Batch | None = None
        self._views = Views(self._read)
        self._asked: tuple[str, Snapshot] | None = None

    def __enter__(self) -> Tree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._cache.save()
        self._store.close()

    # ---- capturing

    def capture(
        self,
        *,
        previous: str | None,
        previous_at: int | None = None,
        looked_at: int | None = None,
        named: Collection[bytes] = (),
        restored: Collection[bytes] = (),
        reference_at: int | None = None,
        contents: Mapping[bytes, bytes] = MappingProxyType({}),
        deadline: int | None = None,
    ) -> Look:
        """Capture the work tree, durably. The delta is against `previous`, the commit of the capture before
        it; it is empty for the first one. Where the store has lost `previous`, or some of it, the store is
        mended, and the delta is what the past tells.

        `named` are absolute paths that tools named: kept although they are ignored or outside, now and
        from now on. `restored` are paths, relative or absolute, that an earlier capture had and that are
        back: kept whatever their size. What changed after `reference_at` (ns) is unknown, unless `contents`
        has, by absolute path, what stood there before; also what `previous` has of it, where that was
        first seen after it, at `previous_at` (ns). `looked_at` (ns) is when the last capture that saw
        `previous` began to read: what is older and differs came with a folder that was moved. Where reading
        is not done by `deadline` (ns), when the agent goes on, that moment is taken for it. Nothing is
        written where nothing changed.

        Raises Refused where the work tree is not the same any more, StoreFailure where the tree could not
        be listed or the store not be written: the capture is lost then.
        """
        outdated = previous_at is not None and reference_at is not None and previous_at > reference_at
        wanted = _Wanted(reference_at, deadline, contents, outdated, looked_at)
        self._prepare()
        written = 0
        with contextlib.suppress(NotFound, IntegrityFailure):
            look = self._capture(previous, named, wanted, restored, dry=False)
            if not self._torn:
                return look
            written = look.written
        self.mend()
        look = self._capture(previous, named, wanted, restored, dry=False)
        return msgspec.structs.replace(look, written=look.written + written)

    def look(
        self, *, previous: str | None, named: Collection[bytes] = (), reference_at: int | None = None
    ) -> Look:
        """What `capture` would find, with nothing stored."""
        with contextlib.suppress(StoreFailure):
            layout.prepare(self._store.folder)
        return self._capture(previous, named, _Wanted(reference_at), dry=True)

    def _capture(
        self,
        previous: str | None,
        named: Collection[bytes],
        wanted: _Wanted,
        restored: Collection[bytes] = (),
        *,
        dry: bool,
    ) -> Look:
        self._asked = None
        still_there(self._tree)
        began_at = time.time_ns()
        self._torn = False
        self._batch = batch = Batch(self._store, dry=dry)
        try:
            before = self._snapshot_before(previous)
            found = self._find(
                before or self._stand_in(previous), named, frozenset(restored), batch, began_at
            )
            reference_at = wanted.moment(time.time_ns())
            position, facts = self._position()
            commit = trees.write(found, facts, batch.add)
            after = self._views.snapshot(commit)
            delta = self._delta(found, previous, before, after)
            if reference_at is not None:
                unsure = late.paths(
                    found,
                    before,
                    delta,
                    reference_at,
                    all_of_it=wanted.outdated,
                    looked_at=wanted.looked_at,
                )
                if unsure:
                    earlier = {
                        self.key(path): batch.whole(content) for path, content in wanted.contents.items()
                    }
                    late.overlay(found, unsure, before, earlier)
                    commit = trees.write(found, facts, batch.add)
                    after = self._views.snapshot(commit)
                    delta = self._delta(found, previous, before, after)
            if before is not None and (project := self._tree.repository) is not None:
                delta = bygit.mark(delta, project, before.position, position, self.blob)
            still_there(self._tree)
            written = 0 if dry else self._keep(commit, batch)
            return _look(found, delta, position, began_at, "" if dry else commit.hex(), written)
        finally:
            self._batch = None

    def _prepare(self) -> None:
        self._store.prepare()
        remember_kind(self._home, self._tree)
        if self._store.suspect():
            self.mend()

    def mend(self) -> None:
        """Put right what can be of a damaged store; the next capture stores anew what it has lost."""
        self.damaged = True
        self._forget()
        self._store.close()
        mending.mend(self._home, self._tree, [moment.commit for moment in self._past()])

    def _snapshot_before(self, previous: str | None) -> Snapshot | None:
        if previous is None:
            return None
        try:
            return self._snapshot(previous)
        except UNREADABLE:
            self._torn = True
            return None

    def _stand_in(self, previous: str | None) -> Snapshot | None:
        """The newest capture that can be read, where the one before is lost: what was captured stays so."""
        for moment in self._past() if previous is not None else ():
            with contextlib.suppress(*UNREADABLE):
                return self._snapshot(moment.commit)
        return None

    def _find(
        self,
        before: Snapshot | None,
        named: Collection[bytes],
        restored: frozenset[bytes],
        batch: Batch,
        began_at: int,
    ) -> Found:
        try:
            with OpenFolders(self._tree.path) as folders:
                root = self._scan(before, folders, batch, began_at)
        except OSError as error:
            raise StoreFailure(
                f"{os.fsdecode(self._tree.path)} cannot be listed: {error.strerror}"
            ) from error
        found = Found(root, {})
        per_file = self._tree.kind == "per-file"
        keys = self._roots.keys(named) | restored | (before.outside.keys() if before else set())
        beside = [key for key in keys if key.startswith(b"/") or per_file or not found.covers(key)]
        found.outside = outside.look_at(
            beside,
            self._roots,
            self._cache,
            batch,
            self._policy.max_outside_bytes,
            lambda key: key in restored or (before is not None and before.state(key).present),
            began_at,
        )
        return found

    def _scan(self, before: Snapshot | None, folders: OpenFolders, batch: Batch, began_at: int) -> Folder:
        if self._tree.kind == "per-file":
            status = os.fstat(folders.root)
            return Folder(b"", USUAL_FOLDER, status.st_ctime_ns, status.st_mtime_ns, {})
        choice = Choice(self._policy, Surroundings(self._home, self._tree), before)
        return Scan(self._tree, self._rules, choice, began_at).run(folders, self._cache, batch)

    def _position(self) -> tuple[GitPosition | None, Facts]:
        project = self._tree.repository
        at = None if project is None else repository.position(project)
        return at, facts_of(self._tree.kind, at)

    def _delta(
        self, found: Found, previous: str | None, before: Snapshot | None, after: Snapshot
    ) -> list[PathChange]:
        if previous is None:
            return []

        def lost(folder: bytes) -> Iterator[PathChange]:
            self._torn = True
            return changes_below(folder, then(self._past, self._snapshot, folder), after, found)

        changes = difference(before, after, lost) if before else lost(b"")
        return [
            msgspec.structs.replace(
                change,
                changed_at=found.changed_at(change.path),
                above_changed_at=found.above_changed_at(change.path),
            )
            for change in sorted(changes, key=lambda change: change.path)
        ]

    def _keep(self, commit: bytes, batch: Batch) -> int:
        """Make the capture durable: its objects, then its ref; the number of objects written."""
        batch.flush()
        if not self._store.has_ref(commit.hex()):
            self._store.set_ref(commit.hex())
        return batch.written

    def keep(self, contents: Iterable[bytes]) -> None:
        """Store contents durably, under the work tree's lock. Nothing holds them until a capture finds them
        in a file. Raises StoreFailure."""
        batch = Batch(self._store, dry=False)
        for content in contents:
            batch.whole(content)
        batch.flush()

    # ---- reading back

    def key(self, path: bytes) -> bytes | None:
        """What a tool's absolute path is called in this work tree: its real place, links resolved, relative
        where it lies inside; None for what is never captured."""
        return self._roots.key(path)

    def state(self, commit: str, path: bytes) -> PathState:
        """What a capture says of a path, absolute or relative; unknown where the store has lost that."""
        return self.states(commit, [path])[path]

    def stored_state(self, commit: str, path: bytes) -> PathState:
        """The same for a reader of contents. Raises NotFound, IntegrityFailure or StoreFailure where the
        store has lost it."""
        return self._snapshot(commit).found(self._relative(path)).state

    def states(self, commit: str, paths: Collection[bytes]) -> dict[bytes, PathState]:
        try:
            snapshot = self._asked_for(commit)
        except UNREADABLE:
            return dict.fromkeys(paths, UNKNOWN)
        return {path: snapshot.state(self._relative(path)) for path in paths}

    def walk(self, commit: str) -> Iterator[tuple[bytes, PathState]]:
        """Every path at which something stood, folders too."""
        return self._snapshot(commit).walk()

    def notes(self, commit: str) -> tuple[list[PathNote], list[PathNote]]:
        """What the capture skipped, and what is unknown in it."""
        return self._snapshot(commit).notes()

    def diff(self, a: str, b: str) -> list[PathChange]:
        """What differs between two captures, in order of path."""
        return difference(self._snapshot(a), self._snapshot(b))

    def blob(self, oid: str) -> bytes:
        """A file's content, or a link's target. Raises NotFound, IntegrityFailure, StoreFailure."""
        return self._read(bytes.fromhex(oid))

    def holds(self, oid: str) -> bool:
        """Whether a content is stored and sound."""
        try:
            self.blob(oid)
        except UNREADABLE:
            return False
        return True

    def current(self, path: bytes) -> PathState:
        """What stands at a path now, relative to the work tree or absolute; links are not followed."""
        key = self._relative(path)
        batch = Batch(self._store, dry=True)
        leaf = outside.look_now(self._roots.absolute(key), batch)
        return leaf.state

    # ---- keeping house

    def release(self, commits: Collection[str]) -> bool:
        """Let captures go; whether `collect` has anything to give back for them. Raises StoreFailure."""
        self._prepare()
        refs.mend(self._store, ())
        self._store.release(commits)
        return any(bytes.fromhex(commit) in self._store.stored() for commit in commits)

    def collect(self, keep: Collection[str] = ()) -> None:
        """Give back the room of what only released captures held; the captures `keep` stay, whatever became
        of their refs. Raises StoreFailure, with the code `no_room` where the disk is too full for it."""
        self._forget()
        self._prepare()
        refs.mend(self._store, keep)
        self._store.collect()

    def bytes_used(self) -> int:
        """Bytes on disk of all that is kept of this work tree."""
        return self._store.bytes_used()

    def fsck(self) -> None:
        """Check the store with git. Raises StoreFailure."""
        self._store.fsck()

    def _read(self, oid: bytes) -> bytes:
        return self._batch.read(oid) if self._batch else self._store.read(oid)[1]

    def _snapshot(self, commit: str) -> Snapshot:
        return self._views.snapshot(bytes.fromhex(commit))

    def _asked_for(self, commit: str) -> Snapshot:
        """The same, for questions that come one path at a time: the last one is kept."""
        if self._asked is None or self._asked[0] != commit:
            self._asked = commit, self._snapshot(commit)
        return self._asked[1]

    def _forget(self) -> None:
        self._views.folder.cache_clear()
        self._asked = None

    def _relative(self, path: bytes) -> bytes:
        prefix = self._tree.path.rstrip(b"/") + b"/"
        return path[len(prefix) :] if path.startswith(prefix) else path


def _look(
    found: Found,
    delta: list[PathChange],
    position: GitPosition | None,
    began_at: int,
    commit: str,
    written: int,
) -> Look:
    counts, unknown = found.summary()
    return Look(
        began_at=began_at,
        ended_at=time.time_ns(),
        commit=commit,
        delta=tuple(delta),
        unknown=tuple(unknown),
        skipped=counts["skipped"],
        files=counts["file"] + counts["link"],
        git=position,
        written=written,
    )
