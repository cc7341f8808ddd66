"""Times of the agent are taken where they fit what this machine saw."""

from __future__ import annotations

import pytest

from recorder.reading.moments import Clock, nanoseconds
from recorder.reading.tail import Lines

SECOND = 10**9
SEEN = 1_700_000_000 * SECOND


def clock(
    *, live: bool, now: int = SEEN + 5, written_at: int = SEEN, previous_at: int = SEEN - 100 * SECOND
) -> Clock:
    return Clock(Lines([], 0, 0, written_at=written_at, previous_at=previous_at, live=live), now)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-11-30T17:36:19.289Z", 1796060179289000000),
        ("2026-11-30T18:36:19.289+01:00", 1796060179289000000),
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-30T17:36:19", None),
        ("yesterday", None),
    ],
)
def test_nanoseconds(time: str, expected: int | None) -> None:
    """ISO 8601 with a zone; what has none, or is no time, is not guessed at."""
    assert expected == nanoseconds(time)


@pytest.mark.parametrize(("age", "taken"), [(0, True), (-1, True), (-1.1, False), (30, True), (30.1, False)])
def test_a_line_seen_as_it_is_written(age: float, taken: bool) -> None:
    """It is at most 30 s old and at most 1 s ahead; else the moment it was seen counts."""
    time = SEEN - int(age * SECOND)
    assert (time if taken else SEEN) == clock(live=True).at(time)


def test_a_line_caught_up_with_may_be_of_any_age() -> None:
    """But not of the future, nor from before there were clocks."""
    late = clock(live=False)
    assert [late.at(SEEN - 10**17), late.at(SEEN + 2 * SECOND), late.at(-1)] == [SEEN - 10**17, SEEN, SEEN]
    assert late.at(None) == SEEN
    assert late.at(nanoseconds("9999-12-31T23:59:59.999999-23:59")) == SEEN


def test_a_copied_line_may_be_of_any_age() -> None:
    """A fork's first lines are as old as what they were copied from."""
    assert clock(live=True).at(SEEN - 10**15, copied=True) == SEEN - 10**15


def test_seen_is_not_later_than_now() -> None:
    """A log whose time of change lies in the future was seen now."""
    assert clock(live=True, now=SEEN - 7).at(None) == SEEN - 7


def test_reference_of_a_prompt_that_was_the_newest_line() -> None:
    """Not before the line can have been in the agent's memory, not after it was written; the rest of the
    agent's millisecond is before it."""
    live, flush, rest = clock(live=True), SECOND // 10, SECOND // 1000
    assert SEEN - flush == live.reference(SEEN - 5 * SECOND, flush, late=False)
    assert live.reference(SEEN - 3 * rest, flush, late=False) == SEEN - 2 * rest
    assert live.reference(SEEN - 3, flush, late=False) == SEEN
    assert live.reference(SEEN + SECOND // 2, flush, late=False) == SEEN
    assert SEEN - flush == live.reference(SEEN - 99 * SECOND, flush, late=False)
    assert SEEN - flush == live.reference(None, flush, late=False)


def test_reference_of_a_prompt_that_came_with_lines_of_its_run() -> None:
    """The agent's time, or, where that cannot be, the look at the file before."""
    live, rest = clock(live=True), SECOND // 1000
    assert live.reference(SEEN - 5 * SECOND, 0, late=True) == SEEN - 5 * SECOND + rest
    assert live.reference(SEEN + 50 * SECOND, 0, late=True) == SEEN - 100 * SECOND
    assert live.reference(None, 0, late=True) == SEEN - 100 * SECOND
    assert live.reference(SEEN + SECOND // 2, 0, late=True) == SEEN
