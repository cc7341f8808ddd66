"""Finding the project's repository, and where it stands, by reading its files: git is never run here.

Nothing is written. Formats: gitrepository-layout(5), gitfile and `commondir` as in git-worktree(1).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from recorder.states import GitPosition

_OPERATIONS = (
    (b"rebase-merge", "rebase"),
    (b"rebase-apply/applying", "am"),
    (b"rebase-apply", "rebase"),
    (b"MERGE_HEAD", "merge"),
    (b"CHERRY_PICK_HEAD", "cherry-pick"),
    (b"REVERT_HEAD", "revert"),
    (b"BISECT_LOG", "bisect"),
)

_AUTOSTASHES = (b"rebase-merge/autostash", b"rebase-apply/autostash", b"MERGE_AUTOSTASH")
"""Where an operation in progress keeps the commit of what it set aside."""

_REFLOG_TAIL = 1 << 20
"""Bytes of HEAD's reflog that are read, from its end."""


class Repository(msgspec.Struct, frozen=True):
    """A repository with a work tree: `top` is the folder that holds `.git`, `git_dir` what belongs to
    this work tree alone (HEAD, index), `common_dir` what linked work trees share (refs, config)."""

    top: bytes
    git_dir: bytes
    common_dir: bytes

    @property
    def linked(self) -> bool:
        """Whether the work tree is one that `git worktree add` made."""
        return self.git_dir != self.common_dir

    @property
    def index(self) -> bytes:
        return self.git_dir + b"/index"


class HeadMove(msgspec.Struct, frozen=True):
    """One line of HEAD's reflog: from where, to where, and git's word for what moved it
    (`commit`, `commit (amend)`, `checkout`, `pull`, `merge x`, `rebase (finish)`, `reset` …)."""

    old: str
    new: str
    action: str


def at(folder: bytes) -> Repository | None:
    """The repository whose work tree's top is this folder; None where its `.git` is none."""
    entry = folder.rstrip(b"/") + b"/.git"
    try:
        mode = os.stat(entry).st_mode
    except OSError:
        return None
    git_dir = entry if stat.S_ISDIR(mode) else _follow_file(entry, b"gitdir: ")
    if git_dir is None:
        return None
    common = _follow_file(git_dir + b"/commondir", b"") or git_dir
    if not _is_git_dir(git_dir, common):
        return None
    return Repository(folder, git_dir, common)


def find(folder: bytes) -> Repository | None:
    """The repository that contains this folder (a real path), as git would find it: upwards, not
    beyond the file system that the folder is on, and not from inside a `.git`."""
    if b".git" in folder.split(b"/"):
        return None
    try:
        device = os.stat(folder).st_dev
        for candidate in _upwards(folder):
            if os.stat(candidate).st_dev != device:
                return None
            found = at(candidate)
            if found is not None:
                return found
    except OSError:
        return None
    return None


def position(repository: Repository) -> GitPosition:
    """Where the repository stands now. A head that cannot be read is None."""
    operation = next(
        (name for file, name in _OPERATIONS if os.path.lexists(repository.git_dir + b"/" + file)), None
    )
    head = read_file(repository.git_dir + b"/HEAD").strip()
    branch = head[5:].strip() if head.startswith(b"ref: ") else None
    return GitPosition(
        head=_commit_id(head) if branch is None else _resolve(repository, branch),
        branch=None if branch is None else os.fsdecode(branch),
        operation=operation,
        stash=_set_aside(repository),
        merging=_first_line(repository, b"MERGE_HEAD"),
        reflog=_size(repository.git_dir + b"/logs/HEAD"),
    )


def head_moves(repository: Repository, *, after: int | None = None) -> list[HeadMove]:
    """HEAD's newest moves by its reflog, oldest first, those behind byte `after` alone where that is given;
    empty where no reflog is kept, or where it is shorter than that."""
    file = repository.git_dir + b"/logs/HEAD"
    if after is None:
        lines = read_file(file, tail=_REFLOG_TAIL).split(b"\n")
    else:
        behind = (_size(file) or 0) - after
        lines = read_file(file, tail=behind).split(b"\n") if 0 < behind <= _REFLOG_TAIL else []
    return [move for line in lines if (move := _parse_move(line)) is not None]


def stashes(repository: Repository) -> list[str]:
    """The commits of `git stash`, oldest first."""
    lines = read_file(repository.common_dir + b"/logs/refs/stash", tail=_REFLOG_TAIL).split(b"\n")
    listed = [move.new for line in lines if (move := _parse_move(line)) is not None]
    newest = _resolve(repository, b"refs/stash")
    return listed if newest is None or newest in listed else [*listed, newest]


def _set_aside(repository: Repository) -> str | None:
    """The commit of what the operation in progress set aside, else the newest stash."""
    held = (_first_line(repository, name) for name in _AUTOSTASHES)
    return next(filter(None, held), None) or _resolve(repository, b"refs/stash")


def _first_line(repository: Repository, name: bytes) -> str | None:
    return _commit_id(read_file(repository.git_dir + b"/" + name).partition(b"\n")[0].strip())


def _size(file: bytes) -> int | None:
    try:
        return os.stat(file).st_size
    except OSError:
        return None


def _parse_move(line: bytes) -> HeadMove | None:
    who, separator, message = line.partition(b"\t")
    ids = who.split(b" ", 2)
    if not separator or len(ids) != 3 or _commit_id(ids[0]) is None or _commit_id(ids[1]) is None:
        return None
    action = message.partition(b":")[0].decode("utf-8", "replace")
    return HeadMove(ids[0].decode(), ids[1].decode(), action)


def _upwards(folder: bytes) -> Iterator[bytes]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _follow_file(file: bytes, prefix: bytes) -> bytes | None:
    """The folder that a `.git` or `commondir` file names, as a real path."""
    content = read_file(file).rstrip(b"\r\n")
    if not content.startswith(prefix) or len(content) == len(prefix) or b"\0" in content:
        return None
    return os.path.realpath(os.path.join(os.path.dirname(file), content[len(prefix) :]))


def _is_git_dir(git_dir: bytes, common: bytes) -> bool:
    head = read_file(git_dir + b"/HEAD")
    return (
        (head.startswith(b"ref: ") or _commit_id(head.strip()) is not None)
        and os.path.isdir(common + b"/objects")
        and os.path.isdir(common + b"/refs")
    )


def _resolve(repository: Repository, name: bytes) -> str | None:
    for _ in range(5):
        content = b""
        for folder in (repository.git_dir, repository.common_dir):
            content = content or read_file(folder + b"/" + name).strip()
        if not content.startswith(b"ref: "):
            return _commit_id(content) or _packed(repository, name)
        name = content[5:].strip()
    return None


def _packed(repository: Repository, name: bytes) -> str | None:
    for line in read_file(repository.common_dir + b"/packed-refs").split(b"\n"):
        commit, _, ref = line.partition(b" ")
        if ref == name:
            return _commit_id(commit)
    return None


def _commit_id(text: bytes) -> str | None:
    """The text as a SHA-1 or SHA-256 id in hex, or None."""
    if len(text) in (40, 64) and not text.strip(b"0123456789abcdef"):
        return text.decode()
    return None


def open_regular(file: bytes) -> BinaryIO:
    """A file to read; raises OSError also where it is a pipe, a device or a folder, and never waits."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", file)
    return open(descriptor, "rb")


def read_file(file: bytes, tail: int | None = None) -> bytes:
    """The content of a regular file, or of its last `tail` bytes; empty where it cannot be read."""
    with contextlib.suppress(OSError, ValueError), open_regular(file) as opened:
        if tail is not None:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - tail))
        return opened.read()
    return b""
