"""Folders in a plan: which may go, which must be made first, and the order that is safe to apply.

A folder goes only when it would be empty; a file gets the folders that it needs; nothing is written
below what is no folder. Knows nothing of changes and owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from recorder.events import FileStep
from recorder.planning.routes import Conflict, Wanted
from recorder.planning.spans import parents
from recorder.states import PathState

StateOf = Callable[[bytes], PathState]
ChildrenOf = Callable[[bytes], Iterable[bytes]]

FOLDER_MODE = 0o755
WRITE = 0o300
"""The owner's bits that a folder needs so that something in it can change."""


def settle(
    wanted: Mapping[bytes, Wanted], state: StateOf, children: ChildrenOf, modes: Mapping[bytes, int]
) -> tuple[dict[bytes, Wanted], list[Conflict]]:
    """What can be done of this, with the folders that it needs, and the paths where it cannot.

    `state` and `children` tell what stands on disk, `modes` the last known permissions of folders. A
    folder that would not be empty is left out of the result without a word.
    """
    result = dict(wanted)
    conflicts = _empty_folders(result, children)
    for path in sorted(result, key=_depth):
        if result[path].after.present:
            conflicts += _stand_on(path, result, state, modes)
    return result, conflicts


def in_order(wanted: Iterable[Wanted]) -> tuple[FileStep, ...]:
    """Steps for the paths that differ: folders before what lies in them, deletions last and deepest
    first. Only what lies in a folder that turns into something else must go before that turns, and a
    folder that loses its permission to write gets its mode when all in it is done."""
    differing = [want for want in wanted if want.before != want.after]
    turning = {
        want.path for want in differing if want.before.kind == "dir" and want.after.kind in ("file", "link")
    }
    gone = sorted((w for w in differing if not w.after.present), key=lambda w: (-_depth(w.path), w.path))
    early = [want for want in gone if not turning.isdisjoint(parents(want.path))]
    late = [want for want in gone if turning.isdisjoint(parents(want.path))]
    closing = [
        w for w in differing if w.before.kind == w.after.kind == "dir" and w.after.mode & WRITE != WRITE
    ]
    folders = [want for want in differing if want.after.kind == "dir" and want not in closing]
    files = [want for want in differing if want.after.kind in ("file", "link")]
    order = [
        *early,
        *sorted(folders, key=lambda want: (_depth(want.path), want.path)),
        *sorted(files, key=lambda want: want.path),
        *late,
        *sorted(closing, key=lambda want: (-_depth(want.path), want.path)),
    ]
    return tuple(FileStep(want.path, want.before, want.after) for want in order)


def topmost(paths: Iterable[bytes], folders: frozenset[bytes]) -> tuple[bytes, ...]:
    """The paths to tell a person of: a folder only where nothing else in it is told."""
    told = sorted(paths)
    above = {folder for path in told for folder in parents(path)}
    return tuple(path for path in told if path not in folders or path not in above)


def _empty_folders(wanted: dict[bytes, Wanted], children: ChildrenOf) -> list[Conflict]:
    """Drop the folders that cannot go, deepest first."""
    needed = {folder for want in wanted.values() if want.after.present for folder in parents(want.path)}
    conflicts = []
    for path in sorted(wanted, key=_depth, reverse=True):
        want = wanted[path]
        if want.before.kind != "dir" or want.after.kind == "dir":
            continue
        if path not in needed and all(_goes(child, wanted) for child in children(path)):
            continue
        del wanted[path]
        if want.after.present:
            conflicts.append(_blocked(want, "the folder in its place holds files of others"))
    return conflicts


def _goes(path: bytes, wanted: Mapping[bytes, Wanted]) -> bool:
    return path in wanted and not wanted[path].after.present


def _stand_on(
    path: bytes, wanted: dict[bytes, Wanted], state: StateOf, modes: Mapping[bytes, int]
) -> list[Conflict]:
    """Add the folders that a path needs; where one cannot be, drop the path and say why."""
    missing = []
    for folder in parents(path):
        stands = wanted[folder].after if folder in wanted else state(folder)
        if stands.kind == "absent":
            missing.append(folder)
        elif stands.kind in ("file", "link"):
            return [_blocked(wanted.pop(path), "what should be its folder is none")]
        else:
            break
    for folder in missing:
        mode = modes.get(folder, FOLDER_MODE)
        wanted[folder] = Wanted(folder, state(folder), PathState("dir", mode))
    return []


def _blocked(want: Wanted, why: str) -> Conflict:
    return Conflict(want.path, why, want.before)


def _depth(path: bytes) -> int:
    return path.count(b"/")
