"""One open folder of a work tree: looking at what stands in it, and every effect on it.

All by descriptor and single names, links never followed, so that nothing here can reach another place
than the folder that was opened. `recorder.applying.disk` opens it; what is to be done, and in which order, is
for `recorder.applying.apply` to say.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from types import TracebackType

from recorder.applying import attributes, renames
from recorder.applying.renames import Hook, effect, look
from recorder.errors import Refused
from recorder.states import ABSENT, SKIPPED, PathState

CHUNK = 1 << 20
NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
NOT_EMPTY = frozenset({errno.ENOTEMPTY, errno.EEXIST})
CHANGED = "it was changed by somebody else meanwhile"
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READS = 3


class NoFolder(Refused):
    """On the way to a path a folder is missing, or something else stands in its place."""

    code = "no_folder"


def blob_id(content: bytes) -> str:
    """The hex id of the git blob with this content (gitformat-pack(5): SHA-1 over a header and it)."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def open_folder(name: bytes, parent: int | None, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except FileNotFoundError:
        raise NoFolder("its folder is gone") from None
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise NoFolder("a link or a file stands where its folder should be") from None
        raise


class Folder:
    """An open folder: looking at what stands in it, and every effect on it. Names are bytes.

    `touch` says that something in the folder is about to change, and gives the set of names whose content
    or mode is not on the disk yet. Every method that finds something other than it needs raises OSError.
    """

    def __init__(self, descriptor: int, hook: Hook, touch: Callable[[], set[bytes]]) -> None:
        self.descriptor = descriptor
        self._hook = hook
        self._touch = touch

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)

    # ---- looking

    def look(self, name: bytes) -> os.stat_result | None:
        return look(self.descriptor, name)

    def names(self) -> list[bytes]:
        with os.scandir(self.descriptor) as entries:
            return [os.fsencode(entry.name) for entry in entries]

    def state(self, name: bytes) -> PathState:
        """What stands at a name; sockets, pipes and devices count as skipped."""
        status = self.look(name)
        if status is None:
            return ABSENT
        if stat.S_ISREG(status.st_mode):
            return self._file_state(name)
        if stat.S_ISDIR(status.st_mode):
            return PathState("dir", stat.S_IMODE(status.st_mode))
        if stat.S_ISLNK(status.st_mode):
            return PathState("link", 0, blob_id(os.readlink(name, dir_fd=self.descriptor)))
        return SKIPPED

    def _file_state(self, name: bytes) -> PathState:
        with self.opened(name) as descriptor:
            for _ in range(_READS):
                status = os.fstat(descriptor)
                oid = _hash(descriptor, status.st_size)
                if oid is not None:
                    return PathState("file", stat.S_IMODE(status.st_mode), oid)
        raise OSError(errno.EAGAIN, "it is being written by another process", name)

    @contextlib.contextmanager
    def opened(self, name: bytes, *, to_write: bool = False) -> Iterator[int]:
        """A descriptor of the regular file at a name, never of what a link leads to."""
        descriptor = self._open_to_write(name) if to_write else self._open(name, os.O_RDONLY)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file any more", name)
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, name: bytes, flags: int) -> int:
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(name, flags, dir_fd=self.descriptor)

    def _open_to_write(self, name: bytes) -> int:
        """Its owner gets the right to write, where that alone is lacking."""
        try:
            return self._open(name, os.O_RDWR)
        except PermissionError:
            with self.opened(name) as reading, self.effect("chmod"):
                os.fchmod(reading, stat.S_IMODE(os.fstat(reading).st_mode) | 0o200)
            return self._open(name, os.O_RDWR)

    def enter(self, name: bytes) -> Folder:
        """The folder at a name."""
        return Folder(open_folder(name, self.descriptor, OPEN_FOLDER), self._hook, self._touch)

    # ---- effects

    @contextlib.contextmanager
    def effect(self, name: str) -> Iterator[None]:
        self._touch()
        with effect(self._hook, name):
            yield

    def create(self, name: bytes, content: bytes) -> None:
        """A new file, readable by its owner alone until its mode is set."""
        with self.effect("create"):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, 0o600, dir_fd=self.descriptor)
        try:
            if content:
                with self.effect("write"):
                    write_all(descriptor, content, 0)
        finally:
            os.close(descriptor)

    def symlink(self, name: bytes, target: bytes) -> None:
        with self.effect("symlink"):
            os.symlink(target, name, dir_fd=self.descriptor)

    def make_folder(self, name: bytes) -> None:
        with self.effect("mkdir"):
            os.mkdir(name, 0o700, dir_fd=self.descriptor)

    def set_mode(self, name: bytes, mode: int, expected: PathState | None = None) -> None:
        """Set the mode of a file or folder, on the open thing itself; it and the content are durable after
        the next sync of the tree, or at once where the mode keeps its owner from opening it again.

        With `expected`, another kind or content raises OSError and keeps its mode.
        """
        descriptor = self._open(name, os.O_RDONLY)
        try:
            status = os.fstat(descriptor)
            if expected is not None and not _holds(descriptor, status, expected):
                raise OSError(errno.EAGAIN, CHANGED, name)
            if stat.S_IMODE(status.st_mode) != mode:
                with self.effect("chmod"):
                    os.fchmod(descriptor, mode)
                if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
                    raise OSError(errno.EPERM, f"the file system does not keep the mode {mode:04o}", name)
            if mode & 0o400:
                self._touch().add(name)
            else:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def give(self, name: bytes, owner: os.stat_result) -> None:
        """Owner and group of another file, where they are not the same already."""
        now = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        if (now.st_uid, now.st_gid) != (owner.st_uid, owner.st_gid):
            with self.effect("chown"):
                os.chown(name, owner.st_uid, owner.st_gid, dir_fd=self.descriptor, follow_symlinks=False)

    def copy_attributes(self, source: bytes, name: bytes) -> None:
        """Extended attributes and ACL of `source` onto `name`, both files; the mode comes after it."""
        with self.opened(source) as old, self.opened(name) as new:
            self._bring_attributes(new, attributes.read(old))

    def _bring_attributes(self, descriptor: int, wanted: dict[str, bytes]) -> None:
        standing = attributes.read(descriptor)
        if wanted != standing:
            with self.effect("xattr"):
                attributes.bring(descriptor, standing, wanted)

    def move(self, name: bytes, new: bytes) -> None:
        """Rename to a name that is free."""
        unsynced = self._touch()
        renames.move(self.descriptor, name, new, self._hook)
        if name in unsynced:
            unsynced.remove(name)
            unsynced.add(new)

    def exchange(self, name: bytes, other: bytes, spare: bytes) -> None:
        self._touch()
        renames.exchange(self.descriptor, name, other, spare, self._hook)

    def settle(self, names: tuple[bytes, ...]) -> None:
        self._touch()
        renames.settle(self.descriptor, names, self._hook)

    def remove(self, name: bytes) -> None:
        """Remove a file, a link or an empty folder; what is gone already is as good."""
        status = self.look(name)
        if status is None:
            return
        if stat.S_ISDIR(status.st_mode):
            with self.effect("rmdir"):
                os.rmdir(name, dir_fd=self.descriptor)
        else:
            with self.effect("unlink"):
                os.unlink(name, dir_fd=self.descriptor)

    def write_in_place(
        self, name: bytes, content: bytes, mode: int, fits: Callable[[bytes, int], bool]
    ) -> None:
        """Write over a file through its open descriptor, so that every link to it sees it, durably.

        `fits` is asked whether the content and mode that stand there may be written over. A crash
        leaves the first bytes new and the others as they were.
        """
        with self.opened(name, to_write=True) as descriptor:
            before = os.fstat(descriptor)
            standing, kept = read_all(descriptor), attributes.read(descriptor)
            if not fits(standing, stat.S_IMODE(before.st_mode)) or _moved_on(before, os.fstat(descriptor)):
                raise OSError(errno.EAGAIN, CHANGED, name)
            # What cannot be set again after the write fails here, before it.
            if before.st_mode & 0o6000 or stat.S_IMODE(before.st_mode) != mode:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
            if attributes.CAPABILITIES in kept:
                os.setxattr(descriptor, attributes.CAPABILITIES, kept[attributes.CAPABILITIES])
            for start in range(0, len(content), CHUNK):
                with self.effect("write in place"):
                    write_all(descriptor, content[start : start + CHUNK], start)
            with self.effect("truncate"):
                os.ftruncate(descriptor, len(content))
            self._bring_attributes(descriptor, kept)
            if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
                with self.effect("chmod"):
                    os.fchmod(descriptor, mode)
            os.fsync(descriptor)
            if read_all(descriptor) != content:
                raise OSError(errno.EAGAIN, "another process wrote to it at the same moment", name)


def _holds(descriptor: int, status: os.stat_result, expected: PathState) -> bool:
    """Whether an open file or folder is of the expected kind and content, whatever its mode."""
    if stat.S_ISREG(status.st_mode):
        return expected.kind == "file" and _hash(descriptor, status.st_size) == expected.oid
    return stat.S_ISDIR(status.st_mode) and expected.kind == "dir"


def _moved_on(before: os.stat_result, now: os.stat_result) -> bool:
    return (before.st_size, before.st_mtime_ns, before.st_ctime_ns) != (
        now.st_size,
        now.st_mtime_ns,
        now.st_ctime_ns,
    )


def _hash(descriptor: int, size: int) -> str | None:
    """The blob id of an open file, or None where it does not hold `size` bytes any more."""
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    position = 0
    while chunk := os.pread(descriptor, CHUNK, position):
        digest.update(chunk)
        position += len(chunk)
    return digest.hexdigest() if position == size else None


def read_all(descriptor: int) -> bytes:
    """The whole content of an open file."""
    chunks = []
    position = 0
    while chunk := os.pread(descriptor, CHUNK, position):
        chunks.append(chunk)
        position += len(chunk)
    return b"".join(chunks)


def write_all(descriptor: int, content: bytes, position: int) -> None:
    """Write all of the content at a position of an open file."""
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, position)
        view = view[written:]
        position += written
