"""A capture and its fact: look at a work tree under its lock, and append what came of it.

The caller holds the tree's lock and says which capture is the last one in the tree's stream.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

import msgspec

from recorder.errors import RecorderError
from recorder.events import Captured, CaptureFailed, Fact, TreeOpened

if TYPE_CHECKING:
    from recorder.capture import Look, Tree
    from recorder.log import EventLog
    from recorder.worktree import WorkTree


_F = TypeVar("_F", bound=Fact)


class Occasion(msgspec.Struct, frozen=True, kw_only=True):
    """Why a capture is made: `moment`, `source`, `session`, `entry` and `operation` as in
    `events.Captured`; `reference_at` (ns) is when the state that is wanted ended, None for now. `late`:
    what came after that may be on disk already. `announced` as in `events.Captured`; `deadline` (ns) is when
    the agent that waits for this goes on, captured or not."""

    moment: str
    source: str
    session: UUID | None = None
    entry: str | None = None
    operation: str | None = None
    reference_at: int | None = None
    late: bool = False
    announced: str | None = None
    deadline: int | None = None


def lock_name(tree: UUID) -> str:
    """The home's lock that every capture and rewind of a work tree holds."""
    return f"tree-{tree.hex}"


def open_stream(log: EventLog, tree: WorkTree) -> bool:
    """Append the first fact of a work tree's stream where it has none; whether it had none."""
    new = log.version(tree.stream) == 0
    if new:
        log.append(
            [
                TreeOpened(
                    originator_id=tree.stream,
                    originator_version=1,
                    at=time.time_ns(),
                    path=tree.path,
                    device=tree.device,
                    inode=tree.inode,
                    kind=tree.kind,
                    why=tree.why,
                )
            ]
        )
    return new


def record_capture(
    log: EventLog,
    tree: Tree,
    stream: UUID,
    occasion: Occasion,
    *,
    previous: str | None,
    previous_at: int | None = None,
    looked_at: int | None = None,
    named: Collection[bytes] = (),
    restored: Collection[bytes] = (),
    contents: Mapping[bytes, bytes] = MappingProxyType({}),
) -> Captured | CaptureFailed:
    """Capture and append the outcome; a capture that fails is an outcome too.

    `previous` is the commit of the last capture in the stream, whose state was seen at `previous_at` (ns) at
    the latest; `looked_at`, `named` and `restored` are as of `Tree.capture`; `contents` are earlier contents
    of named files, by path, that the agent's log holds. Raises LogFailure where the log cannot take it.
    """
    from recorder.capturing.late import WHY as LATE

    capture = uuid.uuid4().hex[:16]
    try:
        look = tree.capture(
            previous=previous,
            previous_at=previous_at,
            looked_at=looked_at,
            named=named,
            restored=restored,
            reference_at=occasion.reference_at,
            contents=contents,
            deadline=occasion.deadline,
        )
    except RecorderError as error:
        return _append(log, _failed(log, stream, occasion, capture, error.message))
    late = _late(occasion, previous_at) or any(note.why == LATE for note in look.unknown)
    return _append(log, _captured(log, stream, occasion, capture, look, late=late))


def _captured(
    log: EventLog, stream: UUID, occasion: Occasion, capture: str, look: Look, *, late: bool
) -> Captured:
    return Captured(
        originator_id=stream,
        originator_version=log.version(stream) + 1,
        at=look.ended_at,
        capture=capture,
        moment=occasion.moment,
        source=occasion.source,
        session=occasion.session,
        entry=occasion.entry,
        operation=occasion.operation,
        began_at=look.began_at,
        commit=look.commit,
        delta=look.delta,
        unknown=look.unknown,
        skipped=look.skipped,
        files=look.files,
        git=look.git,
        late=late,
        announced=occasion.announced,
    )


def _failed(log: EventLog, stream: UUID, occasion: Occasion, capture: str, why: str) -> CaptureFailed:
    return CaptureFailed(
        originator_id=stream,
        originator_version=log.version(stream) + 1,
        at=time.time_ns(),
        capture=capture,
        moment=occasion.moment,
        session=occasion.session,
        entry=occasion.entry,
        why=why,
    )


def _late(occasion: Occasion, previous_at: int | None) -> bool:
    """Whether something can be gone without a trace: not where the capture before has what stood there."""
    if not occasion.late or occasion.reference_at is None:
        return occasion.late
    return previous_at is None or previous_at > occasion.reference_at


def _append(log: EventLog, fact: _F) -> _F:
    log.append([fact])
    return fact
