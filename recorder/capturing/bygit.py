"""Which changes between two captures were git's own: content that came and went with HEAD, with what was
set aside, or with a merge in progress.

Asked of the project's repository, which is only read. What a commit recorded was made by somebody before
it; what a path held is followed from HEAD to HEAD, and it is git's where a move of git's put it there last.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

import msgspec

from recorder.capturing.heads import NOTHING, Entry, Held, Move, held_by, moves_between, sides_of
from recorder.capturing.repository import Repository, stashes
from recorder.errors import IntegrityFailure, NotFound, StoreFailure
from recorder.planning.spans import parents
from recorder.states import GitPosition, PathChange, PathState

Blob = Callable[[str], bytes]
"""The content of a stored blob by its hex id."""

LOOKED_AT = 3
"""Stashes that are looked at where it is not known which of them are new."""


def mark(
    changes: Iterable[PathChange],
    repository: Repository,
    before: GitPosition | None,
    now: GitPosition | None,
    blob: Blob,
) -> list[PathChange]:
    """The changes, with those marked whose content git brought.

    Marks none by HEAD where how it moved is not in its reflog, and none where git cannot be asked.
    """
    changes = list(changes)
    if not changes or before is None or now is None or before.head is None or now.head is None:
        return changes
    gits: set[bytes] = set()
    for by in (_by_head, _by_stash, _by_merge):
        with contextlib.suppress(StoreFailure):
            gits |= by(changes, repository, before, now, blob)
    gits |= _folders(changes, gits)
    return [msgspec.structs.replace(one, by_git=True) if one.path in gits else one for one in changes]


# ---- HEAD


def _by_head(
    changes: Iterable[PathChange], repository: Repository, before: GitPosition, now: GitPosition, blob: Blob
) -> set[bytes]:
    moves = moves_between(repository, before, now)
    return {change.path for change in changes if moves and _brought(change, moves, blob)}


def _brought(change: PathChange, moves: Iterable[Move], blob: Blob) -> bool:
    """Whether a move of git's put the content there that stands at the path, following it from the content
    before. Where somebody's work lay in between and a commit recorded it, git holds it."""
    first: Entry | None = None
    here: Entry | None = None
    came = False
    for move in moves:
        if change.path not in move.sides:
            continue
        old, new = move.sides[change.path]
        if old.oid != new.oid and _stands(change, here, new, blob):
            continue
        if change.path in move.recorded:
            first, here, came = first or old, new, False
        elif _stands(change, here, old, blob):
            first, here, came = first or old, new, True
    return (
        came
        and here is not None
        and first is not None
        and _is(change.after, here, blob)
        and _turned(change, first, here)
    )


def _stands(change: PathChange, here: Entry | None, entry: Entry, blob: Blob) -> bool:
    """Whether an entry's content is what the path holds at this point: the content before, or that of the
    last move."""
    return _is(change.before, entry, blob) if here is None else here.oid == entry.oid


# ---- what was set aside


def _by_stash(
    changes: Iterable[PathChange], repository: Repository, before: GitPosition, now: GitPosition, blob: Blob
) -> set[bytes]:
    """What `git stash` took away or brought back; also what an operation set aside on its way."""
    if before.stash is None and now.stash is None:
        return set()
    assert before.head is not None and now.head is not None
    listed = stashes(repository)
    pushed, popped = _came(listed, before, now), _went(listed, before, now)
    gits: set[bytes] = set()
    for commit in pushed:
        held = held_by(repository, commit, now.head)
        gits |= {one.path for one in changes if _taken(one, held.get(one.path), blob)}
    for commit in popped:
        held = held_by(repository, commit, before.head)
        gits |= {one.path for one in changes if _given_back(one, held.get(one.path), blob)}
    if now.stash is not None and now.stash not in pushed:
        gits |= _applied(changes, held_by(repository, now.stash, before.head), blob)
    return gits


def _came(listed: list[str], before: GitPosition, now: GitPosition) -> list[str]:
    if before.stash in listed:
        return listed[listed.index(before.stash) + 1 :]
    aside = [now.stash] if now.stash is not None and now.stash not in listed else []
    return [one for one in [*listed[-LOOKED_AT:], *aside] if one != before.stash]


def _went(listed: list[str], before: GitPosition, now: GitPosition) -> list[str]:
    gone = before.stash is not None and before.stash not in listed and before.stash != now.stash
    return [before.stash] if gone and before.stash is not None else []


def _taken(change: PathChange, held: Held | None, blob: Blob) -> bool:
    if held is None or not _is(change.before, held.work, blob):
        return False
    return any(_is(change.after, left, blob) and _turned(change, held.work, left) for left in held.left)


def _given_back(change: PathChange, held: Held | None, blob: Blob) -> bool:
    if held is None or not _is(change.after, held.work, blob):
        return False
    return _is(change.before, held.left[0], blob) and _turned(change, held.left[0], held.work)


def _applied(changes: Iterable[PathChange], held: Mapping[bytes, Held], blob: Blob) -> set[bytes]:
    """A stash that was applied and stays is known by its whole work, which came at once: one file of it
    may have been written again by hand."""
    back = {one.path for one in changes if _given_back(one, held.get(one.path), blob)}
    wanted = {path for path, one in held.items() if one.work.oid != one.left[0].oid}
    return back if wanted and wanted <= back else set()


# ---- a merge in progress


def _by_merge(
    changes: Iterable[PathChange], repository: Repository, before: GitPosition, now: GitPosition, blob: Blob
) -> set[bytes]:
    """What a merge that waits for somebody brought in already, and what giving it up took out again."""
    if before.merging == now.merging or before.head != now.head or now.head is None:
        return set()
    gits: set[bytes] = set()
    for commit, gave_up in ((before.merging, True), (now.merging, False)):
        pair = None if commit is None else (commit, now.head) if gave_up else (now.head, commit)
        if pair is not None:
            [sides] = sides_of(repository, [pair])
            move = Move(sides, frozenset())
            gits |= {one.path for one in changes if _brought(one, [move], blob)}
    return gits


# ---- states and entries


def _folders(changes: Iterable[PathChange], gits: set[bytes]) -> set[bytes]:
    """Folders that came or went with nothing but what git brought or took."""
    below: dict[bytes, list[bytes]] = defaultdict(list)
    for change in changes:
        for folder in parents(change.path):
            below[folder].append(change.path)
    found = set(gits)
    for change in sorted(changes, key=lambda one: one.path.count(b"/"), reverse=True):
        comes_or_goes = {change.before.kind, change.after.kind} == {"dir", "absent"}
        if comes_or_goes and below[change.path] and found.issuperset(below[change.path]):
            found.add(change.path)
    return found


def _turned(change: PathChange, old: Entry, new: Entry) -> bool:
    """Whether the permission to execute changed as git changed it, where both sides are files."""
    if change.before.kind != "file" or change.after.kind != "file" or NOTHING in (old.mode, new.mode):
        return True
    return (change.before.mode ^ change.after.mode) & 0o100 == (int(old.mode, 8) ^ int(new.mode, 8)) & 0o100


def _is(state: PathState, entry: Entry, blob: Blob) -> bool:
    """Whether what stood or stands there is what the project's repository names so."""
    if not entry.present:
        return state.kind == "absent"
    if state.kind != ("link" if entry.mode == "120000" else "file"):
        return False
    if len(entry.oid) == 40:
        return state.oid == entry.oid
    try:
        content = blob(state.oid)
    except (NotFound, IntegrityFailure, StoreFailure):
        return False
    return sha256(b"blob %d\0%b" % (len(content), content)).hexdigest() == entry.oid
