"""Pins and labels: what a person says of a checkpoint, as facts in its work tree's stream."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import UUID

from cli.choice import reads_as_other_form
from cli.context import existing_recording
from cli.pick import the_checkpoint
from projections.checkpoints import Checkpoint, checkpoints_of
from recorder.errors import Refused, UsageProblem
from recorder.events import CheckpointLabelled, CheckpointPinned
from recorder.plain import plain
from recorder.recording import lock_name

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.output import Console

LONGEST = 100
"""Characters of a label."""


def set_pinned(arguments: argparse.Namespace, console: Console, *, pinned: bool) -> int:
    with existing_recording(arguments) as recording:
        session, one = the_checkpoint(recording, arguments, arguments.checkpoint, changing_now=time.time_ns())
        tree = _tree_of(one)
        with recording.home.lock(lock_name(tree)):
            fact = CheckpointPinned(
                originator_id=tree,
                originator_version=recording.log.version(tree) + 1,
                at=time.time_ns(),
                checkpoint=one.id,
                pinned=pinned,
            )
            recording.log.append([fact])
    console.show(f"Checkpoint {one.number} of session {session.session} is {'' if pinned else 'not '}pinned.")
    return 0


def set_label(arguments: argparse.Namespace, console: Console) -> int:
    label = _checked(arguments.name.strip())
    if label and reads_as_other_form(label, datetime.now(UTC).astimezone()):
        raise UsageProblem(
            f"{label!r} would be taken for a number, a step, an id or a time; choose another name"
        )
    with existing_recording(arguments) as recording:
        session, one = the_checkpoint(recording, arguments, arguments.checkpoint, changing_now=time.time_ns())
        _check_free(recording, one, label)
        tree = _tree_of(one)
        with recording.home.lock(lock_name(tree)):
            fact = CheckpointLabelled(
                originator_id=tree,
                originator_version=recording.log.version(tree) + 1,
                at=time.time_ns(),
                checkpoint=one.id,
                label=label or None,
            )
            recording.log.append([fact])
    said = f"is called “{label}”" if label else "has no name any more"
    console.show(f"Checkpoint {one.number} of session {session.session} {said}.")
    return 0


def _checked(label: str) -> str:
    """A name that a table can show. Raises UsageProblem."""
    if plain(label) != label or "\n" in label or "\t" in label:
        raise UsageProblem("a name stands on one line and holds no control characters")
    if len(label) > LONGEST:
        raise UsageProblem(f"a name has at most {LONGEST} characters; this one has {len(label)}")
    return label


def _check_free(recording: Recording, one: Checkpoint, label: str) -> None:
    """A name means one checkpoint of a session."""
    for other in checkpoints_of(recording.views.connection, one.stream):
        if label and other.label == label and other.id != one.id:
            raise Refused(f"checkpoint {other.number} is already called “{label}”", code="label_taken")


def _tree_of(one: Checkpoint) -> UUID:
    if one.tree is None or not one.restorable:
        raise Refused(f"checkpoint {one.number} has no files to keep: {one.why or one.state}", code=one.state)
    return UUID(one.tree)
