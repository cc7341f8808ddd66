"""What git's commits hold on the way from one HEAD to another, and what a stash holds: asked of git, in
few calls. Whose a change is, is decided in `recorder.capturing.bygit`."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from recorder import git
from recorder.capturing.repository import HeadMove, Repository, head_moves
from recorder.states import GitPosition

NOTHING = "000000"
"""The mode of what is not there."""


class Entry(NamedTuple):
    """What a commit holds at a path: git's mode in octal and the blob's id in hex."""

    mode: str
    oid: str

    @property
    def present(self) -> bool:
        return self.mode != NOTHING


Sides = Mapping[bytes, tuple[Entry, Entry]]
"""By path what two commits hold there, where they differ."""


class Move(NamedTuple):
    """One move of HEAD. `recorded` are the paths whose new content somebody made before git recorded it."""

    sides: Sides
    recorded: frozenset[bytes]


class Held(NamedTuple):
    """What a stash holds of a path: the `work` that was set aside, and what may be `left` in its place, the
    content of HEAD first."""

    work: Entry
    left: tuple[Entry, ...]


def moves_between(repository: Repository, before: GitPosition, now: GitPosition) -> list[Move]:
    """The moves of HEAD between two positions, in order; none where HEAD's reflog does not tell them all.
    Raises StoreFailure where git cannot be asked."""
    assert before.head is not None and now.head is not None
    way = _since(repository, before, now) or way_to(head_moves(repository), before.head, now.head)
    way = [move for move in way if move.old != move.new]
    sides = sides_of(repository, [(move.old, move.new) for move in way])
    return [Move(side, _recorded(repository, move, side)) for move, side in zip(way, sides, strict=True)]


def _since(repository: Repository, before: GitPosition, now: GitPosition) -> list[HeadMove]:
    """What was added to the reflog, where it joins the two positions end to end."""
    if before.reflog is None:
        return []
    moves = head_moves(repository, after=before.reflog)
    ends = [before.head, *(move.new for move in moves)]
    joined = all(move.old == end for move, end in zip(moves, ends, strict=False))
    return moves if joined and ends[-1] == now.head else []


def way_to(moves: Sequence[HeadMove], old: str, new: str) -> list[HeadMove]:
    """The newest unbroken run of moves from one commit to another one; none where there is none."""
    way: list[HeadMove] = []
    wanted = new
    for move in reversed(moves if old != new else ()):
        if move.new != wanted:
            return []
        way.append(move)
        wanted = move.old
        if wanted == old:
            return way[::-1]
    return []


def _recorded(repository: Repository, move: HeadMove, sides: Sides) -> frozenset[bytes]:
    """What a commit, or the end of a conflict, put on record. Of a merge that was committed by hand only
    what differs from the branch that was merged."""
    if not (move.action.startswith("commit") or "(continue)" in move.action):
        return frozenset()
    if "(merge)" not in move.action:
        return frozenset(sides)
    merged = parents_of(repository, move.new)[1:]
    others = sides_of(repository, [(parent, move.new) for parent in merged])
    return frozenset(path for path in sides if all(path in other for other in others))


def sides_of(repository: Repository, pairs: Sequence[tuple[str, str]]) -> list[Sides]:
    """For each pair of commits what they hold where they differ, in one call of git. Raises StoreFailure."""
    if not pairs:
        return []
    arguments = ["diff-tree", "--stdin", "--always", "-m", "-r", "-z"]
    arguments += ["--no-renames", "--no-ext-diff", "--no-textconv"]
    asked = "".join(f"{new} {old}\n" for old, new in pairs).encode()
    out = git.demand(arguments, git_dir=repository.git_dir, stdin=asked)
    found: list[dict[bytes, tuple[Entry, Entry]]] = []
    fields = iter(out.split(b"\0")[:-1])
    for field in fields:
        if field.startswith(b":"):
            old_mode, new_mode, old, new, _ = field[1:].decode().split(" ")
            found[-1][next(fields)] = Entry(old_mode, old), Entry(new_mode, new)
        else:
            found.append({})
    assert len(found) == len(pairs)
    return list(found)


def parents_of(repository: Repository, commit: str) -> list[str]:
    """Raises StoreFailure where git does not know the commit."""
    out = git.demand(["rev-list", "--parents", "-n", "1", commit], git_dir=repository.git_dir)
    return out.decode().split()[1:]


@functools.lru_cache(maxsize=16)
def held_by(repository: Repository, stash: str, head: str) -> Mapping[bytes, Held]:
    """What a stash holds, beside what HEAD holds there (git-stash(1): its parents are HEAD of then, the
    index, and untracked files). Raises StoreFailure where git does not know it."""
    parents = parents_of(repository, stash)
    if len(parents) < 2:
        return {}
    base, index = parents[:2]
    works, heads, indexes = sides_of(repository, [(base, stash), (base, head), (base, index)])
    held = {
        path: Held(work, (_at(heads, path, then), _at(indexes, path, then)))
        for path, (then, work) in works.items()
    }
    for untracked in parents[2:]:
        for path, entry in _listing(repository, untracked):
            nothing = Entry(NOTHING, "0" * len(entry.oid))
            held[path] = Held(entry, (_at(heads, path, nothing),))
    return held


def _at(sides: Sides, path: bytes, base: Entry) -> Entry:
    return sides[path][1] if path in sides else base


def _listing(repository: Repository, commit: str) -> list[tuple[bytes, Entry]]:
    out = git.demand(["ls-tree", "-r", "-z", commit], git_dir=repository.git_dir)
    entries = (line.partition(b"\t") for line in out.split(b"\0") if line)
    return [(path, Entry(*meta.decode().split(" ")[0:3:2])) for meta, _, path in entries]
