"""Which paths git tracks in a repository, read from its index without leaving a trace in the repository.

Reading a split index makes git touch the shared part of it, and filling up a sparse one makes it write
objects. Such an index is therefore read from a copy, and what is folded up in a sparse one is listed
from its trees, where there is something of it on disk at all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from recorder import git
from recorder.capturing.repository import Repository, open_regular
from recorder.errors import StoreFailure

_EXTENSIONS = (b"link", b"sdir")
"""Marks of a split index and of a sparse one (index-format(5)); a name may have them in it too."""

_FOLDER = b"040000"

DEADLINE = 30.0
"""Seconds after which a question to git is given up: it takes a fraction of one for a large project."""


class Tracked:
    """The paths that a repository's index holds, relative to its top, and the folders above them.

    `scratch` is a folder of the recorder's in which copies are made for a moment.
    """

    def __init__(self, repository: Repository, scratch: bytes, deadline: float) -> None:
        """`deadline` is in seconds. Raises StoreFailure where git cannot read the index."""
        self._repository = repository
        self._folded: dict[bytes, str] = {}
        self.paths: frozenset[bytes] = frozenset()
        self.folders: frozenset[bytes] = frozenset()
        content = _content(repository.index)
        if any(mark in content for mark in _EXTENSIONS):
            self._take(_list_from_a_copy(repository, content, scratch, deadline))
        elif content:
            arguments = ["ls-files", "-z"]
            out = git.demand(arguments, git_dir=repository.git_dir, index=repository.index, deadline=deadline)
            self._add(out.split(b"\0"))

    def unfold(self, deadline: float) -> None:
        """Take in what a sparse index folds up and is on disk nevertheless. What git cannot tell is left."""
        for folder in [folder for folder in self._folded if self._stands(folder)]:
            arguments = ["ls-tree", "-r", "-z", "--name-only", "--end-of-options", self._folded.pop(folder)]
            with contextlib.suppress(StoreFailure):
                out = git.demand(arguments, git_dir=self._repository.git_dir, deadline=deadline)
                self._add(folder + b"/" + name for name in out.split(b"\0") if name)

    def _stands(self, folder: bytes) -> bool:
        return os.path.lexists(os.path.join(self._repository.top, folder))

    def _take(self, out: bytes) -> None:
        """Lines of `ls-files --stage`: mode, id, stage, a tab, the path."""
        lines = [line.partition(b"\t") for line in out.split(b"\0") if line.count(b" ") >= 2]
        self._folded = {
            path.rstrip(b"/"): meta.split(b" ")[1].decode()
            for meta, _, path in lines
            if meta.startswith(_FOLDER)
        }
        self._add(path for meta, _, path in lines if not meta.startswith(_FOLDER))

    def _add(self, paths: Iterable[bytes]) -> None:
        self.paths = (self.paths | frozenset(paths)) - {b""}
        self.folders = frozenset(_parents(self.paths))


def _content(index: bytes) -> bytes:
    try:
        with open_regular(index) as file:
            return file.read()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreFailure(f"the index cannot be read: {error.strerror}") from error


def _list_from_a_copy(repository: Repository, content: bytes, scratch: bytes, deadline: float) -> bytes:
    with tempfile.TemporaryDirectory(prefix="index-", dir=os.fsdecode(scratch)) as folder:
        try:
            _copy(repository, content, Path(folder))
        except OSError as error:
            raise StoreFailure(f"the index cannot be copied: {error.strerror}") from error
        return git.demand(
            ["ls-files", "-z", "--stage", "--sparse"],
            git_dir=os.fsencode(folder),
            work_tree=repository.top,
            index=os.fsencode(folder) + b"/index",
            deadline=deadline,
        )


def _copy(repository: Repository, content: bytes, folder: Path) -> None:
    """A git folder with the index, what it is split from, and the settings that say how to read it."""
    for name in ("objects", "refs", "info"):
        (folder / name).mkdir()
    (folder / "HEAD").write_bytes(b"ref: refs/heads/none\n")
    (folder / "index").write_bytes(content)
    own, common = Path(os.fsdecode(repository.git_dir)), Path(os.fsdecode(repository.common_dir))
    shutil.copyfile(common / "config", folder / "config")
    for name in ("config.worktree", "info/sparse-checkout"):
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(own / name, folder / name)
    for shared in own.glob("sharedindex.*"):
        with contextlib.suppress(ValueError):
            if bytes.fromhex(shared.suffix[1:]) in content:
                shutil.copyfile(shared, folder / shared.name)


def _parents(paths: Iterable[bytes]) -> set[bytes]:
    parents: set[bytes] = set()
    for path in paths:
        end = path.rfind(b"/")
        while end > 0 and path[:end] not in parents:
            parents.add(path[:end])
            end = path.rfind(b"/", 0, end)
    return parents
