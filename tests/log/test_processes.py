from __future__ import annotations

import signal
import time
from uuid import UUID

from recorder.log import open_log
from tests.log.samples import OTHER, STREAM


def finish(*processes):
    """What each process printed; it must have ended well."""
    said = []
    for process in processes:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        said.append(out.split())
    return said


def test_processes_that_open_a_fresh_home_at_once_all_succeed(tmp_path, writer):
    """Home, secret and database are made once, whoever comes first; nobody fails and nobody's fact is
    lost."""
    folder = tmp_path / "fresh"
    processes = [writer(UUID(int=number), 1, number, folder=folder) for number in range(8)]

    finish(*processes)
    from recorder.home import open_home

    with open_log(open_home(folder)) as log:
        assert len(log.read()) == 8
        assert list(log.check()) == []


def test_two_writers_of_one_stream_lose_and_double_nothing(home, writer):
    """Each reloads after a conflict; the stream holds all of both, each one's in its own order."""
    one, two = writer(STREAM, 60, "one"), writer(STREAM, 60, "two")

    said = finish(one, two)
    with open_log(home) as log:
        facts = list(log.stream(STREAM))
        assert list(log.check()) == []
    assert [fact.originator_version for fact in facts] == list(range(1, 121))
    for tag, words in zip(("one", "two"), said, strict=True):
        names = [fact.run for fact in facts if fact.run.startswith(tag)]
        assert names == [f"{tag}-{number}" for number in range(1, 61)] == words[1:]


def test_writers_of_different_streams_do_not_meet(home, writer):
    """They wait for each other and never conflict; the positions have no gap."""
    finish(writer(STREAM, 80, "one"), writer(OTHER, 80, "two"))

    with open_log(home) as log:
        stored = log.read()
        assert [each.position for each in stored] == list(range(1, 161))
        assert log.version(STREAM) == log.version(OTHER) == 80
        assert list(log.check()) == []


def test_two_readers_of_one_log_file_record_it_once(home, writer):
    """Both follow the same generation: each byte's facts are recorded by one of them, in order."""
    finish(writer(STREAM, 60, "line", "gen"), writer(STREAM, 60, "line", "gen"))

    with open_log(home) as log:
        assert [fact.run for fact in log.stream(STREAM)] == [f"line-{number}" for number in range(1, 61)]
        assert log.reached("gen").offset == 60


def test_a_killed_writer_loses_nothing_it_was_told_is_stored(home, writer):
    """kill -9 between and within appends: what was acknowledged is there, at most the one under way more,
    and others go on."""
    for attempt in range(3):
        process = writer(STREAM, 100_000, f"killed{attempt}")
        assert process.stdout.readline() == "open\n"
        time.sleep(0.05 + 0.03 * attempt)
        process.send_signal(signal.SIGKILL)
        told = process.stdout.read().split()

        with open_log(home) as log:
            names = [fact.run for fact in log.stream(STREAM) if fact.run.startswith(f"killed{attempt}-")]
            assert list(log.check()) == []
        whole = told if len(names) == len(told) else [*told, f"killed{attempt}-{len(told) + 1}"]
        assert names == whole

    finish(writer(STREAM, 3, "after"))
    with open_log(home) as log:
        assert [fact.originator_version for fact in log.stream(STREAM)] == list(
            range(1, log.version(STREAM) + 1)
        )
        assert [fact.run for fact in log.stream(STREAM)][-3:] == ["after-1", "after-2", "after-3"]
