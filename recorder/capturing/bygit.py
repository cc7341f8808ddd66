"""Which changes between two captures were git's own: content that came and went with HEAD.

Asked of the project's repository, which is only read. What a commit recorded was made by somebody
before it, so paths that a commit on the way touched are never git's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

from recorder import git
from recorder.capturing.repository import HeadMove, Repository, head_moves
from recorder.errors import IntegrityFailure, NotFound, StoreFailure
from recorder.states import GitPosition, PathChange, PathState

Blob = Callable[[str], bytes]
"""The content of a stored blob by its hex id."""


def mark(
    changes: Iterable[PathChange],
    repository: Repository,
    before: GitPosition | None,
    now: GitPosition | None,
    blob: Blob,
) -> list[PathChange]:
    """The changes, with those marked whose two sides are what HEAD held then and holds now.

    Marks none where HEAD did not move, how it moved is not in its reflog, or git cannot be asked.
    """
    changes = list(changes)
    if not changes or before is None or now is None or before.head == now.head:
        return changes
    if before.head is None or now.head is None:
        return changes
    moves = _way(head_moves(repository), before.head, now.head)
    try:
        moved = _differing(repository, before.head, now.head) if moves else {}
        for move in moves:
            if move.action.startswith("commit"):
                for path in _differing(repository, move.old, move.new):
                    moved.pop(path, None)
    except StoreFailure:
        return changes
    return [_marked(change, moved.get(change.path), blob) for change in changes]


def _way(moves: list[HeadMove], old: str, new: str) -> list[HeadMove]:
    """The newest unbroken run of moves from one commit to the other; none where there is none."""
    way: list[HeadMove] = []
    wanted = new
    for move in reversed(moves):
        if move.new != wanted:
            return []
        way.append(move)
        wanted = move.old
        if wanted == old:
            return way[::-1]
    return []


def _differing(repository: Repository, old: str, new: str) -> dict[bytes, tuple[str, str]]:
    """Blob ids at the two commits (zeros for none) of each path that differs."""
    if not old.strip("0"):
        return {path: ("0" * len(new), oid) for path, oid in _listing(repository, new)}
    arguments = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", old, new]
    out = git.demand(arguments, git_dir=repository.git_dir)
    fields = out.split(b"\0")
    return {
        path: (meta.split(b" ")[2].decode(), meta.split(b" ")[3].decode())
        for meta, path in zip(fields[0:-1:2], fields[1::2], strict=False)
    }


def _listing(repository: Repository, commit: str) -> list[tuple[bytes, str]]:
    out = git.demand(["ls-tree", "-r", "-z", commit], git_dir=repository.git_dir)
    entries = (line.partition(b"\t") for line in out.split(b"\0") if line)
    return [(path, meta.split(b" ")[2].decode()) for meta, _, path in entries]


def _marked(change: PathChange, sides: tuple[str, str] | None, blob: Blob) -> PathChange:
    if sides is None:
        return change
    if _is(change.before, sides[0], blob) and _is(change.after, sides[1], blob):
        return msgspec.structs.replace(change, by_git=True)
    return change


def _is(state: PathState, oid: str, blob: Blob) -> bool:
    """Whether the state's content is the blob that the project's repository names so."""
    if not oid.strip("0"):
        return state.kind == "absent"
    if state.kind not in ("file", "link"):
        return False
    if len(oid) == 40:
        return state.oid == oid
    try:
        content = blob(state.oid)
    except (NotFound, IntegrityFailure, StoreFailure):
        return False
    return sha256(b"blob %d\0%b" % (len(content), content)).hexdigest() == oid
