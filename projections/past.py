"""The captures of a work tree as the log has them, for where its store has lost what it had."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

import msgspec

from projections.views import Views
from recorder.capturing.past import Moment
from recorder.states import PathChange, PathState

_state = msgspec.msgpack.Decoder(PathState).decode


def past(views: Views, tree: str) -> Iterator[Moment]:
    """The captures of a work tree, newest first, as the log has them."""
    rows = views.connection.execute(
        "SELECT captures.capture, commit_id, began_at, path, before, after FROM captures"
        " LEFT JOIN transitions USING (tree, position) WHERE tree = ? ORDER BY position DESC, ordinal",
        (tree,),
    )
    for _, group in groupby(rows, key=itemgetter("capture")):
        of_one = list(group)
        changes = (row for row in of_one if row["path"] is not None)
        yield Moment(
            of_one[0]["commit_id"],
            of_one[0]["began_at"],
            tuple(PathChange(row["path"], _state(row["before"]), _state(row["after"])) for row in changes),
        )
