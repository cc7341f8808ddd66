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
def reactor_of(recording: Recording) -> Iterator[CaptureReactor]:
    from cli.policy import policy_of, why_not_captured
    from projections.capture import CaptureReactor

    reactor = CaptureReactor(
        recording.home, recording.log, recording.views, policy_of, Path.home(), refuses=why_not_captured
    )
    try:
        yield reactor
    finally:
        reactor.close()
