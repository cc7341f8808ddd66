"""Packs and their indexes as files: which objects they hold, whether they are whole, and what can still be
read of one that is not.

Formats: gitformat-pack(5), index version 2. An object that is read out of a damaged pack is taken for what
its own bytes are: its name is made from them.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha1
from pathlib import Path

import msgspec

_HEADER = 8
_FANOUT = 256 * 4
_ID = 20
_CHUNK = 1 << 20
_MAGIC = b"\377tOc\0\0\0\2"
_KINDS = {1: b"commit", 2: b"tree", 3: b"blob"}
_BY_OFFSET, _BY_ID = 6, 7
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
"""How zlib streams of git and dulwich begin, by level of compression."""
_LONGEST_HEAD = 32
"""Bytes before an entry's compressed content: its size, and the base of a difference."""


def ids_of(pack: Path) -> list[bytes] | None:
    """The raw ids of a pack's objects, by its index; None where the index is damaged, or is another pack's,
    or the pack is cut off. The pack's content is not read."""
    try:
        content = pack.with_suffix(".idx").read_bytes()
        with pack.open("rb") as file:
            begins = file.read(4) == b"PACK"
            file.seek(-_ID, 2)
            checksum = file.read()
    except OSError:
        return None
    names = _names_in(content)
    return names if begins and content[-2 * _ID : -_ID] == checksum else None


def _names_in(content: bytes) -> list[bytes] | None:
    if len(content) < _HEADER + _FANOUT + 2 * _ID or content[:_HEADER] != _MAGIC:
        return None
    if sha1(content[:-_ID], usedforsecurity=False).digest() != content[-_ID:]:
        return None
    (count,) = struct.unpack_from(">L", content, _HEADER + _FANOUT - 4)
    table = content[_HEADER + _FANOUT : _HEADER + _FANOUT + _ID * count]
    return [entry[0] for entry in struct.iter_unpack("20s", table)] if len(table) == _ID * count else None


def whole(pack: Path) -> bool:
    """Whether a pack's bytes are those that were written: all of it is read. Raises OSError."""
    digest, last = sha1(usedforsecurity=False), b""
    with pack.open("rb") as file:
        while chunk := file.read(_CHUNK):
            held = last + chunk
            digest.update(held[:-_ID])
            last = held[-_ID:]
    return digest.digest() == last


def blob_id(size: int, chunks: Iterable[bytes]) -> bytes:
    """The raw id of a blob of this size, which is not held as a whole."""
    digest = sha1(b"blob %d\0" % size, usedforsecurity=False)
    for chunk in chunks:
        digest.update(chunk)
    return digest.digest()


class Entry(msgspec.Struct, frozen=True):
    """An object that can be read out of a pack: where its compressed content begins and ends, and for a
    difference what it is one to (an offset or a raw id)."""

    offset: int
    number: int
    size: int
    data: int
    end: int
    base: int | bytes | None

    @property
    def kind(self) -> bytes:
        """Empty for a difference, whose base has the kind."""
        return _KINDS.get(self.number, b"")


Known = Callable[[bytes], tuple[bytes, bytes] | None]
"""Type and content of an object by its raw id, from elsewhere."""


class Salvage:
    """What can be read of a damaged pack; to be closed."""

    def __init__(self, pack: Path) -> None:
        """Raises OSError."""
        with pack.open("rb") as file:
            empty = file.seek(0, 2) == 0
            self._bytes: mmap.mmap | bytes = (
                b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            )
        self.entries = {entry.offset: entry for entry in self._scan()}

    def close(self) -> None:
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """The entry's own content, not held as a whole."""
        inflater = zlib.decompressobj()
        for start in range(entry.data, entry.end, _CHUNK):
            yield inflater.decompress(self._bytes[start : min(start + _CHUNK, entry.end)])
        yield inflater.flush()

    def content(self, entry: Entry, known: Known) -> tuple[bytes, bytes] | None:
        """Type and content of an object; None where what it is a difference to is lost."""
        from dulwich.errors import ApplyDeltaError
        from dulwich.pack import apply_delta

        own = b"".join(self.chunks(entry))
        if entry.base is None:
            return entry.kind, own
        if isinstance(entry.base, bytes):
            base = known(entry.base)
        else:
            standing = self.entries.get(entry.base)
            base = self.content(standing, known) if standing else None
        if base is None:
            return None
        try:
            return base[0], b"".join(apply_delta(base[1], own))
        except ApplyDeltaError:
            return None

    def _scan(self) -> Iterator[Entry]:
        """Entry after entry; over what is damaged to the next place where one begins."""
        place, end = 12, len(self._bytes)
        while place < end:
            entry = self._entry(place) or self._next(place + 1)
            if entry is None:
                return
            yield entry
            place = entry.end

    def _next(self, place: int) -> Entry | None:
        """The first entry whose compressed content begins after a place."""
        starts = {mark: self._bytes.find(mark, place) for mark in _ZLIB}
        while found := [start for start in starts.values() if start >= 0]:
            start = min(found)
            for offset in range(start - 1, max(place - 1, start - _LONGEST_HEAD), -1):
                entry = self._entry(offset)
                if entry is not None and entry.data == start:
                    return entry
            for mark, at in starts.items():
                if at == start:
                    starts[mark] = self._bytes.find(mark, start + 1)
        return None

    def _entry(self, offset: int) -> Entry | None:
        try:
            number, size, data = self._head(offset)
            base: int | bytes | None = None
            if number == _BY_OFFSET:
                back, data = self._distance(data)
                base = offset - back
            elif number == _BY_ID:
                base, data = self._bytes[data : data + _ID], data + _ID
            elif number not in _KINDS:
                return None
            end = self._inflated_end(data, size)
        except (IndexError, zlib.error):
            return None
        return Entry(offset, number, size, data, end, base) if end else None

    def _head(self, place: int) -> tuple[int, int, int]:
        byte = self._bytes[place]
        number, size, shift = byte >> 4 & 7, byte & 15, 4
        while byte & 0x80:
            place += 1
            byte = self._bytes[place]
            size |= (byte & 0x7F) << shift
            shift += 7
        return number, size, place + 1

    def _distance(self, place: int) -> tuple[int, int]:
        byte = self._bytes[place]
        distance = byte & 0x7F
        while byte & 0x80:
            place += 1
            byte = self._bytes[place]
            distance = (distance + 1 << 7) | byte & 0x7F
        return distance, place + 1

    def _inflated_end(self, data: int, size: int) -> int:
        """Where the compressed content ends that begins here and has this size; 0 where there is none."""
        inflater, length = zlib.decompressobj(), 0
        step = min(size + 64, _CHUNK)
        for start in range(data, len(self._bytes), step):
            chunk = self._bytes[start : start + step]
            length += len(inflater.decompress(chunk))
            if inflater.eof:
                return start + len(chunk) - len(inflater.unused_data) if length == size else 0
            if length > size:
                return 0
        return 0
