"""The session and the checkpoint that a command's words mean, together."""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cli.choice import choose_checkpoint, choose_session
from cli.context import Recording, current_folder
from projections.sessions import SessionRow, sessions
from recorder.errors import NotFound

if TYPE_CHECKING:
    from projections.checkpoints import Checkpoint


def the_checkpoint(
    recording: Recording, arguments: argparse.Namespace, word: str, *, changing_now: int | None = None
) -> tuple[SessionRow, Checkpoint]:
    """The checkpoint that `word` means, and its session; an id is found in every session."""
    connection = recording.views.connection
    session: SessionRow | None = None
    try:
        session = choose_session(
            connection, arguments.session, current_folder(arguments), os.environ, changing_now=changing_now
        )
    except NotFound:
        if arguments.session:
            raise
        checkpoint = choose_checkpoint(connection, None, word, now=datetime.now(UTC).astimezone())
    else:
        checkpoint = choose_checkpoint(connection, session, word, now=datetime.now(UTC).astimezone())
    if session is None or session.stream != checkpoint.stream:
        session = next(one for one in sessions(connection) if one.stream == checkpoint.stream)
    return session, checkpoint
