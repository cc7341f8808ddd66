"""What an apply leaves on the disk to be undone by: private names beside each path.

They are the journal: a path with none of them beside it was never touched. All of a path's private
names follow from the operation's token and the path, and never hold the path's own name, so that a
name of 255 bytes has them too.

    writing   being written; worth nothing
    ready     whole: what is to be put in place, and after the exchange what stood there;
              of a deletion, what was deleted
    mark      empty: the path itself is being made, written in place, or given another mode
    spare     in use during an exchange where there is no system call for it
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import TracebackType
from typing import NamedTuple, Protocol

from recorder.applying.disk import WorkTree
from recorder.applying.folder import NOT_WRITABLE, Folder, NoFolder, blob_id
from recorder.applying.renames import Hook
from recorder.errors import Failed, IntegrityFailure, RecorderError
from recorder.events import FileStep
from recorder.private import PRIVATE_PREFIX, TOKEN
from recorder.states import ABSENT, PathNote, PathState

NEW_FOLDER = PathState("dir", 0o755)
OPEN = 0o700
"""What a folder's owner needs to work in it."""
FOREIGN = "it holds files that are not of this rewind"


class Blobs(Protocol):
    """Where the bytes of file states lie."""

    def blob(self, oid: str) -> bytes:
        """The content of a git blob by its hex id. Raises RecorderError where it is not at hand."""
        ...


def content_of(blobs: Blobs, state: PathState) -> bytes:
    """The bytes of a file or link state, checked. Raises RecorderError."""
    content = blobs.blob(state.oid)
    if blob_id(content) != state.oid:
        raise IntegrityFailure(f"the stored bytes of {state.oid} are not what was stored")
    return content


class Names(NamedTuple):
    """The private names of one path, in the order in which `Folder.settle` wants them."""

    writing: bytes
    spare: bytes
    ready: bytes
    mark: bytes


class Journal:
    """The steps of one operation on one open work tree, and the private names of each; a context manager."""

    def __init__(self, root: bytes, steps: Sequence[FileStep], private: str, hook: Hook) -> None:
        if not re.fullmatch(TOKEN, private):
            raise Failed(f"“{private}” is no token for private names", code="private")
        self.tree = WorkTree(root, hook)
        self.steps = tuple(step for step in steps if step.before != step.after)
        self._prefix = PRIVATE_PREFIX + private.encode() + b"-"

    def __enter__(self) -> Journal:
        self.tree.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tree.__exit__(kind, error, trace)

    def names(self, step: FileStep) -> Names:
        stem = self._prefix + hashlib.blake2b(step.path, digest_size=10).hexdigest().encode()
        return Names(stem + b"w", stem + b"s", stem + b"r", stem + b"m")

    @cached_property
    def by_private_name(self) -> dict[bytes, FileStep]:
        return {name: step for step in self.steps for name in self.names(step)}

    def owns(self, name: bytes) -> bool:
        """Whether a name is one of this operation's private ones."""
        return name.startswith(self._prefix)

    def parents(self) -> list[FileStep]:
        """The folders above every path that is to stand, as steps that make them where they are missing
        and the plan says nothing of them."""
        planned = {step.path for step in self.steps}
        above = {folder for step in self.steps if step.after.present for folder in _folders_above(step.path)}
        return [FileStep(path, ABSENT, NEW_FOLDER) for path in above - planned]

    def mark(self, step: FileStep, folder: Folder) -> None:
        """Set a step's mark beside its path, or in the root where its folder cannot be written."""
        if self.marked(step, folder):
            return
        name = self.names(step).mark
        try:
            folder.create(name, b"")
        except OSError as error:
            if error.errno not in NOT_WRITABLE:
                raise
            with self.tree.root() as root:
                root.create(name, b"")

    def marked(self, step: FileStep, folder: Folder) -> bool:
        name = self.names(step).mark
        return folder.look(name) is not None or self._in_root(lambda root: root.look(name) is not None)

    def unmark(self, step: FileStep, folder: Folder) -> None:
        name = self.names(step).mark
        folder.remove(name)
        self._in_root(lambda root: root.remove(name))

    def sync(self) -> list[PathNote]:
        """Make everything that was done so far durable; the paths where that failed."""
        return [self._unsynced(path, error) for path, error in self.tree.sync()]

    def _unsynced(self, path: bytes, error: OSError) -> PathNote:
        step = self.by_private_name.get(path.rpartition(b"/")[2])
        return PathNote(step.path if step else path, f"it cannot be brought onto the disk: {reason(error)}")

    def _in_root(self, act: Callable[[Folder], bool | None]) -> bool:
        try:
            with self.tree.root() as root:
                return bool(act(root))
        except NoFolder:
            return False


def attempt(step: FileStep, act: Callable[[FileStep], None]) -> PathNote | None:
    """Act on a step; the reason where it failed."""
    try:
        act(step)
    except (OSError, RecorderError) as error:
        return PathNote(step.path, reason(error))
    return None


def attempt_all(steps: Iterable[FileStep], act: Callable[[FileStep], None]) -> list[PathNote]:
    """Act on every step, also when others failed; the failures."""
    return [note for step in steps if (note := attempt(step, act)) is not None]


def reason(error: OSError | RecorderError) -> str:
    """A failure on one path in a few words."""
    if isinstance(error, RecorderError):
        return error.message
    return (error.strerror or str(error)).rstrip(".").lower()


def kept_beside(name: bytes) -> str:
    """Where the earlier content is when it could not return, in the words of a note."""
    return f"what stood there before is kept beside it as {name.decode()}"


def shallow(steps: Iterable[FileStep]) -> list[FileStep]:
    """Folders before what is in them."""
    return sorted(steps, key=lambda step: (step.path.count(b"/"), step.path))


def deep(steps: Iterable[FileStep]) -> list[FileStep]:
    """What is in a folder before the folder."""
    return shallow(steps)[::-1]


def is_mode_only(step: FileStep) -> bool:
    before, after = step.before, step.after
    return (before.kind, before.oid) == (after.kind, after.oid) and before.kind in ("file", "dir")


def is_rewrite(step: FileStep) -> bool:
    """A file stays a file with another content."""
    return step.before.kind == step.after.kind == "file"


def leaves_folder(step: FileStep) -> bool:
    """A folder goes, or something else takes its place."""
    return step.before.kind == "dir" and step.after.kind != "dir"


def becomes_folder(step: FileStep) -> bool:
    return step.after.kind == "dir" and step.before.kind != "dir"


def _folders_above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:end]) for end in range(1, len(parts)) if parts[:end] != [b""]]
