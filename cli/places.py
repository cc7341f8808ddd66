"""A recorded state of the files that a word means: before a prompt, or before or after a step of its run,
or after the run."""

from __future__ import annotations

import argparse
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from cli.choice import STEP, choose_checkpoint, choose_session
from cli.context import Recording, current_folder
from cli.files import commit_of
from cli.pick import the_checkpoint
from projections.sessions import SessionRow
from projections.steps import Capture, Step, capture_with_id, steps_of
from recorder.errors import NotFound

if TYPE_CHECKING:
    from projections.checkpoints import Checkpoint


class Place(NamedTuple):
    """`checkpoint` is the prompt's whose run it lies in, with the place's own capture in the place of the
    prompt's; `step` is None before the prompt and after the run. `name` is for people."""

    session: SessionRow
    checkpoint: Checkpoint
    step: Step | None
    after: bool
    name: str
    captured_at: int | None

    @property
    def inside(self) -> bool:
        """Whether it is no checkpoint: files alone can go back to it."""
        return self.step is not None or self.after


def the_place(
    recording: Recording, arguments: argparse.Namespace, word: str, *, changing_now: int | None = None
) -> Place:
    """What `word` means, a checkpoint or `3.2`, `3.2+`, `3+`. Raises NotFound also where that state was not
    captured, UsageProblem (ambiguous), Refused."""
    match = STEP.fullmatch(word.strip())
    if match is None:
        session, one = the_checkpoint(recording, arguments, word, changing_now=changing_now)
        return Place(session, one, None, False, f"checkpoint {one.number}", None)
    connection = recording.views.connection
    session = choose_session(
        connection, arguments.session, current_folder(arguments), os.environ, changing_now=changing_now
    )
    one = choose_checkpoint(connection, session, match["number"], now=datetime.now(UTC).astimezone())
    if one.state == "retired":
        commit_of(one)
    return _inside(recording, session, one, match)


def _inside(recording: Recording, session: SessionRow, one: Checkpoint, match: re.Match[str]) -> Place:
    after = bool(match["after"])
    if match["step"] is None:
        step, name = None, f"the end of prompt {one.number}"
        capture = capture_with_id(recording.views.connection, one.after_capture)
    else:
        step = _step(recording, session, one, int(match["step"]))
        name = f"{'after' if after else 'before'} step {step.ordinal} of prompt {one.number}"
        capture = step.after if after else step.before
    if capture is None:
        raise NotFound(
            f"no files were captured at {name}; see “recorder checkpoints --steps”", code="not_captured"
        )
    return Place(session, _standing_in(one, capture), step, after, name, capture.ended_at)


def _step(recording: Recording, session: SessionRow, one: Checkpoint, ordinal: int) -> Step:
    steps = steps_of(recording.views.connection, session.stream, one.entry)
    if not 1 <= ordinal <= len(steps):
        count = f"{len(steps)} step{'s' if len(steps) != 1 else ''}" if steps else "no steps"
        raise NotFound(f"the run of prompt {one.number} has {count}", code="no_step")
    return steps[ordinal - 1]


def _standing_in(one: Checkpoint, capture: Capture) -> Checkpoint:
    return one._replace(
        state="complete" if capture.whole else "partial",
        why=None if capture.whole else "not every file is known",
        tree=capture.tree,
        capture=capture.capture,
        commit=capture.commit,
        capture_position=capture.position,
    )
