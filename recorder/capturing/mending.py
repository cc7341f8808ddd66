"""What is wrong with the shadow store of one work tree, and putting right what can be put right.

`examine` only looks; `mend` repairs under the work tree's lock and never deletes the only copy of anything:
what is damaged goes into the folder `put-aside` beside the store. Which checkpoints suffer is said in
commits of captures; the facts about them are `projections.mending`'s to append.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from recorder.capturing import layout, leftovers, packs, refs, salvaging
from recorder.capturing.batch import Batch
from recorder.capturing.durable import put_aside
from recorder.capturing.losses import Loss, Losses, store_remainder
from recorder.capturing.store import Store
from recorder.capturing.trees import Views
from recorder.errors import NotFound
from recorder.home import Home
from recorder.worktree import WorkTree

__all__ = ["Damage", "Loss", "Mended", "examine", "keep_the_rest", "let_go", "losses", "mend"]


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


def examine(home: Home, tree: WorkTree, captures: Collection[str]) -> tuple[Damage, ...]:
    """Everything that is wrong with a work tree's store, read from the disk in full; nothing is written.

    `captures` are the commits that are to be there: of all captures that the log does not let go. What
    another process is writing at the moment is taken for a leftover, so hold the work tree's lock where
    that matters. Raises StoreFailure where the store cannot be read at all.
    """
    store = Store(home.store(tree.stream))
    if not captures and not store.folder.exists():
        return ()
    found = [Damage("layout", path, why) for path, why in layout.faults(store.folder)]
    found += [Damage("lock", path, "a lock of git's is left") for path in leftovers.locks(store.folder)]
    found += [Damage("leftover", path, "half written") for path in leftovers.half_written(store.folder)]
    bad = dict(salvaging.damaged_packs(store))
    found += [Damage("object" if "pack is" in why else "index", path, why) for path, why in bad.items()]
    found += [Damage("object", path, "the object is damaged") for path in salvaging.damaged_objects(store)]
    found += [Damage("ref", path, why, (path.name,)) for path, why in refs.damaged(store, captures)]
    for loss in _losses(store, captures, _sound(store, set(bad))):
        found.append(Damage("lost", store.folder, _told(loss), (loss.commit,)))
    return tuple(found)


def mend(home: Home, tree: WorkTree, captures: Collection[str]) -> tuple[Mended, ...]:
    """Repair what `examine` finds, under the work tree's lock, which the caller holds; what was done.

    What is still lost after it, `losses` tells. Raises StoreFailure where a repair cannot be written, or a
    living process of git is at work in the store; what was repaired until then stays repaired.
    """
    store = Store(home.store(tree.stream))
    done = [Mended("layout", path, f"put back: {why}") for path, why in layout.faults(store.folder)]
    layout.prepare(store.folder)
    done += [Mended("lock", path, "removed: its process is dead") for path in leftovers.reclaim(store.folder)]
    done += [Mended("leftover", path, "removed") for path in leftovers.sweep(store.folder)]
    for path, why in list(salvaging.damaged_packs(store)):
        done.append(Mended("object" if "pack is" in why else "index", path, salvaging.mend_pack(store, path)))
    for path in list(salvaging.damaged_objects(store)):
        put_aside(path, layout.quarantine(store.folder))
        done.append(Mended("object", path, "put aside"))
    store.forget()
    done += [Mended("ref", path, what) for path, what in refs.mend(store, captures)]
    done += _find_again(store, tree, captures)
    if done:
        store.raise_generation()
    return tuple(done)


def losses(home: Home, tree: WorkTree, captures: Collection[str]) -> tuple[Loss, ...]:
    """What of these captures cannot be restored any more; nothing is written."""
    store = Store(home.store(tree.stream))
    try:
        return tuple(_losses(store, captures, store.stored()))
    finally:
        store.close()


def keep_the_rest(home: Home, tree: WorkTree, loss: Loss) -> str:
    """Store what is left of a capture as a capture of its own, in which every lost path is unknown, under the
    work tree's lock; its commit, empty where everything is lost. Raises StoreFailure."""
    if loss.whole:
        return ""
    store = Store(home.store(tree.stream))
    batch = Batch(store, dry=False)
    commit = store_remainder(Views(lambda oid: batch.read(oid)), loss, batch.add).hex()
    batch.flush()
    store.set_ref(commit)
    store.close()
    return commit


def let_go(home: Home, tree: WorkTree) -> None:
    """Drop the refs of captures that are lost, or of which another one keeps the rest, under the work tree's
    lock: git refuses to pack a store in which a ref leads to what is missing. Raises StoreFailure."""
    store = Store(home.store(tree.stream))
    named = refs.names(store)
    store.drop_refs([loss.commit for loss in _losses(store, sorted(named), store.stored())])
    store.close()


def _sound(store: Store, bad: Collection[Path]) -> set[bytes]:
    """The raw ids of what lies in packs that are whole."""
    folder = store.folder / "objects" / "pack"
    return {oid for pack in folder.glob("*.pack") if pack not in bad for oid in packs.ids_of(pack) or ()}


def _losses(store: Store, captures: Collection[str], sound: Collection[bytes]) -> Iterator[Loss]:
    def read(oid: bytes) -> bytes:
        if oid not in sound:
            raise NotFound(f"{oid.hex()} is not in the shadow store {store.folder}", code="not_stored")
        return store.read(oid)[1]

    found = Losses(Views(read), sound)
    for commit in captures:
        loss = found.of(commit)
        if loss is not None:
            yield loss


def _told(loss: Loss) -> str:
    if loss.whole:
        return f"the capture is lost ({loss.why})"
    first = loss.paths[0].path.decode(errors="replace")
    more = f" and {len(loss.paths) - 1:,} more" if len(loss.paths) > 1 else ""
    return f"of the capture {first}{more} cannot be restored"


def _find_again(store: Store, tree: WorkTree, captures: Collection[str]) -> Iterator[Mended]:
    lost = [loss.contents for loss in _losses(store, captures, store.stored())]
    by_path = {(path, oid) for contents in lost for path, oid in contents.items()}
    found = salvaging.find_again(store, tree, by_path)
    if found:
        yield Mended(
            "lost", store.folder, f"{found:,} contents were found in the work tree or its repository"
        )
