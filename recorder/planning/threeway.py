"""A three-way merge of what stands at one path: kinds, modes, links, and which contents are to be merged.

Decides all that needs no content. Three different contents of a file go to whoever can merge texts, by
their ids, so that this stays free of bytes, disks and stores.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from recorder.states import PathState


class Unmerged(msgspec.Struct, frozen=True):
    """Why what stands at a path cannot be merged."""

    why: str


MergeTexts = Callable[[bytes, str, str, str], str | Unmerged]
"""Of a path, and the blob ids of base, theirs and ours: the blob id of the merged content."""

_CALLED = {"file": "a file", "link": "a link", "dir": "a folder"}


def three_way(
    path: bytes, base: PathState, theirs: PathState, ours: PathState, merge_texts: MergeTexts
) -> PathState | Unmerged:
    """What changed from `base` to `theirs`, made on `ours`. All three are known states.

    What both sides changed alike is made once: it is what the other side did by hand. A file that one
    side changed and the other removed is never merged.
    """
    if ours == base or theirs == ours:
        return theirs
    if theirs == base:
        return ours
    if not base.kind == theirs.kind == ours.kind:
        return Unmerged(_other_kinds(base, theirs, ours))
    oid = _content(path, base.oid, theirs.oid, ours.oid, ours.kind, merge_texts)
    return oid if isinstance(oid, Unmerged) else PathState(ours.kind, _mode(base, theirs, ours), oid)


def _content(
    path: bytes, base: str, theirs: str, ours: str, kind: str, merge_texts: MergeTexts
) -> str | Unmerged:
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if kind == "link":
        return Unmerged("the link was changed again since")
    return merge_texts(path, base, theirs, ours)


def _mode(base: PathState, theirs: PathState, ours: PathState) -> int:
    """Bit by bit: what one side flipped is flipped, and two sides can flip a bit in one way only."""
    return base.mode ^ ((base.mode ^ theirs.mode) | (base.mode ^ ours.mode))


def _other_kinds(base: PathState, theirs: PathState, ours: PathState) -> str:
    if not ours.present:
        return "it was removed since"
    if not base.present:
        return "it was made anew since"
    if ours.kind != base.kind:
        return f"it is {_CALLED[ours.kind]} since"
    return "it was changed again since"
