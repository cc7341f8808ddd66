"""Trees on the disk and what they should be: built, read and compared without the code under test."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from recorder.errors import StoreFailure
from recorder.events import FileStep
from recorder.states import ABSENT, PathState

TOKEN = "0123456789abcdef0123456789abcdef"


class Node(NamedTuple):
    """A file's content, a link's target or a folder's nothing; `twin` names the hard links' group."""

    kind: str
    mode: int = 0
    content: bytes = b""
    twin: str = ""


Tree = dict[bytes, Node]


def file(content: bytes, mode: int = 0o644, twin: str = "") -> Node:
    return Node("file", mode, content, twin)


def link(target: bytes) -> Node:
    return Node("link", 0, target)


def folder(mode: int = 0o755) -> Node:
    return Node("dir", mode)


def build(root: bytes, tree: Mapping[bytes, Node]) -> None:
    """Make the tree in an empty folder."""
    first: dict[str, bytes] = {}
    for path, node in sorted(tree.items()):
        place = os.path.join(root, path)
        if node.kind == "dir":
            os.mkdir(place)
        elif node.kind == "link":
            os.symlink(node.content, place)
        elif node.twin in first:
            os.link(first[node.twin], place)
        else:
            with open(place, "wb") as stream:
                stream.write(node.content)
            if node.twin:
                first[node.twin] = place
    for path, node in sorted(tree.items(), reverse=True):
        if node.kind != "link":
            os.chmod(os.path.join(root, path), node.mode)


def read(root: bytes) -> Tree:
    """What stands there, recorder's names and all; hard links named by their first path."""
    tree: Tree = {}
    first: dict[int, bytes] = {}
    for place, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(folders + names):
            path = os.path.join(place, name)
            relative = os.path.relpath(path, root)
            status = os.lstat(path)
            mode = stat.S_IMODE(status.st_mode)
            if stat.S_ISLNK(status.st_mode):
                tree[relative] = link(os.readlink(path))
            elif stat.S_ISDIR(status.st_mode):
                tree[relative] = folder(mode)
            else:
                twin = ""
                if status.st_nlink > 1:
                    twin = first.setdefault(status.st_ino, relative).decode("utf-8", "replace")
                tree[relative] = file(content(path), mode, twin)
    return tree


def content(path: bytes) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def plain(tree: Tree) -> Tree:
    """Without who is linked to whom."""
    return {path: node._replace(twin="") for path, node in tree.items()}


def state(node: Node | None) -> PathState:
    if node is None:
        return ABSENT
    if node.kind == "dir":
        return PathState("dir", node.mode)
    return PathState(node.kind, node.mode, oid(node.content))


def oid(content: bytes) -> str:
    return hashlib.sha1(b"blob " + str(len(content)).encode() + b"\0" + content).hexdigest()


def steps(before: Mapping[bytes, Node], after: Mapping[bytes, Node]) -> tuple[FileStep, ...]:
    """From one tree to another, in an order that says nothing."""
    changed = [FileStep(path, state(before.get(path)), state(after.get(path))) for path in {*before, *after}]
    return tuple(
        sorted((step for step in changed if step.before != step.after), key=lambda step: oid(step.path))
    )


class Store:
    """The blobs of some trees."""

    def __init__(self, *trees: Mapping[bytes, Node]) -> None:
        self.contents = {oid(node.content): node.content for tree in trees for node in tree.values()}

    def blob(self, oid: str) -> bytes:
        if oid not in self.contents:
            raise StoreFailure(f"no blob {oid}")
        return self.contents[oid]


class Counter:
    """A hook that counts the effects, and does something at one of them."""

    def __init__(self, at: int = -1, act: Callable[[], None] = lambda: None) -> None:
        self.names: list[str] = []
        self._at = at
        self._act = act

    def __call__(self, name: str) -> None:
        self.names.append(name)
        if len(self.names) - 1 == self._at:
            self._act()


def killed(at: int, run: Callable[[Counter], object]) -> bool:
    """Run in a child that is killed before its effect number `at`. False where it came to its end first.

    After an effect the disk is as before the next one, so that this is every state that a kill leaves.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(Counter(2 * at, lambda: os.kill(os.getpid(), signal.SIGKILL)))
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def at_effect(name: str, act: Callable[[], None], *, nth: int = 0) -> Callable[[str], None]:
    """A hook that acts once, at the nth effect of this name."""
    seen: list[str] = []

    def hook(effect: str) -> None:
        if effect == name:
            seen.append(effect)
            if len(seen) == nth + 1:
                act()

    return hook


def private(root: bytes) -> list[bytes]:
    """The recorder's names that are left in a tree."""
    return [path for path in read(root) if b".recorder-" in path]


def paths(notes: Iterable[object]) -> set[bytes]:
    return {note.path for note in notes}  # type: ignore[attr-defined]
