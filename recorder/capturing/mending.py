"""What is wrong with the shadow store of one work tree, and putting right what can be put right.

`examine` only looks; `mend` repairs under the work tree's lock and never deletes the only copy of anything:
what is damaged goes into the folder `put-aside` beside the store. Which checkpoints suffer is said in
commits of captures; the facts about them are `projections.mending`'s to append.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from recorder.home import Home
from recorder.states import PathNote
from recorder.worktree import WorkTree


class Damage(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    `code`: `layout` (a folder, file or permission of the store is not as it was made), `lock` (held by a
    process that is dead), `leftover` (what a killed process left), `object` (a stored object or pack is not
    what was stored), `index` (a pack's index is missing or damaged), `ref` (a capture that nothing keeps
    alive), `lost` (contents of captures that are gone). `path` is the file or folder; `captures` are the
    commits of the captures that it costs, in whole or in part.
    """

    code: str
    path: Path
    what: str
    captures: tuple[str, ...] = ()


class Mended(msgspec.Struct, frozen=True):
    """One thing that was done. `code` and `path` as in `Damage`; `done` is a sentence for a person."""

    code: str
    path: Path
    done: str


class Loss(msgspec.Struct, frozen=True):
    """What a capture lost: everything, or just the contents of `paths`, each with the reason."""

    commit: str
    whole: bool
    why: str
    paths: tuple[PathNote, ...] = ()


def examine(home: Home, tree: WorkTree, captures: Collection[str]) -> tuple[Damage, ...]:
    """Everything that is wrong with a work tree's store, read from the disk in full; nothing is written.

    `captures` are the commits that are to be there: of all captures that the log does not let go. What
    another process is writing at the moment is taken for a leftover, so hold the work tree's lock where
    that matters. Raises StoreFailure where the store cannot be read at all.
    """
    return ()


def mend(home: Home, tree: WorkTree, captures: Collection[str]) -> tuple[Mended, ...]:
    """Repair what `examine` finds, under the work tree's lock, which the caller holds; what was done.

    What is still lost after it, `losses` tells. Raises StoreFailure where a repair cannot be written, or a
    living process of git is at work in the store; what was repaired until then stays repaired.
    """
    return ()


def losses(home: Home, tree: WorkTree, captures: Collection[str]) -> tuple[Loss, ...]:
    """What of these captures cannot be restored any more; nothing is written."""
    return ()
