"""Which work tree a session's folder has, and whether it is still that one. Captures nothing."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import stat
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import msgspec

from recorder import events
from recorder.capturing import ignore, mounts, repository
from recorder.capturing.durable import write_durably
from recorder.errors import Refused
from recorder.home import Home
from recorder.policy import MAX_FOLDER_FILES, MAX_REPOSITORY_FILES

_FOREIGN = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]+://|[A-Za-z]:[\\/]|\\\\|//[^/])")
"""URIs of remotes and containers, Windows paths, UNC paths."""

_WAVE = 256
"""Folders that are counted at a time."""


class WorkTree(msgspec.Struct, frozen=True):
    """`path` is the root's real path. `kind`: `repository` (the top of a git work tree), `folder` (plain),
    `per-file` (only what tools name is captured, `why` says for what reason)."""

    path: bytes
    device: int
    inode: int
    kind: str
    why: str | None = None

    @property
    def stream(self) -> UUID:
        return events.tree_stream(self.path, self.device, self.inode)

    @property
    def repository(self) -> repository.Repository | None:
        """The project's repository as it is now; None in a plain folder."""
        return repository.at(self.path) if self.kind == "repository" else None


def resolve(cwd: str, home: Home, user_home: Path) -> WorkTree:
    """The work tree of a session that was started in the folder `cwd`.

    What is too dangerous or too big to capture whole is `per-file`. What was once captured whole stays so,
    and a plain folder stays what it was. Raises Refused with the code `gone`, `foreign`, `unreadable` or
    `not_absolute`.
    """
    folder = _real_folder(cwd)
    found = repository.find(folder)
    if found is not None and _dangerous(found.top, home, user_home) is None:
        tree = _work_tree(found.top, "repository")
        if remembered_kind(home, tree) == "repository" or not _too_big(tree.path, home, MAX_REPOSITORY_FILES):
            return tree
        return _work_tree(
            tree.path, "per-file", f"it holds more than {MAX_REPOSITORY_FILES:,} files or folders"
        )
    why = _dangerous(folder, home, user_home)
    if why is not None:
        return _work_tree(folder, "per-file", why)
    tree = _work_tree(folder, "folder")
    known = remembered_kind(home, tree)
    if known == "per-file" or (known is None and _too_big(folder, home, MAX_FOLDER_FILES)):
        why = f"it holds more than {MAX_FOLDER_FILES:,} files or folders and is no git repository"
        return _work_tree(folder, "per-file", why)
    return tree


def still_there(tree: WorkTree) -> None:
    """Raises Refused with the code `gone`, `replaced` or `unreadable` when the root is not the folder that
    it was any more."""
    status = _status(tree.path)
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"{os.fsdecode(tree.path)} is not a folder any more", code="replaced")
    if (status.st_dev, status.st_ino) != (tree.device, tree.inode):
        raise Refused(
            f"{os.fsdecode(tree.path)} is another folder than the one that was captured", code="replaced"
        )


def remember_kind(home: Home, tree: WorkTree) -> None:
    """Keep what a work tree was taken for at its first capture. Raises StoreFailure."""
    if remembered_kind(home, tree) is None:
        write_durably(home.tree(tree.stream) / "kind", tree.kind.encode())


def remembered_kind(home: Home, tree: WorkTree) -> str | None:
    try:
        kind = (home.tree(tree.stream) / "kind").read_bytes().strip()
    except OSError:
        return None
    return kind.decode() if kind in (b"repository", b"folder", b"per-file") else None


def _real_folder(cwd: str) -> bytes:
    if _FOREIGN.match(cwd):
        raise Refused(f"{cwd} is not a folder of this machine", code="foreign")
    if not cwd.startswith("/"):
        raise Refused(f"the session's folder {cwd!r} is not an absolute path", code="not_absolute")
    folder = os.path.realpath(os.fsencode(cwd).replace(b"\0", b"?"))
    if not stat.S_ISDIR(_status(folder).st_mode):
        raise Refused(f"{cwd} is not a folder", code="gone")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise Refused(f"{cwd} cannot be read: permission denied", code="unreadable")
    return folder


def _status(folder: bytes) -> os.stat_result:
    name = os.fsdecode(folder)
    try:
        return os.lstat(folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            raise Refused(f"{name} is not there", code="gone") from error
        raise Refused(f"{name} cannot be read: {error.strerror}", code="unreadable") from error


def _work_tree(folder: bytes, kind: str, why: str | None = None) -> WorkTree:
    status = _status(folder)
    return WorkTree(folder, status.st_dev, status.st_ino, kind, why)


def _dangerous(folder: bytes, home: Home, user_home: Path) -> str | None:
    """Why a folder is never captured as a whole, or None."""
    if folder == b"/":
        return "it is the root of the file system"
    if folder == os.path.realpath(os.fsencode(user_home)):
        return "it is the user's home folder"
    recorder = os.path.realpath(os.fsencode(home.folder))
    if recorder == folder or recorder.startswith(folder + b"/"):
        return "it contains the recorder's own home"
    if folder.startswith(recorder + b"/"):
        return "it lies in the recorder's own home"
    made_up = mounts.made_up().get(_status(folder).st_dev)
    return None if made_up is None else mounts.reason(made_up)


def _too_big(folder: bytes, home: Home, limit: int) -> bool:
    """Counted as it is first, which needs no git; then without what is ignored."""
    if _count(folder, None, limit) <= limit:
        return False
    beside = home.folder if os.access(home.folder, os.W_OK) else None  # who only asks may have no home yet
    with tempfile.TemporaryDirectory(prefix="counting-", dir=beside) as scratch:
        for part in ("objects", "refs"):
            (Path(scratch) / part).mkdir()
        (Path(scratch) / "HEAD").write_text("ref: refs/heads/none\n")
        rules = ignore.Ignore(os.fsencode(scratch), folder)
        return _count(folder, rules, limit) > limit


def _count(root: bytes, rules: ignore.Ignore | None, limit: int) -> int:
    """Files below a folder, links and special ones too, or folders where those are more; not much further
    than the limit."""
    files, folders, waiting = 0, 0, deque([b""])
    while waiting and max(files, folders) <= limit:
        wave = [waiting.popleft() for _ in range(min(_WAVE, len(waiting)))]
        found = list(itertools.islice(_entries(root, wave), limit * 2))
        ignored = rules.ignored_below(found) if rules else frozenset()
        kept = [(path, is_folder) for path, is_folder in found if path not in ignored]
        waiting.extend(path for path, is_folder in kept if is_folder)
        folders += sum(is_folder for _, is_folder in kept)
        files += sum(not is_folder for _, is_folder in kept)
    return max(files, folders)


def _entries(root: bytes, folders: list[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Everything in these folders, and whether it is one; what cannot be listed counts as empty."""
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(root + b"/" + folder) as entries:
            for entry in entries:
                if entry.name != b".git":
                    path = folder + b"/" + entry.name if folder else entry.name
                    yield path, entry.is_dir(follow_symlinks=False)
