"""Reading what one session's log has and the recording has not, before something is decided on it.

Whoever reads a line answers it: a watcher that finds it read already captures nothing for it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from recorder.reading.ingest import Ingest
from recorder.reading.logfile import log_file
from recorder.reading.tail import opened
from recorder.sources import all_sources

if TYPE_CHECKING:
    from cli.context import Recording
    from projections.sessions import SessionRow


def catch_up_log(recording: Recording, session: SessionRow) -> None:
    """Exactly once, also while a watcher reads the same log; a log that is gone has nothing new."""
    from cli.reactor import reactor_of

    path = os.fsdecode(session.log)
    sources = all_sources()
    ingest = Ingest(recording.log, sources)
    with contextlib.ExitStack() as stack:
        try:
            content = stack.enter_context(opened(path))
        except OSError:
            return
        reactor = stack.enter_context(reactor_of(recording))
        file = log_file(path, content, recording.log, sources)
        if file is not None:
            for lines in file.read(content, live=True):
                reactor.react(ingest.take(file, lines).facts)
    recording.views.catch_up()
