"""What stands at a path, and merging it: written from the rules, with no code of the recorder's.

Texts have slots, far enough apart that changes of different slots never meet in a merge.
"""

from __future__ import annotations

import re

State = tuple[str, int, bytes]
"""Kind, permissions and bytes, as `tests.flow.conftest.snapshot` has them."""
Standing = dict[str, State]

SLOTS = 5
_FILLER = b"-\n" * 4
_SLOT = re.compile(rb"slot (\d+): [^\r\n]*")


class Conflict(Exception):
    """What cannot be merged."""


def text(words: list[str], end: bytes = b"\n") -> bytes:
    lines = [b"slot %d: %s\n" % (number, word.encode()) for number, word in enumerate(words)]
    return (_FILLER + _FILLER.join(lines) + _FILLER).replace(b"\n", end)


def edited(content: bytes, slot: int, word: str) -> bytes:
    """A text with another word in one of its slots."""
    return re.sub(rb"slot %d: [^\r\n]*" % slot, b"slot %d: %s" % (slot, word.encode()), content)


def is_text(content: bytes) -> bool:
    return len(_SLOT.findall(content)) == SLOTS


def merged(
    base: State | None, theirs: State | None, ours: State | None, *, texts: bool = True
) -> State | None:
    """What changed from `base` to `theirs`, made on `ours`. Raises Conflict; without `texts` also where only
    a merge of what both changed would do."""
    if ours == base or theirs == ours:
        return theirs
    if not texts:
        raise Conflict
    if theirs == base:
        return ours
    if base is None or theirs is None or ours is None or not base[0] == theirs[0] == ours[0] == "file":
        raise Conflict
    content = _slots_merged(base[2], theirs[2], ours[2])
    mode = theirs[1] if ours[1] == base[1] else ours[1]
    if ours[1] != base[1] and theirs[1] not in (base[1], ours[1]):
        raise Conflict
    return ("file", mode, content)


def _slots_merged(base: bytes, theirs: bytes, ours: bytes) -> bytes:
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    frames = {_SLOT.sub(b"", one) for one in (base, theirs, ours)}
    if len(frames) != 1 or not is_text(base):
        raise Conflict
    slots = zip(*([m[0] for m in _SLOT.finditer(one)] for one in (base, theirs, ours)), strict=True)
    chosen = [_one(*three) for three in slots]
    return re.sub(_SLOT, lambda _: chosen.pop(0), ours)


def _one(base: bytes, theirs: bytes, ours: bytes) -> bytes:
    if ours not in (base, theirs) and theirs != base:
        raise Conflict
    return theirs if ours == base else ours


def differing(before: Standing, after: Standing) -> set[str]:
    """The paths at which two listings differ."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
