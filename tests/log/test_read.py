from __future__ import annotations

from recorder.eventlog.chain import PAGE
from tests.log.samples import OTHER, STREAM, run, runs


def test_reading_is_bounded_at_both_ends(log):
    """`after` is left out, `upto` is in, and `limit` ends a page."""
    log.append(runs(1, 10))

    assert [each.position for each in log.read(after=3, upto=6)] == [4, 5, 6]
    assert [each.position for each in log.read(after=3, limit=2)] == [4, 5]
    assert [each.position for each in log.read(upto=2)] == [1, 2]
    assert log.read(after=10) == []


def test_an_empty_log_reads_as_empty(log):
    """No fact, no version, position 0."""
    assert log.read() == []
    assert list(log.stream(STREAM)) == []
    assert log.version(STREAM) == 0
    assert log.head().position == 0


def test_a_stream_is_its_own_facts_in_order(log):
    """Facts of other streams between them do not show."""
    log.append([run(1), run(1, OTHER), run(2), run(2, OTHER), run(3)])

    assert list(log.stream(STREAM)) == runs(1, 3)
    assert list(log.stream(STREAM, after=1)) == runs(2, 3)
    assert list(log.stream(OTHER)) == runs(1, 2, OTHER)


def test_a_long_stream_is_read_in_pages(log):
    """A page is read when it is asked for: what is appended meanwhile is in a later one."""
    log.append(runs(1, 2 * PAGE))
    facts = log.stream(STREAM)
    first = next(facts)
    log.append([run(2 * PAGE + 1)])

    assert [first, *facts] == runs(1, 2 * PAGE + 1)
