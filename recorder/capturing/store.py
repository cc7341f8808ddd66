"""The shadow store of one work tree: a bare git repository outside the project, for git's tools to read.

Owns its creation, how objects and refs get in durably, and how they go. What the objects mean is
`recorder.capturing.trees`' to say. Everything here runs under the work tree's lock.
"""

from __future__ import annotations

import contextlib
import os
import struct
import weakref
import zlib
from collections.abc import Callable, Collection, Iterator
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recorder import git
from recorder.capturing.durable import flush, private_file, sync_folder, write_durably
from recorder.errors import NotFound, StoreFailure

if TYPE_CHECKING:
    from dulwich.object_store import DiskObjectStore

BLOB, TREE, COMMIT = b"blob", b"tree", b"commit"
_TYPE_NUMBERS = {COMMIT: 1, TREE: 2, BLOB: 3}

CAPTURES = "refs/recorder/captures/"

LARGE = 16 << 20
"""A file of more bytes than this is never held in memory as a whole."""
_FASTEST = 1

_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\tautocrlf = false
\thooksPath = /dev/null
\tfsmonitor = false
\tlogAllRefUpdates = false
\tattributesFile = /dev/null
\tcommitGraph = false
\tmultiPackIndex = false
[gc]
\tauto = 0
\twriteCommitGraph = false
[repack]
\twriteBitmaps = false
[maintenance]
\tauto = false
[commit]
\tgpgSign = false
[fsck]
\tgitmodulesName = ignore
\tgitmodulesUrl = ignore
\tgitmodulesPath = ignore
\tgitmodulesSymlink = ignore
\tgitmodulesBlob = ignore
\tgitmodulesParse = ignore
\tgitmodulesUpdate = ignore
\tgitmodulesLarge = ignore
"""
_FOLDERS = ("", "info", "objects", "objects/pack", "objects/info", "refs", "refs/recorder", CAPTURES)
_FIXED = {
    "config": _CONFIG.encode(),
    "info/attributes": b"* -text -ident -filter -eol -working-tree-encoding -export-subst -diff\n",
    "HEAD": b"ref: refs/heads/none\n",
}
"""Files of every store, by their whole content."""


def object_id(kind: bytes, content: bytes) -> bytes:
    """The raw SHA-1 id that git gives an object."""
    return sha1(b"%b %d\0%b" % (kind, len(content), content), usedforsecurity=False).digest()


class Store:
    """An open shadow store. `folder` is created where it is missing.

    Raises StoreFailure when it cannot be created or read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._generation_file = folder.parent / "generation"
        self._seen: tuple[object, ...] | None = None
        self._stored: set[bytes] = set()
        self._objects: DiskObjectStore | None = None
        try:
            _create(folder)
        except OSError as error:
            raise StoreFailure(f"the shadow store {folder} cannot be created: {error.strerror}") from error

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
        """Type and content of an object by its raw id. Raises NotFound; StoreFailure where it is damaged."""
        try:
            number, content = self._open().get_raw(_raw(oid))
        except KeyError:
            raise NotFound(
                f"{oid.hex()} is not in the shadow store {self.folder}", code="not_stored"
            ) from None
        except (OSError, ValueError, AssertionError, zlib.error, struct.error) as error:
            raise StoreFailure(f"object {oid.hex()} of {self.folder} cannot be read: {error}") from error
        kind = next(kind for kind, known in _TYPE_NUMBERS.items() if known == number)
        if object_id(kind, content) != oid:
            raise StoreFailure(f"object {oid.hex()} of {self.folder} is not what was stored")
        return kind, content

    def stored(self) -> set[bytes]:
        """The raw ids of all objects that are in the store: read again when its packs or its generation
        are not those that this process left."""
        mark = self._mark()
        if mark != self._seen:
            self.close()
            self._stored = set(_ids_in(self.folder / "objects"))
            self._seen = mark
        return self._stored

    def has_ref(self, commit: str) -> bool:
        if (self.folder / CAPTURES / commit).exists():
            return True
        try:
            packed = (self.folder / "packed-refs").read_bytes()
        except FileNotFoundError:
            return False
        return f"{commit} {CAPTURES}{commit}\n".encode() in packed

    def refs(self) -> list[str]:
        """The commits of all live captures."""
        out = git.demand(["for-each-ref", "--format=%(objectname)", CAPTURES], git_dir=self.git_dir)
        return out.decode().split()

    def bytes_used(self) -> int:
        """Bytes of all files of the work tree's folder in the home."""
        return sum(file.lstat().st_size for file in self.folder.parent.rglob("*") if not file.is_dir())

    def fsck(self) -> None:
        """Check every object and ref. Raises StoreFailure with git's first complaint."""
        git.demand(["fsck", "--full", "--strict", "--no-dangling", "--no-progress"], git_dir=self.git_dir)

    # ---- writing

    def set_ref(self, commit: str) -> None:
        """Keep a capture's commit alive, durably."""
        _make_folders(self.folder)
        write_durably(self.folder / CAPTURES / commit, commit.encode() + b"\n", self.folder / "new-ref")

    def release(self, commits: Collection[str]) -> None:
        """Let captures go; what only they hold is gone with the next `collect`."""
        gone = [commit for commit in commits if self.has_ref(commit)]
        orders = b"".join(f"delete {CAPTURES}{commit}\0\0".encode() for commit in gone)
        if gone:
            git.demand(["update-ref", "--stdin", "-z"], git_dir=self.git_dir, stdin=orders)

    def collect(self) -> None:
        """Pack what is live into one pack and drop the rest. The generation is raised first, so that
        nobody believes in an object that this took away."""
        generation = int(self._generation() or b"0") + 1
        write_durably(self._generation_file, b"%d" % generation)
        self.close()
        git.demand(["repack", "-a", "-d", "-q"], git_dir=self.git_dir, deadline=3600)
        git.demand(["prune", "--expire=now"], git_dir=self.git_dir, deadline=3600)

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

        packs = self.folder / "objects" / "pack"
        temporary = packs / f"tmp_pack_{os.getpid()}"
        try:
            with private_file(temporary) as file:
                entries, checksum = write_pack_data(
                    file.write, records, SHA1, num_records=count, compression_level=_FASTEST
                )
                flush(file)
            if not good():
                temporary.unlink()
                return
            name = packs / f"pack-{checksum.hex()}"
            temporary.replace(name.with_suffix(".pack"))
            with private_file(temporary) as file:
                index = sorted((oid, offset, crc) for oid, (offset, crc) in entries.items())
                write_pack_index_v2(file, index, checksum)
                flush(file)
            temporary.replace(name.with_suffix(".idx"))
            sync_folder(packs)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreFailure(f"{self.folder} cannot be written: {error.strerror or error}") from error
        self._seen = self._mark()

    # ---- what this process believes

    def _open(self) -> DiskObjectStore:
        if self._objects is None:
            from dulwich.object_store import DiskObjectStore

            self._objects = DiskObjectStore(str(self.folder / "objects"))
            self._at_exit = weakref.finalize(self, self._objects.close)
        return self._objects

    def _generation(self) -> bytes:
        try:
            return self._generation_file.read_bytes()
        except FileNotFoundError:
            return b""

    def _mark(self) -> tuple[object, ...]:
        try:
            packs = (self.folder / "objects" / "pack").stat()
            objects = (self.folder / "objects").stat()
        except OSError as error:
            raise StoreFailure(f"the shadow store {self.folder} cannot be read: {error.strerror}") from error
        return self._generation(), packs.st_mtime_ns, packs.st_ino, objects.st_mtime_ns


def _create(folder: Path) -> None:
    """Make the folder a repository, or put back what of it is missing or is not as it was made.

    `HEAD` is written last and makes the folder a repository.
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _make_folders(folder)
    for name, content in _FIXED.items():
        if not _holds(folder / name, content):
            write_durably(folder / name, content)
            sync_folder(folder.parent)


def _make_folders(folder: Path) -> None:
    """git takes away folders of refs that are empty."""
    for part in _FOLDERS:
        (folder / part).mkdir(mode=0o700, exist_ok=True)


def _holds(file: Path, content: bytes) -> bool:
    try:
        return file.read_bytes() == content
    except FileNotFoundError:
        return False


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


def _ids_in(objects: Path) -> Iterator[bytes]:
    """The raw ids of every object: of each index beside its pack (version 2, gitformat-pack(5)), and of
    the loose ones."""
    with os.scandir(objects) as entries:
        loose = [entry.name for entry in entries if len(entry.name) == 2]
    for name in loose:
        for file in (objects / name).iterdir():
            with contextlib.suppress(ValueError):
                yield bytes.fromhex(name + file.name)
    for index in (objects / "pack").glob("*.idx"):
        if index.with_suffix(".pack").exists():
            yield from _ids_in_index(index.read_bytes())


def _ids_in_index(content: bytes) -> Iterator[bytes]:
    header, fanout = 8, 256 * 4
    if len(content) < header + fanout or content[:8] != b"\377tOc\0\0\0\2":
        return
    (count,) = struct.unpack_from(">L", content, header + fanout - 4)
    table = memoryview(content)[header + fanout : header + fanout + 20 * count]
    if len(table) == 20 * count:
        yield from (entry[0] for entry in struct.iter_unpack("20s", table))
