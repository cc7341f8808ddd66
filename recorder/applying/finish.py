"""The end of an operation whose outcome is durable: what lies under private names goes.

Only what is known goes: a displaced file that a process has written to since stays where it is, and a
displaced folder into which one has put a file returns to its place. Can be killed and run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from recorder.applying.folder import NOT_EMPTY, Folder, NoFolder, blob_id
from recorder.applying.journal import FOREIGN, OPEN, Journal, attempt_all, deep, kept_beside, shallow
from recorder.applying.renames import Hook
from recorder.errors import Failed
from recorder.events import FileStep
from recorder.states import PathNote


def finish(
    root: bytes, steps: Sequence[FileStep], private: str, *, before_effect: Hook = lambda _: None
) -> tuple[PathNote, ...]:
    """Remove what an operation displaced or deleted; the paths where something could not be removed.

    For an operation that was applied, or that failed and was rolled back. Arguments as of `apply`.
    Raises Failed for a token that is none.
    """
    with Journal(root, steps, private, before_effect) as journal:
        every = [*journal.steps, *journal.parents()]
        folders = [step for step in every if "dir" in (step.before.kind, step.after.kind)]
        notes = attempt_all(shallow(folders), partial(_open, journal))
        notes += attempt_all(deep(every), partial(_clear, journal, notes))
        notes += attempt_all(deep(folders), partial(_close, journal))
        notes += journal.sync()
        return tuple(notes)


def sweep_marks(root: bytes, steps: Sequence[FileStep], private: str) -> None:
    """Remove the empty marks of an operation that is given up on, and nothing else: what a path that could
    not be brought back has beside it is named in the outcome, which must be durable.

    Arguments as of `apply`. Raises Failed for a token that is none.
    """
    with Journal(root, steps, private, lambda _: None) as journal:
        attempt_all(deep([*journal.steps, *journal.parents()]), partial(_sweep_marks, journal))
        journal.sync()


def _sweep_marks(journal: Journal, step: FileStep) -> None:
    with journal.tree.root() as root:
        _sweep_mark(journal, step, root)
    try:
        with journal.tree.folder(step.path) as (folder, _):
            _sweep_mark(journal, step, folder)
            ready = journal.names(step).ready
            if folder.state(ready).kind == "dir":
                with folder.enter(ready) as inside:
                    for within in _displaced_in(journal, inside):
                        _sweep_mark(journal, within, inside)
    except NoFolder:
        return


def _sweep_mark(journal: Journal, step: FileStep, folder: Folder) -> None:
    mark = journal.names(step).mark
    standing = folder.state(mark)
    if standing.kind == "file" and standing.oid == blob_id(b""):
        folder.remove(mark)


def _open(journal: Journal, step: FileStep) -> None:
    """Let a folder whose last mode keeps its owner from writing be worked in once more."""
    try:
        with journal.tree.folder(step.path) as (folder, name):
            state = folder.state(name)
            if state.kind == "dir" and state.mode & OPEN != OPEN and journal.marked(step, folder):
                folder.set_mode(name, state.mode | OPEN)
    except NoFolder:
        return


def _clear(journal: Journal, notes: list[PathNote], step: FileStep) -> None:
    try:
        with journal.tree.folder(step.path) as (folder, name):
            _let_go(journal, notes, folder, name, step)
            if "dir" not in (step.before.kind, step.after.kind):
                journal.unmark(step, folder)
    except NoFolder:
        return


def _let_go(journal: Journal, notes: list[PathNote], folder: Folder, name: bytes, step: FileStep) -> None:
    ready = journal.names(step).ready
    displaced = folder.state(ready)
    if displaced.kind == "dir":
        with folder.enter(ready) as inside:
            notes += attempt_all(
                _displaced_in(journal, inside), partial(_let_go_within, journal, notes, inside)
            )
        _remove_folder(folder, name, ready, step)
    elif displaced in (step.before, step.after):
        folder.remove(ready)
    elif displaced.kind != "absent":
        raise Failed(f"it was written to after it was displaced; {kept_beside(ready)}")


def _displaced_in(journal: Journal, folder: Folder) -> list[FileStep]:
    """The steps with private names in a displaced folder."""
    found = (journal.by_private_name.get(name) for name in folder.names())
    return list({step.path: step for step in found if step is not None}.values())


def _let_go_within(journal: Journal, notes: list[PathNote], inside: Folder, step: FileStep) -> None:
    _let_go(journal, notes, inside, step.path.rpartition(b"/")[2], step)
    inside.remove(journal.names(step).mark)


def _remove_folder(folder: Folder, name: bytes, ready: bytes, step: FileStep) -> None:
    try:
        folder.remove(ready)
    except OSError as error:
        if error.errno not in NOT_EMPTY:
            raise
        if step.before.kind == "dir":
            folder.set_mode(ready, step.before.mode)
        if folder.look(name) is not None:
            raise Failed(f"{FOREIGN}; {kept_beside(ready)}") from None
        folder.move(ready, name)
        raise Failed(f"{FOREIGN}; it stays") from None


def _close(journal: Journal, step: FileStep) -> None:
    """Give a folder its last mode again; its mark goes with that."""
    try:
        with journal.tree.folder(step.path) as (folder, name):
            if not journal.marked(step, folder):
                return
            last = step.after if step.after.kind == "dir" else step.before
            state = folder.state(name)
            if state.kind == "dir" and last.kind == "dir" and state.mode == last.mode | OPEN:
                folder.set_mode(name, last.mode)
            journal.unmark(step, folder)
    except NoFolder:
        return
