"""The shadow store of one work tree: a bare git repository outside the project, for git's tools to read.

Owns how objects and refs get in durably, how they are read, and how they go. What the objects mean is
`recorder.capturing.trees`' to say. Everything that writes runs under the work tree's lock; reading needs
none, and a store that is missing or damaged is no reason for not opening it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import time
import weakref
import zlib
from collections.abc import Callable, Collection, Iterator
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorder import git, policy
from recorder.capturing import layout, leftovers, packs
from recorder.capturing.durable import flush, private_file, put_aside, sync_folder, write_durably
from recorder.capturing.layout import CAPTURES
from recorder.errors import IntegrityFailure, NotFound, StoreFailure

if TYPE_CHECKING:
    from dulwich.object_store import DiskObjectStore

BLOB, TREE, COMMIT = b"blob", b"tree", b"commit"
_TYPE_NUMBERS = {COMMIT: 1, TREE: 2, BLOB: 3}

LARGE = 16 << 20
"""A file of more bytes than this is never held in memory as a whole."""
_FASTEST = 1
_ROOM = 2
"""How many times the store's size must be free for packing it anew."""


def object_id(kind: bytes, content: bytes) -> bytes:
    """The raw SHA-1 id that git gives an object."""
    return sha1(b"%b %d\0%b" % (kind, len(content), content), usedforsecurity=False).digest()


class Store:
    """An open shadow store; opening it does nothing yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._generation_file = folder.parent / "generation"
        self._collecting = folder.parent / "collecting"
        self._seen: tuple[object, ...] | None = None
        self._stored: set[bytes] = set()
        self._suspect = False
        self._objects: DiskObjectStore | None = None

    @property
    def git_dir(self) -> bytes:
        return os.fsencode(self.folder)

    def close(self) -> None:
        if self._objects is not None:
            with contextlib.suppress(BufferError):  # an exception on its way still looks into a pack
                self._at_exit()
            self._objects = None

    # ---- reading

    def read(self, oid: bytes) -> tuple[bytes, bytes]:
        """Type and content of an object by its raw id. Raises NotFound; IntegrityFailure where it is damaged,
        StoreFailure where the store cannot be read."""
        try:
            number, content = self._open().get_raw(_raw(oid))
        except KeyError:
            raise NotFound(
                f"{oid.hex()} is not in the shadow store {self.folder}", code="not_stored"
            ) from None
        except _damage() as error:
            raise IntegrityFailure(
                f"object {oid.hex()} of the shadow store {self.folder} failed its integrity check: {error}"
            ) from error
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"the shadow store {self.folder} is gone", code="not_stored") from error
        except OSError as error:
            raise StoreFailure(
                f"object {oid.hex()} of {self.folder} cannot be read: {error.strerror}"
            ) from error
        kind = next((kind for kind, known in _TYPE_NUMBERS.items() if known == number), b"")
        if object_id(kind, content) != oid:
            raise IntegrityFailure(
                f"object {oid.hex()} of the shadow store {self.folder} is not what was stored"
            )
        return kind, content

    def stored(self) -> set[bytes]:
        """The raw ids of all objects that lie in sound packs: read again when the packs or the generation
        are not those that this process left. A loose object is not relied on: whether it is whole shows
        only when it is read."""
        mark = self._mark()
        if mark != self._seen:
            self.close()
            found = {pack: packs.ids_of(pack) for pack in self._packs().glob("*.pack")}
            self._stored = {oid for ids in found.values() if ids is not None for oid in ids}
            self._suspect = None in found.values() or any(leftovers.lone(self._packs()))
            self._seen = mark
        return self._stored

    def suspect(self) -> bool:
        """Whether it shows at a glance that a pack is cut off, or that its index is damaged or alone."""
        self.stored()
        return self._suspect

    def has_ref(self, commit: str) -> bool:
        try:
            if (self.folder / CAPTURES / commit).read_bytes() == commit.encode() + b"\n":
                return True
        except OSError:
            pass
        try:
            packed = (self.folder / "packed-refs").read_bytes()
        except OSError:
            return False
        return f"{commit} {CAPTURES}{commit}\n".encode() in packed

    def refs(self) -> list[str]:
        """The commits of all live captures."""
        out = git.demand(["for-each-ref", "--format=%(objectname)", CAPTURES], git_dir=self.git_dir)
        return out.decode().split()

    def bytes_used(self) -> int:
        """Bytes of all files of the work tree's folder in the home."""
        used = 0
        for folder, _, names in os.walk(self.folder.parent):
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    used += os.lstat(os.path.join(folder, name)).st_size
        return used

    def fsck(self) -> None:
        """Check every object and ref. Raises StoreFailure with git's first complaint."""
        git.demand(["fsck", "--full", "--strict", "--no-dangling", "--no-progress"], git_dir=self.git_dir)

    # ---- writing

    def prepare(self) -> None:
        """Create the store where there is none, put back what is missing of it, and clean up after whoever
        was killed here; to be called before anything else is written. Raises StoreFailure."""
        layout.prepare(self.folder)
        if self._collecting.exists():
            leftovers.wait_for_git(self.folder)
            leftovers.reclaim(self.folder)
            leftovers.sweep(self.folder)
            self._end_collecting()
        elif self._mark() != self._seen:
            leftovers.sweep(self.folder, older_than_s=leftovers.OLD_S)

    def set_ref(self, commit: str) -> None:
        """Keep a capture's commit alive, durably."""
        ref = self.folder / CAPTURES / commit
        if ref.is_dir():
            put_aside(ref, layout.quarantine(self.folder))
        write_durably(ref, commit.encode() + b"\n", self.folder / "new-ref")

    def release(self, commits: Collection[str]) -> None:
        """Let captures go; what only they hold is gone with the next `collect`."""
        gone = [commit for commit in commits if self.has_ref(commit)]
        orders = b"".join(f"delete {CAPTURES}{commit}\0\0".encode() for commit in gone)
        if gone:
            self._begin_collecting()
            git.demand(["update-ref", "--stdin", "-z"], git_dir=self.git_dir, stdin=orders)
            self._end_collecting()

    def drop_refs(self, commits: Collection[str]) -> None:
        """Let captures go whose refs git would stumble over."""
        for commit in commits:
            (self.folder / CAPTURES / commit).unlink(missing_ok=True)
        self.release(commits)

    def keep(self, commits: Collection[str]) -> list[str]:
        """Give every capture a ref that lacks one and is stored; which did."""
        lacking = [
            commit
            for commit in commits
            if bytes.fromhex(commit) in self.stored() and not self.has_ref(commit)
        ]
        for commit in lacking:
            self.set_ref(commit)
        return lacking

    def collect(self) -> None:
        """Pack what is live into one pack and drop the rest. The generation is raised first, so that
        nobody believes in an object that this took away. Killed at any point it loses nothing: git removes
        a pack when the one that takes its place is whole. Raises StoreFailure, also where there is not the
        room for it."""
        self._check_room()
        self.raise_generation()
        self._begin_collecting()
        git.demand(["repack", "-a", "-d", "-q"], git_dir=self.git_dir, deadline=3600)
        git.demand(["prune", "--expire=now"], git_dir=self.git_dir, deadline=3600)
        self._end_collecting()

    def raise_generation(self) -> None:
        """Tell every process that what it knows to be stored may be gone."""
        now = self._generation()
        following = int(now) + 1 if now.isdigit() else time.time_ns()
        if self._generation_file.is_dir():
            put_aside(self._generation_file, layout.quarantine(self.folder))
        write_durably(self._generation_file, b"%d" % following)
        self.close()

    def _check_room(self) -> None:
        free, used = shutil.disk_usage(self.folder).free, self.bytes_used()
        if free < _ROOM * used:
            raise StoreFailure(
                f"{self.folder} was not cleaned up: {policy.size(free)} are free, and for that twice the"
                f" {policy.size(used)} of the store are needed",
                code="no_room",
            )

    def _begin_collecting(self) -> None:
        """The mark stays where this process is killed or git fails: the next one waits for what git still
        does, and takes away what it left."""
        leftovers.reclaim(self.folder)
        try:
            self._collecting.touch(mode=0o600)
        except OSError as error:
            raise StoreFailure(f"{self.folder} cannot be written: {error.strerror}") from error

    def _end_collecting(self) -> None:
        try:
            self._collecting.unlink(missing_ok=True)
        except OSError as error:
            raise StoreFailure(f"{self._collecting} cannot be removed: {error.strerror}") from error

    def write_pack(self, objects: Collection[tuple[bytes, bytes, bytes]]) -> None:
        """Store objects (raw id, type, content) as one pack, durably."""
        from dulwich.pack import UnpackedObject

        records = (
            UnpackedObject(_TYPE_NUMBERS[kind], sha=oid, decomp_chunks=[content])
            for oid, kind, content in objects
        )
        self._add_pack(records, len(objects))
        self._stored.update(oid for oid, _, _ in objects)

    def write_large(self, oid: bytes, size: int, chunks: Callable[[], Iterator[bytes]]) -> bool:
        """Store one blob from a stream as a pack of its own; False, and nothing stored, when the stream
        turns out not to be the content that `oid` names."""
        from dulwich.pack import UnpackedObject

        true = sha1(b"blob %d\0" % size, usedforsecurity=False)
        record = UnpackedObject(_TYPE_NUMBERS[BLOB], sha=oid)
        compressed: Any = _compress_large(size, chunks(), true.update)
        record.comp_chunks = compressed
        self._add_pack(iter([record]), 1, good=lambda: true.digest() == oid)
        if true.digest() != oid:
            return False
        self._stored.add(oid)
        return True

    def _add_pack(self, records: Iterator[Any], count: int, good: Callable[[], bool] = lambda: True) -> None:
        from dulwich.object_format import SHA1
        from dulwich.pack import write_pack_data, write_pack_index_v2

        temporary = self._packs() / f"tmp_pack_{os.getpid()}"
        try:
            with private_file(temporary) as file:
                entries, checksum = write_pack_data(
                    file.write, records, SHA1, num_records=count, compression_level=_FASTEST
                )
                flush(file)
            if not good():
                temporary.unlink()
                return
            name = self._packs() / f"pack-{checksum.hex()}"
            temporary.replace(name.with_suffix(".pack"))
            with private_file(temporary) as file:
                index = sorted((oid, offset, crc) for oid, (offset, crc) in entries.items())
                write_pack_index_v2(file, index, checksum)
                flush(file)
            temporary.replace(name.with_suffix(".idx"))
            sync_folder(self._packs())
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreFailure(f"{self.folder} cannot be written: {error.strerror or error}") from error
        self._seen = self._mark()

    # ---- what this process believes

    def forget(self) -> None:
        """Read again what is stored before it is asked for the next time."""
        self.close()
        self._seen = None

    def _open(self) -> DiskObjectStore:
        if self._objects is None:
            from dulwich.object_store import DiskObjectStore

            self._objects = DiskObjectStore(str(self.folder / "objects"))
            self._at_exit = weakref.finalize(self, self._objects.close)
        return self._objects

    def _packs(self) -> Path:
        return self.folder / "objects" / "pack"

    def _generation(self) -> bytes:
        try:
            return self._generation_file.read_bytes()
        except OSError:
            return b""

    def _mark(self) -> tuple[object, ...]:
        """What changes when another process writes a pack or drops one, or one is cut off."""
        try:
            with os.scandir(self._packs()) as entries:
                sizes = {entry.name: entry.stat().st_size for entry in entries if entry.name[-5:] == ".pack"}
        except (FileNotFoundError, NotADirectoryError):
            sizes = {}
        except OSError as error:
            raise StoreFailure(f"the shadow store {self.folder} cannot be read: {error.strerror}") from error
        return self._generation(), sizes


def _damage() -> tuple[type[Exception], ...]:
    """What dulwich raises over bytes that are no object, pack or index."""
    from dulwich import errors

    theirs = (errors.ChecksumMismatch, errors.FileFormatException, errors.ApplyDeltaError)
    return (*theirs, ValueError, TypeError, AssertionError, IndexError, EOFError, zlib.error, struct.error)


def _raw(oid: bytes) -> Any:
    """dulwich tells raw ids from hex ones by type."""
    from dulwich.objects import RawObjectID

    return RawObjectID(oid)


def _compress_large(
    size: int, chunks: Iterator[bytes], hash_update: Callable[[bytes], None]
) -> Iterator[bytes]:
    from dulwich.object_format import SHA1
    from dulwich.pack import pack_object_header

    yield bytes(pack_object_header(_TYPE_NUMBERS[BLOB], None, size, SHA1))
    compressor = zlib.compressobj(_FASTEST)
    for chunk in chunks:
        hash_update(chunk)
        yield compressor.compress(chunk)
    yield compressor.flush()
