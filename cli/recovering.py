"""At the start of anything that changes something: end what a crash left half done."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.errors import RecorderError, Refused
from recorder.events import RewindFailed, RewindPlanned
from recorder.recording import Occasion, lock_name, record_capture
from recorder.states import PathNote

if TYPE_CHECKING:
    from cli.context import Recording
    from recorder.applying.recovery import Recovered
    from recorder.capture import Tree
    from recorder.worktree import WorkTree

_HALF_DONE = """
SELECT tree FROM operations WHERE state = 'planned'
UNION SELECT tree FROM operations AS newest WHERE state = 'applied'
    AND position = (SELECT MAX(position) FROM operations WHERE tree = newest.tree AND state = 'applied')
    AND NOT EXISTS (SELECT 1 FROM captures WHERE operation = newest.operation AND moment = 'rewound')
ORDER BY tree
"""
"""Work trees with a rewind that has no outcome, or whose last one was applied and not tidied up after."""


class Unrecovered(RecorderError):
    """An interrupted rewind could not be rolled back whole; each path is named."""

    exit_code = 6
    code = "unrecovered"


def recover(recording: Recording, tree: str | None = None) -> list[str]:
    """Roll back every rewind that was broken off, and tidy up after those that were applied and no more;
    in one work tree, or in all. Returns a sentence for each that a person should know of.

    A rewind that is still at work is left to itself, and a work tree that cannot be reached waits. Raises
    Unrecovered where paths could not be brought back.
    """
    found = [one for one in half_done(recording.views.connection) if tree in (None, one)]
    return [sentence for one in found for sentence in _recover_tree(recording, one)]


def half_done(connection: sqlite3.Connection) -> list[str]:
    """The work trees (hex ids) where a rewind was broken off, or is at work right now."""
    return [row["tree"] for row in connection.execute(_HALF_DONE)]


def _recover_tree(recording: Recording, tree: str) -> list[str]:
    """Under the tree's lock an operation without an outcome belongs to no living process."""
    from cli.files import stored_files
    from projections.capture import known_tree
    from recorder.applying.recovery import unfinished
    from recorder.worktree import still_there

    work_tree = known_tree(recording.views, tree)
    sentences = []
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(recording.home.lock(lock_name(work_tree.stream), timeout=0))
            still_there(work_tree)
        except Refused as error:
            at_work = error.code == "locked"
            return [] if at_work else [f"an interrupted rewind is not recovered yet: {error.message}"]
        recording.views.catch_up()
        with stored_files(recording, tree) as files:
            for planned in unfinished(recording.log.stream(work_tree.stream)):
                sentences.append(_roll_back(recording, planned, work_tree, files))
            _tidy_up(recording, work_tree, files)
    return sentences


def _roll_back(recording: Recording, planned: RewindPlanned, work_tree: WorkTree, files: Tree) -> str:
    """The files first, then the conversation, then the fact: killed anywhere, it is done again whole."""
    from recorder.applying.finish import finish, sweep_marks
    from recorder.applying.recovery import recover as roll_back

    recovered = roll_back(planned, work_tree.path, files)
    stays = _return_conversation(recording, planned)
    _append_failed(recording, planned, recovered, stays)
    if recovered.unrecovered:
        sweep_marks(work_tree.path, planned.steps, planned.private)
        raise Unrecovered(_named(recovered.unrecovered))
    finish(work_tree.path, planned.steps, planned.private)
    sentence = f"an interrupted {planned.verb} was rolled back; everything is as before it"
    return f"{sentence}, but {stays}" if stays else sentence


def _append_failed(
    recording: Recording, planned: RewindPlanned, recovered: Recovered, stays: str | None
) -> None:
    stream = planned.originator_id
    recording.log.append(
        [
            RewindFailed(
                originator_id=stream,
                originator_version=recording.log.version(stream) + 1,
                at=time.time_ns(),
                operation=planned.operation,
                why=f"{recovered.why}, but {stays}" if stays else recovered.why,
                unrecovered=recovered.unrecovered,
            )
        ]
    )
    recording.views.catch_up()


def _return_conversation(recording: Recording, planned: RewindPlanned) -> str | None:
    """Where the rewind had moved the conversation already, move it back; the reason where it stays."""
    from cli.aims import session_of
    from recorder.conversation import take_again_back
    from recorder.sources import source_of

    session = session_of(recording.views.connection, planned.session.hex)
    why = take_again_back(
        source_of(session.agent),
        Path(os.fsdecode(session.log)),
        session.session,
        line=planned.line,
        leaf=planned.leaf_before,
        cwd=session.cwd,
    )
    return f"the conversation had been taken back already and stays so: {why}" if why else None


def _tidy_up(recording: Recording, work_tree: WorkTree, files: Tree) -> None:
    """Remove what the last applied rewind displaced, and record what it wrote."""
    from projections import changes
    from projections.capture import last_commit
    from recorder.applying.recovery import newest_applied, sweep
    from recorder.rewind import restored

    connection = recording.views.connection
    recording.views.catch_up()
    tree = work_tree.stream.hex
    facts = list(recording.log.stream(work_tree.stream))
    newest = newest_applied(facts)
    if newest is None or tree not in half_done(connection):
        return
    sweep(facts, work_tree.path)
    record_capture(
        recording.log,
        files,
        work_tree.stream,
        Occasion(moment="rewound", source="watch", session=newest.session, operation=newest.operation),
        previous=last_commit(recording.views, work_tree.stream),
        named=changes.newly_named(connection, tree),
        restored=restored(newest),
    )
    recording.views.catch_up()


def _named(notes: tuple[PathNote, ...]) -> str:
    listed = "; ".join(f"{note.path.decode(errors='replace')}: {note.why}" for note in notes)
    return f"an interrupted rewind could not be rolled back whole: {listed}"
