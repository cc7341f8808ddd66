"""One step of a plan at a time: how it comes onto the disk, and how a surprise is found.

Every method leaves what `recorder.applying.rollback` can undo, wherever it is broken off. The order of the
steps is `recorder.applying.apply`'s.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from functools import cached_property

from recorder.applying.folder import CHANGED, NOT_WRITABLE, Folder
from recorder.applying.journal import FOREIGN, OPEN, Blobs, Journal, content_of, is_mode_only, is_rewrite
from recorder.errors import Failed
from recorder.events import FileStep
from recorder.states import PathNote

_NOT_REPLACEABLE = NOT_WRITABLE | {errno.EBUSY}


@dataclass
class Placing:
    """One apply under way. `in_place` and `apart` name the paths of files with several hard links, or
    that cannot be replaced: to be written through their descriptor, or parted from the other links;
    `written` holds device and inode of what was."""

    journal: Journal
    blobs: Blobs
    in_place: set[bytes] = field(default_factory=set)
    apart: set[bytes] = field(default_factory=set)
    written: set[tuple[int, int]] = field(default_factory=set)
    kept: list[PathNote] = field(default_factory=list)

    @cached_property
    def worked_in(self) -> set[bytes]:
        """The folders that steps lie in, missing ones between them included."""
        return {step.path.rpartition(b"/")[0] for step in (*self.journal.steps, *self.journal.parents())}

    def check(self, step: FileStep) -> None:
        if self.journal.tree.state(step.path) != step.before:
            raise Failed("it was changed since the plan was made")

    def missing_parents(self) -> list[FileStep]:
        tree = self.journal.tree
        return [step for step in self.journal.parents() if tree.state(step.path) == step.before]

    def group_links(self) -> None:
        """Links to one file are written in place, once, and stay links, where the plan has the same for
        all of them. Else they are parted: the others, in a package manager's cache for one, are not the
        plan's to change."""
        groups: dict[tuple[int, int, int], list[FileStep]] = {}
        for step in self.journal.steps:
            if step.before.kind == "file":
                with self.journal.tree.folder(step.path) as (folder, name):
                    status = folder.look(name)
                if status is not None and status.st_nlink > 1:
                    groups.setdefault((status.st_dev, status.st_ino, status.st_nlink), []).append(step)
        for (_, _, links), group in groups.items():
            alike = links == len(group) and len({step.after for step in group}) == 1 and is_rewrite(group[0])
            (self.in_place if alike else self.apart).update(step.path for step in group)

    # ---- folders

    def open_up(self, step: FileStep) -> None:
        """A folder that its owner may not write gets that right for as long as steps work in it."""
        if step.before.mode & OPEN != OPEN and step.path in self.worked_in:
            with self.journal.tree.folder(step.path) as (folder, name):
                self.journal.mark(step, folder)
                folder.set_mode(name, step.before.mode | OPEN, expected=step.before)

    def make_folder(self, step: FileStep) -> None:
        with self.journal.tree.folder(step.path) as (folder, name):
            names = self.journal.names(step)
            folder.make_folder(names.writing)
            self._keep_owner(folder, name, names.writing)
            folder.set_mode(names.writing, step.after.mode | OPEN)
            folder.move(names.writing, names.ready)
            self._put(step, folder, name)

    def displace(self, step: FileStep) -> None:
        """A folder goes when all that was to go from it is gone, under private names; else it stays."""
        with self.journal.tree.folder(step.path) as (folder, name):
            if self._holds_others(folder, name):
                self._keep(step)
            elif step.after.present:
                self._exchange(step, folder, name)
            else:
                ready = self.journal.names(step).ready
                folder.move(name, ready)
                if self._holds_others(folder, ready):
                    folder.move(ready, name)
                    self._keep(step)

    def close(self, step: FileStep) -> None:
        """The mode that a folder is to have at the end, when no step works in it any more."""
        last = step.after if step.after.present else step.before
        standing = self.journal.tree.state(step.path)
        if last.kind != "dir" or standing in (last, step.after):
            return
        if standing.kind != "dir" or standing.mode | OPEN not in (last.mode | OPEN, step.before.mode | OPEN):
            raise Failed(CHANGED)
        with self.journal.tree.folder(step.path) as (folder, name):
            self.journal.mark(step, folder)
            folder.set_mode(name, last.mode, expected=last)

    def _holds_others(self, folder: Folder, name: bytes) -> bool:
        with folder.enter(name) as inside:
            return not all(map(self.journal.owns, inside.names()))

    def _keep(self, step: FileStep) -> None:
        if step.after.present:
            raise Failed(FOREIGN)
        self.kept.append(PathNote(step.path, FOREIGN))

    # ---- files and links

    def stage(self, step: FileStep) -> None:
        """Write what is to stand beside the path, whole, durable, with the attributes of what it replaces."""
        if step.path in self.in_place or (is_mode_only(step) and step.path not in self.apart):
            return
        content = content_of(self.blobs, step.after)
        with self.journal.tree.folder(step.path) as (folder, name):
            writing = self.journal.names(step).writing
            try:
                self._write_beside(step, content, folder, name)
            except OSError as error:
                if error.errno not in NOT_WRITABLE or not is_rewrite(step):
                    raise
                folder.remove(writing)
                self.in_place.add(step.path)

    def _write_beside(self, step: FileStep, content: bytes, folder: Folder, name: bytes) -> None:
        names = self.journal.names(step)
        if step.after.kind == "link":
            folder.symlink(names.writing, content)
            self._keep_owner(folder, name, names.writing)
        else:
            folder.create(names.writing, content)
            self._keep_owner(folder, name, names.writing)
            if step.before.kind == "file":
                folder.copy_attributes(name, names.writing)
            folder.set_mode(names.writing, step.after.mode)
        folder.move(names.writing, names.ready)

    def _keep_owner(self, folder: Folder, name: bytes, new: bytes) -> None:
        standing = folder.look(name)
        if standing is not None:
            folder.give(new, standing)

    def switch(self, step: FileStep) -> None:
        with self.journal.tree.folder(step.path) as (folder, name):
            if step.path in self.in_place or (is_mode_only(step) and step.path not in self.apart):
                self._write_through(step, folder, name)
                return
            try:
                self._put(step, folder, name)
            except OSError as error:
                if error.errno not in _NOT_REPLACEABLE or not is_rewrite(step):
                    raise
                if not self._unstage(step, folder, name):
                    raise
                self._write_through(step, folder, name)

    def _unstage(self, step: FileStep, folder: Folder, name: bytes) -> bool:
        """Remove what could not take its place; False where that was begun and is for roll back to undo."""
        names = self.journal.names(step)
        folder.settle((names.spare, names.ready, name))
        if folder.look(names.spare) is not None or folder.state(names.ready) != step.after:
            return False
        folder.remove(names.ready)
        return True

    def _put(self, step: FileStep, folder: Folder, name: bytes) -> None:
        """Let what was staged take its place."""
        if step.before.present:
            self._exchange(step, folder, name)
        else:
            self.journal.mark(step, folder)
            folder.move(self.journal.names(step).ready, name)

    def _exchange(self, step: FileStep, folder: Folder, name: bytes) -> None:
        names = self.journal.names(step)
        folder.exchange(names.ready, name, names.spare)
        displaced = folder.state(names.ready)
        if displaced.kind == "dir":
            fits = displaced.mode | OPEN == step.before.mode | OPEN and not self._holds_others(
                folder, names.ready
            )
        else:
            fits = displaced == step.before
        if not fits:
            raise Failed(CHANGED)

    def _write_through(self, step: FileStep, folder: Folder, name: bytes) -> None:
        """Another content or mode for the file itself. A link to it that was planned alike has it already."""
        standing = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False)
        file = (standing.st_dev, standing.st_ino)
        if file in self.written and folder.state(name) == step.after:
            return
        if folder.state(name) != step.before:
            raise Failed(CHANGED)
        if is_mode_only(step):
            self.journal.mark(step, folder)
            folder.set_mode(name, step.after.mode, expected=step.before)
        else:
            old, new = content_of(self.blobs, step.before), content_of(self.blobs, step.after)
            self.journal.mark(step, folder)
            folder.write_in_place(name, new, step.after.mode, lambda content, _: content == old)
        self.written.add(file)

    def delete(self, step: FileStep) -> None:
        with self.journal.tree.folder(step.path) as (folder, name):
            ready = self.journal.names(step).ready
            folder.move(name, ready)
            if folder.state(ready) != step.before:
                raise Failed(CHANGED)
