"""What the capture tests build work trees with, and an independent reading of what is on disk."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
from pathlib import Path

from recorder.capture import Look, Policy, Tree
from recorder.home import open_home
from recorder.states import PathState
from recorder.worktree import WorkTree, resolve

CLEAN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "HOME": "/nonexistent",
}


def run_git(folder: Path | bytes, *arguments: str | bytes) -> bytes:
    command = ["git", "-c", "protocol.file.allow=always", "-C", folder, *arguments]
    return subprocess.run(command, check=True, capture_output=True, env=CLEAN).stdout


def make_repository(folder: Path, *options: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    run_git(folder, "init", "-q", "-b", "main", *options)
    return folder


def commit_all(folder: Path, message: str = "x") -> str:
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return run_git(folder, "rev-parse", "HEAD").decode().strip()


def write(path: Path | bytes, content: bytes | str = b"") -> None:
    path = Path(os.fsdecode(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def resolved(tmp_path: Path, folder: Path) -> WorkTree:
    return resolve(str(folder), open_home(tmp_path / "home"), tmp_path / "nobody")


def open_tree(tmp_path: Path, folder: Path, **policy: object) -> Tree:
    return Tree(open_home(tmp_path / "home"), resolved(tmp_path, folder), Policy(**policy))  # type: ignore[arg-type]


def look_once(tmp_path: Path, folder: Path) -> tuple[Tree, Look]:
    tree = open_tree(tmp_path, folder)
    return tree, tree.capture(previous=None)


def blob_id(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0%b" % (len(content), content)).hexdigest()


def on_disk(root: Path | bytes) -> dict[bytes, PathState]:
    """Everything below a folder but `.git`, read without any code of ours."""
    states: dict[bytes, PathState] = {}
    stack = [b""]
    while stack:
        below = stack.pop()
        for name in os.listdir(os.path.join(os.fsencode(root), below)):
            path = os.path.join(below, name)
            full = os.path.join(os.fsencode(root), path)
            status = os.lstat(full)
            if name == b".git":
                continue
            if stat.S_ISDIR(status.st_mode):
                states[path] = PathState("dir", stat.S_IMODE(status.st_mode))
                stack.append(path)
            elif stat.S_ISLNK(status.st_mode):
                states[path] = PathState("link", 0, blob_id(os.readlink(full)))
            elif stat.S_ISREG(status.st_mode):
                with open(full, "rb") as file:
                    oid = blob_id(file.read())
                states[path] = PathState("file", stat.S_IMODE(status.st_mode), oid)
    return states


def everything(root: Path) -> dict[bytes, tuple[object, ...]]:
    """Names, status (but not the time of the last reading) and content of all below a folder, `.git` too."""
    found: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for path in [folder, *(os.path.join(folder, name) for name in folders + files)]:
            status = os.lstat(path)
            content: bytes | None = None
            if stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            found[path] = (
                status.st_mode,
                status.st_ino,
                status.st_nlink,
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
                content,
            )
    return found
