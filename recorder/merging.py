"""Merging three contents of a file by git's own `merge-file`, and what is held of them until it is stored.

Works on bytes: no encoding, line ending or final newline is touched. Whether a merge is wanted, and of
what, is `recorder.planning`'s to say.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from recorder import git
from recorder.applying import disk
from recorder.applying.folder import blob_id, read_all
from recorder.errors import IntegrityFailure, NotFound, RecorderError, StoreFailure
from recorder.planning.threeway import Unmerged

if TYPE_CHECKING:
    from recorder.capture import Tree
    from recorder.planning.planned import Plan

LIMIT = 16 << 20
"""A content of more bytes than this is not merged."""
DEADLINE = 30.0
"""Seconds that one merge may take."""

_FAILED = 255
"""git-merge-file(1): the exit status is the number of conflicts, at most 127; 255 where it cannot."""
_LOST = "its earlier content is no longer stored"


class Merging:
    """The text merges of one command on one work tree. What they make is held here until `keep`."""

    def __init__(self, tree: Tree, root: bytes, git_dir: bytes) -> None:
        """`root` is the work tree's real path; `git_dir` any repository of the recorder's own."""
        self._tree, self._git_dir = tree, git_dir
        self._disk = disk.WorkTree(root, lambda _: None)
        self._made: dict[str, bytes] = {}
        self._merged: dict[tuple[str, str, str], str] = {}

    def merge_texts(self, path: bytes, base: str, theirs: str, ours: str) -> str | Unmerged:
        """`recorder.planning.threeway.MergeTexts`. What is not stored yet is read from the disk."""
        key = (base, theirs, ours)
        if key not in self._merged:
            contents = []
            for oid in (base, theirs, ours):
                content = self._content(path, oid)
                if isinstance(content, Unmerged):
                    return content
                contents.append(content)
            merged = merge_texts(*contents, git_dir=self._git_dir)
            if isinstance(merged, Unmerged):
                return merged
            self._merged[key] = blob_id(merged)
            self._made[self._merged[key]] = merged
        return self._merged[key]

    def lacking(self, oid: str) -> str:
        """Why a content cannot be written, empty where it can: it is stored, or was made here."""
        try:
            held = oid in self._made or self._tree.holds(oid)
        except StoreFailure:
            held = False
        return "" if held else _LOST

    def hold(self, content: bytes) -> None:
        """Take in a content that no capture has: it is stored where a plan needs it."""
        self._made[blob_id(content)] = content

    def keep(self, plan: Plan) -> None:
        """Store what was merged for a plan, durably; under the work tree's lock. Raises StoreFailure."""
        wanted = {step.after.oid for step in plan.steps}
        self._tree.keep([content for oid, content in self._made.items() if oid in wanted])

    def _content(self, path: bytes, oid: str) -> bytes | Unmerged:
        try:
            return self._made[oid] if oid in self._made else self._tree.blob(oid)
        except (NotFound, IntegrityFailure, StoreFailure):
            return self._on_disk(path, oid)

    def _on_disk(self, path: bytes, oid: str) -> bytes | Unmerged:
        """The content that stands at a path, if it has this id: before a capture it is nowhere else."""
        try:
            with self._disk.folder(path) as (folder, name), folder.opened(name) as descriptor:
                if os.fstat(descriptor).st_size > LIMIT:
                    return _too_large()
                content = read_all(descriptor)
        except (OSError, RecorderError):
            return Unmerged(_LOST)
        return content if blob_id(content) == oid else Unmerged(_LOST)


def merge_texts(base: bytes, theirs: bytes, ours: bytes, *, git_dir: bytes) -> bytes | Unmerged:
    """What changed from `base` to `theirs`, made on `ours`, line by line.

    Changes of the same or of neighbouring lines are in conflict, unless they are the same change: then
    it is made once. All on one line is therefore never merged.
    """
    if any(len(content) > LIMIT for content in (base, theirs, ours)):
        return _too_large()
    if any(b"\0" in content for content in (base, theirs, ours)):
        return Unmerged("it was changed again since, and is not text")
    try:
        answer = _merge_file(base, theirs, ours, git_dir)
    except StoreFailure as error:
        return Unmerged(f"it was changed again since, and could not be merged: {error.message}")
    except OSError as error:
        return Unmerged(f"it was changed again since, and could not be merged: {error.strerror}")
    if answer.status == 0:
        return answer.out
    if 0 < answer.status < _FAILED:
        return Unmerged("the same lines were changed again since")
    return Unmerged(f"it was changed again since, and git could not merge it: {answer.complaint}")


def _merge_file(base: bytes, theirs: bytes, ours: bytes, git_dir: bytes) -> git.Answer:
    """Raises StoreFailure, OSError."""
    with tempfile.TemporaryDirectory(prefix="recorder-merge-") as folder:
        names = []
        for name, content in (("ours", ours), ("base", base), ("theirs", theirs)):
            file = Path(folder, name)
            file.write_bytes(content)
            names.append(str(file))
        return git.run(["merge-file", "-p", "-q", *names], git_dir=git_dir, deadline=DEADLINE)


def _too_large() -> Unmerged:
    return Unmerged(f"it was changed again since, and is too large to merge (more than {LIMIT >> 20} MiB)")
