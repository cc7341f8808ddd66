"""At the start of anything that changes something: end what a crash left half done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import UUID

from recorder.errors import RecorderError
from recorder.events import RewindFailed
from recorder.recording import lock_name

if TYPE_CHECKING:
    from cli.context import Recording
    from recorder.states import PathNote


def recover(recording: Recording) -> list[str]:
    """Roll back every rewind that was broken off; returns a sentence for each.

    Raises RecorderError with exit code 6 where paths could not be brought back.
    """
    recording.views.catch_up()
    sentences = []
    rows = recording.views.connection.execute(
        "SELECT DISTINCT tree FROM operations WHERE state = 'planned' ORDER BY tree"
    ).fetchall()
    for row in rows:
        sentences += _recover_tree(recording, row["tree"])
    return sentences


class Unrecovered(RecorderError):
    """An interrupted rewind could not be rolled back whole; each path is named."""

    exit_code = 6
    code = "unrecovered"


def _recover_tree(recording: Recording, tree: str) -> list[str]:
    """Under the tree's lock an operation without an outcome belongs to no living process."""
    from cli.files import stored_files
    from projections.capture import known_tree
    from recorder.finish import finish
    from recorder.recovery import recover as roll_back
    from recorder.recovery import unfinished

    stream = UUID(tree)
    sentences = []
    with recording.home.lock(lock_name(stream)), stored_files(recording, tree) as files:
        root = known_tree(recording.views, tree).path
        for planned in unfinished(recording.log.stream(stream)):
            recovered = roll_back(planned, root, files)
            recording.log.append(
                [
                    RewindFailed(
                        originator_id=stream,
                        originator_version=recording.log.version(stream) + 1,
                        at=time.time_ns(),
                        operation=planned.operation,
                        why=recovered.why,
                        unrecovered=recovered.unrecovered,
                    )
                ]
            )
            if recovered.unrecovered:
                raise Unrecovered(_named(recovered.unrecovered))
            finish(root, planned.steps, planned.private)
            sentences.append(f"an interrupted {planned.verb} was rolled back; everything is as before it")
    recording.views.catch_up()
    return sentences


def _named(notes: tuple[PathNote, ...]) -> str:
    listed = "; ".join(f"{note.path.decode(errors='replace')}: {note.why}" for note in notes)
    return f"an interrupted rewind could not be rolled back whole: {listed}"
