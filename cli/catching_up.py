"""Reading what one session's log has and the recording has not, before something is decided on it.

Whoever reads a line answers it: a watcher that finds it read already captures nothing for it.
"""

from __future__ import annotations

import argparse
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


def catch_up_log(recording: Recording, session: SessionRow, *, arguments: argparse.Namespace) -> None:
    """Exactly once, also while a watcher reads the same log; a log that is gone has nothing new.

    A live agent that can be asked writes down where it stands first, but for a dry run; where its
    conversation is to be moved by name, the end of its run is waited for.
    """
    from cli.live import live, wait_until_idle
    from cli.reactor import reactor_of

    moves = getattr(arguments, "what", None) in ("both", "conversation")
    if moves and not (arguments.dry_run or arguments.while_running):
        wait_until_idle(recording.home.folder, session.session)
    live(recording.home.folder, session.session, looks=arguments.dry_run)

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
