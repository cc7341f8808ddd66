"""New objects on their way into a shadow store, with as few writes and as little memory as can be."""

from __future__ import annotations

import os
from collections.abc import Iterator

from recorder.capturing.packs import blob_id
from recorder.capturing.store import BLOB, Store, object_id

_PENDING = 32 << 20
"""Bytes of new objects that are held before they are written as a pack."""
_CHUNK = 1 << 20


def chunks_of(descriptor: int) -> Iterator[bytes]:
    """An open file's content from its start."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    while chunk := os.read(descriptor, _CHUNK):
        yield chunk


class Batch:
    """New objects on their way into a store, a pack at a time; with `dry`, nothing is written, and of
    files' contents only the ids are made.

    What is written before a capture fails lies there unused, or is used by the next one.
    """

    def __init__(self, store: Store, *, dry: bool) -> None:
        self._store, self._dry = store, dry
        self._stored = store.stored()
        self._pending: dict[bytes, tuple[bytes, bytes]] = {}
        self._weight = 0
        self.written = 0

    def holds(self, oid: bytes) -> bool:
        """Whether the object needs no bytes any more."""
        return self._dry or oid in self._stored or oid in self._pending

    def add(self, kind: bytes, content: bytes) -> bytes:
        """Take an object in where it is new, and give its raw id; with `dry` in any case, so that it can be
        read back whatever became of the stored one."""
        oid = object_id(kind, content)
        if oid in self._pending or (oid in self._stored and not self._dry):
            return oid
        self._pending[oid] = (kind, content)
        self._weight += len(content)
        if self._weight > _PENDING and not self._dry:
            self.flush()
        return oid

    def whole(self, content: bytes) -> bytes:
        """A file's content, or a link's target; with `dry` it is not held, and cannot be read back."""
        return object_id(BLOB, content) if self._dry else self.add(BLOB, content)

    def large(self, descriptor: int, size: int) -> bytes | None:
        """Take in a large file's content without holding it; None where it changed under the reading."""
        oid = blob_id(size, chunks_of(descriptor))
        if self.holds(oid):
            return oid
        if not self._store.write_large(oid, size, lambda: chunks_of(descriptor)):
            return None
        self.written += 1
        return oid

    def read(self, oid: bytes) -> bytes:
        """The content of an object of the store or of this batch."""
        pending = self._pending.get(oid)
        return pending[1] if pending else self._store.read(oid)[1]

    def flush(self) -> None:
        if self._pending and not self._dry:
            self._store.write_pack([(oid, kind, content) for oid, (kind, content) in self._pending.items()])
            self.written += len(self._pending)
            self._pending.clear()
            self._weight = 0
