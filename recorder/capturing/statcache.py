"""What each file's content was when it was last read, by its status: lets a capture skip unchanged files.

Only ever a saving of time: it lies beside the store, carries its own checksum, and where it is missing
or damaged everything is read again. It never says that an object is stored.
"""

from __future__ import annotations

import contextlib
import os
import struct
from hashlib import blake2b
from pathlib import Path

import msgspec

from recorder.capturing.durable import private_file, put_aside

_MAGIC = b"stat cache 1\n"
_DIGEST = 16
_SIGNATURE = struct.Struct("<qqqQIQ")
_ID = 20

RACY_NS = 10**9
"""A file changed less than this before it was read may have changed again without its times showing it."""

Folder = dict[bytes, bytes]
"""By name: status, raw blob id, and 1 where the status can be trusted."""


def signature(status: os.stat_result) -> bytes:
    """What of a file's status changes when the file does."""
    return _SIGNATURE.pack(
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
        status.st_mode,
        status.st_dev & 0xFFFFFFFFFFFFFFFF,
    )


def record(status: os.stat_result, oid: bytes, read_at: int) -> bytes:
    """The cache's record of a file whose reading began at `read_at` (ns)."""
    sure = max(status.st_ctime_ns, status.st_mtime_ns) < read_at - RACY_NS
    return signature(status) + oid + (b"\1" if sure else b"\0")


def known_id(record: bytes | None, status: os.stat_result) -> bytes | None:
    """The blob id of a file with this status, or None where it must be read."""
    if record is None or record[-1] == 0 or record[: _SIGNATURE.size] != signature(status):
        return None
    return record[_SIGNATURE.size : _SIGNATURE.size + _ID]


class StatCache:
    """The cache of one work tree, in memory; `folders` is by path of the folder."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.folders: dict[bytes, Folder] = _load(file)
        self._saved = True

    def replace(self, folders: dict[bytes, Folder], *, changed: bool) -> None:
        self.folders = folders
        self._saved = self._saved and not changed

    def save(self) -> None:
        """Write it where it changed. A cache that cannot be written is none: nothing depends on it."""
        if self._saved:
            return
        payload = msgspec.msgpack.encode(self.folders)
        temporary = self._file.with_name(f"{self._file.name}.new")
        try:
            with private_file(temporary) as opened:
                opened.write(_MAGIC + _checksum(payload) + payload)
            if self._file.is_dir():
                put_aside(self._file, self._file.with_name("put-aside"))
            temporary.replace(self._file)
            self._saved = True
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()


def _load(file: Path) -> dict[bytes, Folder]:
    try:
        content = file.read_bytes()
    except OSError:
        return {}
    head, payload = content[: len(_MAGIC) + _DIGEST], content[len(_MAGIC) + _DIGEST :]
    if head != _MAGIC + _checksum(payload):
        return {}
    try:
        return msgspec.msgpack.decode(payload, type=dict[bytes, Folder])
    except msgspec.DecodeError:
        return {}


def _checksum(payload: bytes) -> bytes:
    return blake2b(payload, digest_size=_DIGEST).digest()
