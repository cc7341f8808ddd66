"""Taking an unfinished apply back, from whatever a crash left on the disk.

The private names say what was begun at each path (`recorder.applying.journal`); everything else is read from
the disk. What fits the plan returns to what it was before; what somebody else has changed since is
left as it is and named, with the earlier content kept beside it. Can be killed and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from recorder.applying.folder import CHANGED, NOT_EMPTY, Folder, NoFolder
from recorder.applying.journal import (
    FOREIGN,
    OPEN,
    Blobs,
    Journal,
    attempt_all,
    becomes_folder,
    content_of,
    is_mode_only,
    is_rewrite,
    kept_beside,
    leaves_folder,
    shallow,
)
from recorder.applying.renames import Hook
from recorder.errors import Failed, Refused
from recorder.events import FileStep
from recorder.states import PathNote, PathState

Undo = Callable[[Journal, FileStep, Folder, bytes], None]


def roll_back(
    root: bytes,
    steps: Sequence[FileStep],
    private: str,
    blobs: Blobs,
    *,
    before_effect: Hook = lambda _: None,
) -> tuple[PathNote, ...]:
    """Bring back the `before` of every step that was begun, durably; the paths where that failed.

    Arguments as of `apply`. Raises Failed for a token that is none.
    """
    with Journal(root, steps, private, before_effect) as journal:
        every = [*journal.steps, *journal.parents()]
        folders = shallow(step for step in every if "dir" in (step.before.kind, step.after.kind))
        files = [step for step in every if "dir" not in (step.before.kind, step.after.kind)]
        notes = attempt_all(folders, partial(_at, journal, _reopen))
        notes += attempt_all(files, partial(_at, journal, partial(_undo_file, blobs)))
        notes += attempt_all(folders[::-1], partial(_at, journal, _close))
        notes += journal.sync()
    return tuple({note.path: note for note in reversed(notes)}.values())


def _at(journal: Journal, undo: Undo, step: FileStep) -> None:
    """Undo a step in its folder. A path that is refused was never touched; where its folder is gone, one
    that did not exist is as it was."""
    try:
        with journal.tree.folder(step.path) as (folder, name):
            names = journal.names(step)
            folder.settle((names.writing, names.spare, names.ready, name))
            folder.remove(names.writing)
            _settle_spare(journal, step, folder, name)
            undo(journal, step, folder, name)
    except Refused as refusal:
        if isinstance(refusal, NoFolder) and step.before.present:
            raise


def _settle_spare(journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    """An exchange by three moves that was broken off: the name gets back what was moved away from it,
    or the exchange is ended."""
    names = journal.names(step)
    if folder.look(names.spare) is None:
        return
    if folder.look(name) is None:
        folder.move(names.spare, name)
        return
    if folder.look(names.ready) is not None:
        staged = next((one for one in (names.spare, names.ready) if _is(folder.state(one), step.after)), None)
        if staged is None:
            raise Failed(f"{CHANGED}; {kept_beside(names.spare)}")
        folder.remove(staged)
    if folder.look(names.spare) is not None:
        folder.move(names.spare, names.ready)


# ---- folders


def _reopen(journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    """A displaced folder returns, and a folder that steps worked in can be worked in again."""
    if leaves_folder(step):
        _bring_back(journal, step, folder, name)
    begun = folder.look(journal.names(step).ready) is not None or journal.marked(step, folder)
    standing = folder.state(name)
    if begun and standing.kind == "dir" and standing.mode & OPEN != OPEN:
        folder.set_mode(name, standing.mode | OPEN)


def _close(journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    """A folder that was made goes; one that was there before gets its mode back."""
    if becomes_folder(step):
        if step.before.present:
            _bring_back(journal, step, folder, name)
        else:
            _unmake_folder(journal, step, folder, name)
    elif journal.marked(step, folder):
        standing = folder.state(name)
        modes = {step.before.mode | OPEN, step.after.mode | OPEN}
        if standing.kind != "dir" or standing.mode | OPEN not in modes:
            raise Failed(CHANGED)
        folder.set_mode(name, step.before.mode, expected=step.before)
    journal.unmark(step, folder)


def _unmake_folder(journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    ready = journal.names(step).ready
    if folder.look(ready) is not None:
        journal.unmark(step, folder)
        folder.remove(ready)
    elif journal.marked(step, folder) and folder.state(name).kind == "dir":
        _remove_empty(folder, name)


def _remove_empty(folder: Folder, name: bytes) -> None:
    try:
        folder.remove(name)
    except OSError as error:
        if error.errno not in NOT_EMPTY:
            raise
        raise Failed(FOREIGN) from None


# ---- what was exchanged or moved


def _undo_file(blobs: Blobs, journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    if not step.before.present:
        _unmake(journal, step, folder, name)
        return
    _bring_back(journal, step, folder, name)
    if journal.marked(step, folder):
        _write_back(blobs, step, folder, name)
        journal.unmark(step, folder)


def _unmake(journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    """A file or link that was made goes, by a move first, so that it can be looked at."""
    ready = journal.names(step).ready
    if folder.look(ready) is None:
        if not journal.marked(step, folder):
            return
        if folder.look(name) is None:
            journal.unmark(step, folder)
            return
        if folder.state(name) != step.after:
            raise Failed(CHANGED)
        folder.move(name, ready)
    if folder.state(ready) != step.after:
        folder.move(ready, name)
        raise Failed(CHANGED)
    journal.unmark(step, folder)
    folder.remove(ready)


def _bring_back(journal: Journal, step: FileStep, folder: Folder, name: bytes) -> None:
    """What was displaced returns, whatever it is: also a save that came between check and exchange."""
    names = journal.names(step)
    displaced, standing = folder.state(names.ready), folder.state(name)
    if displaced.kind == "absent":
        return
    if _is(displaced, step.after):
        folder.remove(names.ready)
    elif standing.kind == "absent":
        folder.move(names.ready, name)
    elif _is(standing, step.after):
        folder.exchange(names.ready, name, names.spare)
        _remove_or_keep(step, folder, name, names.ready, names.spare)
    else:
        raise Failed(f"{CHANGED}; {kept_beside(names.ready)}")


def _remove_or_keep(step: FileStep, folder: Folder, name: bytes, ready: bytes, spare: bytes) -> None:
    """Remove what was taken out of its place; if it is not ours after all, it goes back there."""
    try:
        if _is(folder.state(ready), step.after):
            folder.remove(ready)
            return
    except OSError as error:
        if error.errno not in NOT_EMPTY:
            raise
    folder.exchange(ready, name, spare)
    raise Failed(f"{CHANGED}; {kept_beside(ready)}")


def _is(standing: PathState, planned: PathState) -> bool:
    """A planned folder is one with whatever mode: steps may still have been working in it."""
    return standing == planned or standing.kind == planned.kind == "dir"


# ---- what was written or given a mode in place


def _write_back(blobs: Blobs, step: FileStep, folder: Folder, name: bytes) -> None:
    standing = folder.state(name)
    if standing == step.before:
        return
    if standing.kind != "file":
        raise Failed(CHANGED)
    if is_mode_only(step):
        if standing != step.after:
            raise Failed(CHANGED)
        folder.set_mode(name, step.before.mode, expected=step.before)
    elif is_rewrite(step):
        old, new = content_of(blobs, step.before), content_of(blobs, step.after)
        folder.write_in_place(name, old, step.before.mode, lambda content, _: _is_mixture(content, old, new))


_BLOCK = 1 << 16


def _is_mixture(content: bytes, old: bytes, new: bytes) -> bool:
    """Whether a write of one over the other, broken off anywhere, can have left this content."""
    if not min(len(old), len(new)) <= len(content) <= max(len(old), len(new)):
        return False
    for start in range(0, len(content), _BLOCK):
        block = content[start : start + _BLOCK]
        one, other = old[start : start + _BLOCK], new[start : start + _BLOCK]
        if block not in (one, other) and not _mixes(block, one, other):
            return False
    return True


def _mixes(block: bytes, one: bytes, other: bytes) -> bool:
    return all(byte in one[at : at + 1] or byte in other[at : at + 1] for at, byte in enumerate(block))
