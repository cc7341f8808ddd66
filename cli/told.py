"""Contents that a plan may have to put back and that the work tree's own store does not have: only the
agent's log has them, or the store of another work tree that captured the same file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from recorder.errors import NotFound, RecorderError
from recorder.history import Change, TreeHistory, place_of

if TYPE_CHECKING:
    from cli.context import Recording


def contents_told(
    recording: Recording, history: TreeHistory, found: Iterable[Change], lacks: Callable[[str], bool]
) -> Iterator[bytes]:
    """The contents from before or after the history's changes that `lacks` says are not stored, by their
    blob ids, where they can be had elsewhere."""
    bodies = {
        file.before: file.before_body.digest
        for window in history.windows
        for file in window.files
        if file.before_body is not None
    }
    sighted = {state.oid for seen in history.sightings for state in (seen.before, seen.after)}
    candidates = (bodies.keys() | sighted) - {"", None}
    places = {
        state.oid: place_of(history.root, change.path)
        for change in found
        for state in (change.before, change.after)
        if state.oid in candidates
    }
    for oid, place in places.items():
        if lacks(oid):
            with contextlib.suppress(RecorderError):
                told = bodies.get(oid)
                yield recording.log.body(told) if told else _stored_elsewhere(recording, place, oid)


def _stored_elsewhere(recording: Recording, place: bytes, oid: str) -> bytes:
    """A content of the file at a place, from any work tree that captured it. Raises NotFound."""
    from cli.files import stored_files

    rows = recording.views.connection.execute(
        "SELECT DISTINCT tree FROM transitions WHERE place = ?", (place,)
    ).fetchall()
    for row in rows:
        with contextlib.suppress(RecorderError), stored_files(recording, row["tree"]) as files:
            return files.blob(oid)
    raise NotFound(f"no work tree has the content {oid} any more")
