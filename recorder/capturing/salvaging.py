"""Getting every object that is intact out of what is damaged in a store, and getting lost contents back from
where they still stand. Runs under the work tree's lock; what is damaged is put aside, never deleted.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from recorder import git
from recorder.capturing import packs
from recorder.capturing.batch import Batch, chunks_of
from recorder.capturing.durable import put_aside
from recorder.capturing.layout import quarantine
from recorder.capturing.store import BLOB, LARGE, Store, object_id
from recorder.errors import StoreFailure
from recorder.worktree import WorkTree

_PARTS = (".idx", ".rev", ".bitmap", ".mtimes", ".keep", ".pack")
"""What belongs to a pack, the pack itself last: while it stands, its objects can be salvaged again."""


def damaged_packs(store: Store) -> Iterator[tuple[Path, str]]:
    """Packs that are not what was written, and indexes that are damaged or alone, each with what is wrong;
    all packs are read in full."""
    folder = store.folder / "objects" / "pack"
    for pack in sorted(folder.glob("*.pack")):
        try:
            if not packs.whole(pack):
                yield pack, "the pack is damaged"
            elif packs.ids_of(pack) is None:
                yield pack, "the pack's index is missing or damaged"
        except OSError as error:
            yield pack, f"the pack cannot be read: {error.strerror}"
    for index in sorted(folder.glob("*.idx")):
        if not index.with_suffix(".pack").exists():
            yield index, "the index has no pack"


def damaged_objects(store: Store) -> Iterator[Path]:
    """Loose objects that are not what their names say."""
    for file in sorted((store.folder / "objects").glob("[0-9a-f][0-9a-f]/*")):
        if file.name.startswith("tmp_obj_"):
            continue
        try:
            header, _, content = zlib.decompress(file.read_bytes()).partition(b"\0")
            sound = object_id(header.split(b" ")[0], content).hex() == file.parent.name + file.name
        except (OSError, zlib.error):
            sound = False
        if not sound:
            yield file


def mend_pack(store: Store, pack: Path) -> str:
    """Make a pack usable, or save what can be read of it and put it aside; what was done. Raises
    StoreFailure."""
    try:
        if pack.suffix == ".idx":
            put_aside(pack, quarantine(store.folder))
            return "the index was put aside"
        pack.chmod(0o600)
        if packs.whole(pack):
            _drop_index(store, pack)
            git.demand(["index-pack", str(pack)], git_dir=store.git_dir, deadline=3600)
            return "its index was made anew"
        count = _salvage(store, pack)
        if packs.whole(pack):  # all of it was intact: what was saved is the same pack
            return f"written anew with its {count:,} objects"
        for part in _PARTS:
            if (file := pack.with_suffix(part)).exists():
                put_aside(file, quarantine(store.folder))
        return f"{count:,} intact objects were saved, and the rest was put aside"
    except OSError as error:
        raise StoreFailure(f"{pack} cannot be repaired: {error.strerror}") from error


def _drop_index(store: Store, pack: Path) -> None:
    for part in (".idx", ".rev", ".bitmap"):
        if (file := pack.with_suffix(part)).exists():
            put_aside(file, quarantine(store.folder))


def _salvage(store: Store, pack: Path) -> int:
    """Store every object of a damaged pack that is not in a sound one; how many."""
    index = pack.with_suffix(".idx")
    if index.exists():  # nobody believes in what it lists any more
        put_aside(index, quarantine(store.folder))
    store.forget()
    salvage = packs.Salvage(pack)
    try:
        batch, left, count = Batch(store, dry=False), list(salvage.entries.values()), 0
        while left:
            waiting = [entry for entry in left if not _save(store, batch, salvage, entry)]
            batch.flush()
            if len(waiting) == len(left):
                break
            count, left = count + len(left) - len(waiting), waiting
        return count
    finally:
        salvage.close()


def _save(store: Store, batch: Batch, salvage: packs.Salvage, entry: packs.Entry) -> bool:
    """False where what the object is a difference to is not there yet, or lost."""
    if entry.base is None and entry.size > LARGE and entry.kind == BLOB:
        oid = packs.blob_id(entry.size, salvage.chunks(entry))
        return batch.holds(oid) or store.write_large(oid, entry.size, lambda: salvage.chunks(entry))
    read = salvage.content(entry, lambda oid: store.read(oid) if oid in store.stored() else None)
    if read is not None:
        batch.add(*read)
    return read is not None


def find_again(store: Store, tree: WorkTree, lost: Collection[tuple[bytes, str]]) -> int:
    """Store lost contents (path, blob) that still stand at their paths in the work tree, or that the
    project's repository has; how many."""
    batch = Batch(store, dry=False)
    found = {oid for path, oid in lost if _from_disk(batch, tree, path, oid)}
    found |= set(_from_project(batch, tree, {oid for _, oid in lost} - found))
    batch.flush()
    return len(found)


def _from_disk(batch: Batch, tree: WorkTree, path: bytes, oid: str) -> bool:
    whole = os.path.join(tree.path, path)
    try:
        if os.path.islink(whole):
            return _take(batch, os.readlink(whole), oid)
        descriptor = os.open(whole, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        if packs.blob_id(size, chunks_of(descriptor)).hex() != oid:
            return False
        return batch.large(descriptor, size) is not None
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _from_project(batch: Batch, tree: WorkTree, oids: set[str]) -> Iterator[str]:
    """Only a repository with SHA-1 ids can have them; it is read and nothing else."""
    project = tree.repository
    if project is None or not oids:
        return
    asked = "\n".join(sorted(oids)).encode() + b"\n"
    answer = git.run(["cat-file", "--batch-check"], git_dir=project.git_dir, stdin=asked)
    for line in answer.out.decode().splitlines():
        oid, kind = line.split(" ")[:2]
        if kind == "blob":
            content = git.run(["cat-file", "blob", oid], git_dir=project.git_dir).out
            if _take(batch, content, oid):
                yield oid


def _take(batch: Batch, content: bytes, oid: str) -> bool:
    """Whether this is the content of that name."""
    same = object_id(BLOB, content).hex() == oid
    if same:
        batch.whole(content)
    return same
