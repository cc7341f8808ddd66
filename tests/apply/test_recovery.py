"""Recovery decides from the work tree's facts alone."""

from __future__ import annotations

import os
from uuid import uuid4

from recorder.applying.apply import apply
from recorder.applying.recovery import recover, sweep, unfinished
from recorder.events import FileStep, RewindApplied, RewindFailed, RewindPlanned
from tests.apply.trees import Counter, Store, at_effect, build, file, killed, paths, private, read, steps

STREAM = uuid4()
BEFORE = {b"f": file(b"1"), b"gone": file(b"2")}
AFTER = {b"f": file(b"3"), b"made": file(b"4")}
STORE = Store(BEFORE, AFTER)
FIRST, SECOND = "1" * 16, "2" * 16


def planned(
    operation: str, token: str, changes: tuple[FileStep, ...] = steps(BEFORE, AFTER)
) -> RewindPlanned:
    return RewindPlanned(
        originator_id=STREAM,
        originator_version=1,
        at=0,
        operation=operation,
        verb="rewind",
        session=STREAM,
        checkpoint=None,
        safety="s",
        private=token,
        steps=changes,
        takes_back=(),
        puts_on=(),
        inverts=None,
        position_before=None,
        position_after=None,
        leaf_before=None,
        leaf_after=None,
    )


def applied(operation: str) -> RewindApplied:
    return RewindApplied(
        originator_id=STREAM, originator_version=2, at=0, operation=operation, left=(), conversation="moved"
    )


def failed(operation: str) -> RewindFailed:
    return RewindFailed(
        originator_id=STREAM, originator_version=2, at=0, operation=operation, why="", unrecovered=()
    )


def test_unfinished() -> None:
    """Rewinds with an outcome are done; the others come newest first."""
    facts = [planned(name, FIRST) for name in "abcd"]

    found = unfinished([*facts[:2], applied("a"), *facts[2:], failed("c")])

    assert [plan.operation for plan in found] == ["d", "b"]


def test_recover(root: bytes) -> None:
    """A rewind killed after its last effect is rolled back, and the outcome says that all is as before;
    a second recovery says the same."""
    build(root, BEFORE)
    plan = planned("a", FIRST)
    assert not killed(10**6, lambda hook: apply(root, plan.steps, plan.private, STORE, before_effect=hook))

    for _ in range(2):
        recovered = recover(plan, root, STORE)
        assert recovered.unrecovered == ()
        assert "everything is as before" in recovered.why
        assert read(root) == BEFORE


def test_recover_with_something_in_the_way(root: bytes) -> None:
    """A path that somebody changed since is named with the reason, the others are brought back."""
    build(root, BEFORE)
    plan = planned("a", FIRST)
    apply(root, plan.steps, plan.private, STORE)
    with open(root + b"/f", "wb") as stream:
        stream.write(b"mine")

    recovered = recover(plan, root, STORE)

    assert paths(recovered.unrecovered) == {b"f"}
    assert "not every path" in recovered.why
    assert {path: node for path, node in read(root).items() if b".recorder" not in path} == {
        b"f": file(b"mine"),
        b"gone": file(b"2"),
    }


def test_a_work_tree_that_is_gone(root: bytes) -> None:
    """Every path that stood there is named; nothing is made anew."""
    os.rmdir(root)

    recovered = recover(planned("a", FIRST), root, STORE)

    assert paths(recovered.unrecovered) == {b"f", b"gone"}
    assert not os.path.exists(root)


def test_sweep(root: bytes) -> None:
    """What an applied rewind left when it was killed in finish goes; it needs no store, and a rewind that
    is under way or failed is let be."""
    build(root, BEFORE)
    plan = planned("a", FIRST)
    apply(root, plan.steps, plan.private, STORE)
    later = planned("b", SECOND, steps(AFTER, BEFORE))
    apply(root, later.steps, later.private, STORE)

    assert sweep([plan, failed("a")], root) == ()
    assert sweep([plan], root) == ()
    assert len(private(root)) == 6
    assert sweep([plan, applied("a"), later], root) == ()
    assert {path for path in private(root) if FIRST.encode() in path} == set()
    assert len(private(root)) == 3
    assert sweep([plan, applied("a"), later, applied("b")], root) == ()
    assert read(root) == BEFORE


def test_sweep_of_nothing(root: bytes) -> None:
    """Where all is finished, or nothing was ever planned, a sweep has no effect on the disk."""
    build(root, AFTER)
    hook = Counter()

    assert sweep([], root, before_effect=hook) == ()
    assert sweep([planned("a", FIRST), applied("a")], root, before_effect=hook) == ()
    assert (hook.names, read(root)) == ([], AFTER)


def test_recover_after_an_error_in_recovery(root: bytes) -> None:
    """A path that could not be brought back for the moment is brought back by the next recovery."""
    build(root, BEFORE)
    plan = planned("a", FIRST)
    apply(root, plan.steps, plan.private, STORE)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    first = recover(plan, root, STORE, before_effect=at_effect("before exchange", fail))
    assert [(note.path, note.why) for note in first.unrecovered] == [(b"f", "input/output error")]
    assert recover(plan, root, STORE).unrecovered == ()
    assert read(root) == BEFORE
