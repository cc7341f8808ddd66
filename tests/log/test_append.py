from __future__ import annotations

import pytest

from recorder.errors import Conflict, LogFailure, NotFound
from recorder.events import Unread
from recorder.log import Reached, open_log
from tests.log.samples import OTHER, STREAM, run, runs


def test_positions_count_from_one_without_a_gap(log):
    """Each fact gets the next position, over all streams, and comes back as it was."""
    assert log.append(runs(1, 3)) == [1, 2, 3]
    assert log.append([run(1, OTHER), run(4)]) == [4, 5]

    stored = log.read()
    assert [each.position for each in stored] == [1, 2, 3, 4, 5]
    assert [each.fact for each in stored] == [*runs(1, 3), run(1, OTHER), run(4)]


def test_what_was_appended_is_there_after_opening_again(home):
    """Nothing of the log is in memory only."""
    with open_log(home) as log:
        log.append(runs(1, 3))
        head = log.head()
    with open_log(home) as log:
        assert log.version(STREAM) == 3
        assert log.head() == head
        assert list(log.stream(STREAM)) == runs(1, 3)


@pytest.mark.parametrize("version", [1, 2, 4, 9])
def test_only_the_next_version_of_a_stream_is_taken(log, version):
    """A version that is taken, or would leave a gap, is a conflict, and nothing is stored."""
    log.append(runs(1, 2))

    with pytest.raises(Conflict) as caught:
        log.append([run(version)])

    assert caught.value.code == "conflict"
    assert caught.value.details == {"stream": STREAM.hex, "version": version, "expected": 3}
    assert log.version(STREAM) == 2


def test_an_append_is_all_or_nothing(log):
    """A conflict in the second of two streams leaves no fact, no body and no position behind."""
    log.append([run(1, OTHER)])
    head = log.head()
    body = log.body_of(b"a prompt")

    with pytest.raises(Conflict):
        log.append(
            [run(1), run(1, OTHER)],
            bodies=[(body, b"a prompt")],
            reached=Reached("generation", 10, b"/log", b"\n"),
        )

    assert log.head() == head
    assert log.version(STREAM) == 0
    assert log.reached("generation") is None
    with pytest.raises(NotFound):
        log.body(body.digest)


def test_an_append_after_a_conflict_works(log):
    """Reloading the version and deciding again is all that a conflict asks for."""
    log.append([run(1)])
    with pytest.raises(Conflict):
        log.append([run(1)])

    assert log.append([run(log.version(STREAM) + 1)]) == [2]


def test_nothing_to_append_is_no_news(log):
    """An empty append stores nothing and gives no position."""
    assert log.append([]) == []
    assert log.head().position == 0


def test_a_fact_that_this_version_does_not_know_is_not_appended(log):
    """`Unread` stands for a stored fact and is never stored itself."""
    fact = Unread(originator_id=STREAM, originator_version=1, at=0, topic="Future.1", state=b"\x90")

    with pytest.raises(TypeError, match="Unread"):
        log.append([fact])


def test_a_position_is_never_given_twice(log, sql):
    """Not even when somebody cut off the newest row: a reader that was past it would miss the new one."""
    log.append(runs(1, 3))
    sql("DELETE FROM stored_events WHERE rowid = 3")

    assert log.append([run(3)]) == [4]


def test_commits_are_on_disk(log):
    """Write-ahead log with synchronous FULL, on every connection that the log makes."""
    with log._recorder.datastore.transaction(commit=False) as cursor:
        pragmas = [
            cursor.sqlite_cursor.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]

    assert pragmas == ["wal", 2]


def test_a_closed_log_says_so(home):
    """Using a log that was closed is one clear failure."""
    log = open_log(home)
    log.close()

    with pytest.raises(LogFailure, match="PoolClosed"):
        log.append([run(1)])
