"""The capture reactor as this process uses it, with the user's settings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.context import Recording
    from projections.capture import CaptureReactor


@contextlib.contextmanager
def reactor_of(recording: Recording, *, answers_others: bool = False) -> Iterator[CaptureReactor]:
    """`answers_others`: what other processes read of a log is answered too, while it is fresh."""
    from cli.output import write_error
    from cli.policy import policy_of, why_not_captured
    from projections.capture import CaptureReactor

    reactor = CaptureReactor(
        recording.home,
        recording.log,
        recording.views,
        policy_of,
        Path.home(),
        refuses=why_not_captured,
        recover=lambda tree: recover_and_tell(recording, tree),
        tell=lambda sentence: write_error(f"recorder: {sentence}"),
        answers_others=answers_others,
    )
    try:
        yield reactor
    finally:
        reactor.close()


def recover_and_tell(recording: Recording, tree: str | None = None) -> None:
    """End what a crash left half done, in one work tree or in all, and go on whatever comes of it."""
    from cli.output import write_error
    from cli.recovering import Unrecovered, recover

    try:
        for sentence in recover(recording, tree):
            write_error(f"recorder: {sentence}")
    except Unrecovered as error:
        write_error(f"recorder: {error.message}")
