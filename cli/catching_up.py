"""Reading what one session's log has and the recording has not, before something is decided on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from recorder.ingest import Ingest
from recorder.logfile import log_file
from recorder.sources import all_sources
from recorder.tail import opened

if TYPE_CHECKING:
    from cli.context import Recording
    from projections.sessions import SessionRow


def catch_up_log(recording: Recording, session: SessionRow) -> None:
    """Exactly once, also while a watcher reads the same log; a log that is gone has nothing new."""
    path = os.fsdecode(session.log)
    sources = all_sources()
    ingest = Ingest(recording.log, sources)
    try:
        with opened(path) as content:
            file = log_file(path, content, recording.log, sources)
            if file is not None:
                for lines in file.read(content, live=True):
                    ingest.take(file, lines)
    except OSError:
        return
    finally:
        recording.views.catch_up()
