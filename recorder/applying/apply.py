"""Bringing a plan onto the disk, so that no save that anybody makes meanwhile is lost.

Every path is checked against the plan first, with nothing touched. Then what is to stand is written
beside, whole and durable, and takes its place by an exchange; what it displaced is looked at, and a
surprise puts everything back. Deletions come last, and are renames until `finish`. Whatever fails,
all that was done is rolled back. What is to be done is the plan's; whether it may be, the command's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from recorder.applying.finish import finish
from recorder.applying.journal import (
    Blobs,
    Journal,
    attempt,
    attempt_all,
    becomes_folder,
    deep,
    leaves_folder,
    reason,
    shallow,
)
from recorder.applying.placing import Placing
from recorder.applying.renames import Hook
from recorder.applying.rollback import roll_back
from recorder.errors import RecorderError
from recorder.events import FileStep
from recorder.states import PathNote

__all__ = ["ApplyReport", "Blobs", "apply", "finish", "roll_back"]


class ApplyReport(msgspec.Struct, frozen=True):
    """What came of an apply.

    `done` names the paths that stand as planned; `kept` folders that were to go and stay, because they
    hold other files. Where `failed` is not empty everything was rolled back: `rolled_back` tells
    whether that was complete, `unrecovered` names the paths where it was not.
    """

    done: tuple[bytes, ...] = ()
    kept: tuple[PathNote, ...] = ()
    failed: tuple[PathNote, ...] = ()
    rolled_back: bool = False
    unrecovered: tuple[PathNote, ...] = ()


def apply(
    root: bytes,
    steps: Sequence[FileStep],
    private: str,
    blobs: Blobs,
    *,
    before_effect: Hook = lambda _: None,
) -> ApplyReport:
    """Bring every step onto the disk, durably, or none.

    `root` is the real path of the work tree, `private` the operation's token for private names. What
    was displaced or deleted stays under private names until `finish`. `before_effect` is called with a
    short name before and after every effect on the disk. Raises Failed for a token that is none.

    A file whose hard links all are in the plan, alike, or that cannot be replaced (a folder that cannot
    be written, a mount point, another owner) is written in place, if `blobs` has its old bytes. There
    alone a save of another process that falls between the last check and the write can be mixed with
    ours; it is found, and reported as unrecovered.
    """
    with Journal(root, steps, private, before_effect) as journal:
        work = Placing(journal, blobs)
        failed = attempt_all(journal.steps, work.check)
        if failed:
            return ApplyReport(failed=tuple(failed), rolled_back=True)
        failed = _carry_out(work)
    if failed:
        unrecovered = roll_back(root, steps, private, blobs, before_effect=before_effect)
        return ApplyReport(failed=tuple(failed), rolled_back=not unrecovered, unrecovered=unrecovered)
    kept = {note.path for note in work.kept}
    return ApplyReport(tuple(step.path for step in steps if step.path not in kept), tuple(work.kept))


def _carry_out(work: Placing) -> list[PathNote]:
    """Staging tries every path, so that each one that cannot be written is named; the rest stops at once.
    What was staged is on the disk before any of it takes its place."""
    failed: list[PathNote] = []
    try:
        work.group_links()
        for act, steps in _phases(work):
            for step in steps:
                note = attempt(step, act)
                if note is not None:
                    failed.append(note)
                    if act != work.stage:
                        return failed
            if act == work.stage:
                failed += work.journal.sync()
            if failed:
                return failed
        failed += work.journal.sync()
    except (OSError, RecorderError) as error:
        failed.append(PathNote(b".", reason(error)))
    return failed


def _phases(work: Placing) -> Iterator[tuple[Callable[[FileStep], None], list[FileStep]]]:
    """What is done, in order: folders that are needed, new content, deletions, the folders' modes."""
    steps = work.journal.steps
    made = [*work.missing_parents(), *filter(becomes_folder, steps)]
    contents = [step for step in steps if step.after.kind in ("file", "link")]
    yield work.open_up, shallow(step for step in steps if step.before.kind == "dir")
    yield work.make_folder, shallow(made)
    yield work.stage, contents
    yield work.switch, [step for step in contents if not leaves_folder(step)]
    yield work.delete, [step for step in steps if not step.after.present and not leaves_folder(step)]
    yield work.displace, deep(filter(leaves_folder, steps))
    yield work.close, deep([*made, *(step for step in steps if "dir" in (step.before.kind, step.after.kind))])
