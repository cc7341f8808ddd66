"""Where undo and redo start from: the session, brought up to date, and where it stands."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from cli.position import Standing, standing
from projections.sessions import SessionRow

if TYPE_CHECKING:
    from cli.context import Recording


def step(arguments: argparse.Namespace, recording: Recording) -> tuple[SessionRow, Standing]:
    """The session that is meant and its present position."""
    from cli.catching_up import catch_up_log
    from cli.context import the_session
    from projections import changes, operations

    session = the_session(recording, arguments, changing_now=time.time_ns())
    catch_up_log(recording, session, arguments=arguments)
    connection = recording.views.connection
    tree = changes.tree_of(connection, session.stream) or ""
    return session, standing(connection, session.stream, operations.operations_of(connection, tree))
