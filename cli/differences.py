"""What differs in each path between two captures, or a capture and the disk, and how to show it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from cli.output import path_fields, path_text
from projections.listing import change_word
from recorder.states import PathState

if TYPE_CHECKING:
    from recorder.capture import Tree
    from recorder.states import PathChange
    from recorder.worktree import WorkTree

LARGEST = 4 << 20
"""Larger files are named and not compared line by line."""


class Difference(NamedTuple):
    """One path. The contents are None where there is none to show (a folder, something absent)."""

    path: bytes
    old: PathState
    new: PathState
    old_content: bytes | None
    new_content: bytes | None

    def document(self) -> dict[str, object]:
        """One item of `diff`."""
        return {
            **path_fields(self.path),
            "change": change_word(self.old, self.new),
            "old": _side(self.old),
            "new": _side(self.new),
        }

    def unified(self) -> list[str]:
        """A unified diff without its final newlines; a sentence for what is no text."""
        name = path_text(self.path)
        head = [f"diff {change_word(self.old, self.new)} {name}", *_modes(self.old, self.new)]
        if self.old_content == self.new_content:
            return head
        if not self._is_text():
            return [*head, "binary or large file differs"]
        lines = difflib.unified_diff(
            _lines(self.old_content),
            _lines(self.new_content),
            fromfile=f"a/{name}" if self.old.present else "/dev/null",
            tofile=f"b/{name}" if self.new.present else "/dev/null",
            lineterm="",
        )
        return head + list(lines)

    def stat(self) -> str:
        """`+added -removed path`."""
        if not self._is_text():
            return f"{'binary':>12}  {path_text(self.path)}"
        lines = self.unified()
        added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
        removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
        return f"{f'+{added}':>6}{f'-{removed}':>6}  {path_text(self.path)}"

    def _is_text(self) -> bool:
        contents = [one for one in (self.old_content, self.new_content) if one is not None]
        return all(len(one) <= LARGEST and b"\0" not in one[:8192] for one in contents)


def between(files: Tree, one: str, other: str) -> list[Difference]:
    """From one capture to another, by path."""
    return [
        Difference(
            change.path,
            change.before,
            change.after,
            _stored(files, change.before),
            _stored(files, change.after),
        )
        for change in _shown(files.diff(one, other))
    ]


def to_disk(files: Tree, work_tree: WorkTree, commit: str) -> list[Difference]:
    """From a capture to what stands on disk now, by path."""
    return [
        Difference(
            change.path,
            change.before,
            change.after,
            _stored(files, change.before),
            _on_disk(work_tree.path, change),
        )
        for change in _shown(files.look(previous=commit).delta)
    ]


def _shown(changes: Iterable[PathChange]) -> list[PathChange]:
    """What is known on both sides; a folder only where nothing in it tells of it."""
    known = sorted((one for one in changes if one.before.known and one.after.known), key=lambda one: one.path)
    paths = [one.path for one in known]
    return [
        one
        for index, one in enumerate(known)
        if "dir" not in (one.before.kind, one.after.kind)
        or not (index + 1 < len(paths) and paths[index + 1].startswith(one.path + b"/"))
    ]


def _stored(files: Tree, state: PathState) -> bytes | None:
    return files.blob(state.oid) if state.oid else None


def _on_disk(root: bytes, change: PathChange) -> bytes | None:
    path = os.path.join(root, change.path)
    try:
        if change.after.kind == "link":
            return os.readlink(path)
        if change.after.kind == "file":
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()
    except OSError:
        return None
    return None


def _side(state: PathState) -> dict[str, str] | None:
    if not state.present:
        return None
    kind = {"link": 0o120000, "dir": 0o040000, "file": 0o100000}[state.kind]
    return {"mode": f"{kind | state.mode:06o}", "hash": state.oid}


def _modes(old: PathState, new: PathState) -> list[str]:
    if not (old.present and new.present) or (old.kind, old.mode) == (new.kind, new.mode):
        return []
    return [f"old mode {old.kind} {old.mode:04o}", f"new mode {new.kind} {new.mode:04o}"]


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines()
