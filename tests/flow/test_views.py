"""What the plan is computed from reaches it whole: fields of facts that no ordinary history shows."""

from __future__ import annotations

from projections.changes import windows_of
from projections.history import tree_history
from projections.views import Views, views_as_of
from recorder import events
from recorder.events import Fact, FileStep
from recorder.log import Stored
from recorder.states import ABSENT, PathNote, PathState

SESSION, TREE = events.session_stream("pi", "s"), events.tree_stream(b"/work", 1, 2)


class Given:
    """Facts as a log would give them."""

    def __init__(self, *facts: Fact) -> None:
        self.stored = [Stored(position, fact) for position, fact in enumerate(facts, 1)]

    def read(self, *, after: int = 0, upto: int | None = None, limit: int = 500) -> list[Stored]:
        return [one for one in self.stored if after < one.position <= (upto or len(self.stored))][:limit]

    def digest_at(self, position: int) -> str | None:
        return f"{position:064x}" if 0 < position <= len(self.stored) else None


def folded(*facts: Fact) -> Views:
    return views_as_of(Given(*facts), None)


def test_what_an_operation_left_is_known() -> None:
    """A folder that was to go and stayed is no step of the rewind."""
    step = FileStep(b"folder", PathState("dir", 0o755), ABSENT)
    common = {"originator_id": TREE, "at": 1}
    planned = events.RewindPlanned(
        **common, originator_version=1, operation="o", verb="rewind", session=SESSION, checkpoint=None,
        safety="s", private="12345678", steps=(step,), takes_back=(), puts_on=(), inverts=None,
        position_before=None, position_after=None, leaf_before=None, leaf_after=None,
    )  # fmt: skip
    applied = events.RewindApplied(
        **common,
        originator_version=2,
        operation="o",
        left=(PathNote(b"folder", "busy"),),
        conversation="noop",
    )
    with folded(planned, applied) as views:
        [operation] = tree_history(views.connection, TREE.hex).operations
    assert operation.left == (b"folder",)


def test_a_failed_call_is_known() -> None:
    """What it wanted to write is no evidence of what stands there."""
    called = events.ToolCalled(
        originator_id=SESSION, originator_version=1, at=1, time="", run="r", step="", call="c", tool="edit",
        writes="named", files=(), background=False,
    )  # fmt: skip
    returned = events.ToolReturned(
        originator_id=SESSION, originator_version=2, at=2, time="", run="r", call="c", failed=True, files=()
    )
    bound = events.CaptureFailed(
        originator_id=TREE, originator_version=1, at=3, capture="x", moment="start", session=SESSION,
        entry=None, why="full",
    )  # fmt: skip
    with folded(called, returned, bound) as views:
        assert [window.failed for window in windows_of(views.connection, {SESSION.hex: None})] == [True]
