"""Many logs at once: found wherever they appear, read as they grow, at next to no cost while idle."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from inotify_simple import INotify

from recorder.reading.follow import BACKLOG, Follower, all_roots
from recorder.reading.logfile import LogFile, NotALog
from recorder.sources.base import Root
from tests.ingest.simple import SimpleSource, entry, header, line, lines
from tests.ingest.test_tail import Memory, append


@contextmanager
def following(*roots: Path, memory: Memory | None = None, **options: Any) -> Iterator[Follower]:
    with Follower(
        [SimpleSource()], memory or Memory(), [Root(root, "*.jsonl") for root in roots], **options
    ) as follower:
        yield follower


def news(follower: Follower, memory: Memory | None = None) -> list[str]:
    """The entries of what is new, in order."""
    found = []
    for piece in follower.poll():
        if isinstance(piece, NotALog):
            found.append(piece.why)
            continue
        file, some = piece
        found += [getattr(record, "entry", "bad") for record in file.records(some.lines)]
        if memory is not None and some.reached is not None:
            memory.known[some.reached.generation] = some.reached
    return found


def wait_for(follower: Follower, count: int, seconds: float = 5.0) -> list[str]:
    found: list[str] = []
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        follower.wait(0.2)
        found += news(follower)
    return found


def test_roots_that_do_not_exist_yet(tmp_path: Path) -> None:
    """Every folder of the way may appear later, at once or one after the other."""
    with following(tmp_path / "a" / "b" / "logs", tmp_path / "c" / "one.jsonl") as follower:
        assert (news(follower), follower.ready) == ([], True)
        (tmp_path / "a").mkdir()
        assert news(follower) == []
        (tmp_path / "a" / "b" / "logs" / "x" / "y").mkdir(parents=True)
        append(tmp_path / "a" / "b" / "logs" / "x" / "y" / "s.jsonl", lines([header("s"), entry("1")]))
        (tmp_path / "c").mkdir()
        append(tmp_path / "c" / "two.jsonl", line(header("no")))
        append(tmp_path / "c" / "one.jsonl", line(header("yes")))

        assert sorted(wait_for(follower, 3)) == ["1", "h-s", "h-yes"]
        assert news(follower) == []


def test_a_root_that_is_removed_is_waited_for_again(tmp_path: Path) -> None:
    """An agent's folder may be deleted, or moved away, and made anew while its logs are followed."""
    root = tmp_path / "agent" / "logs"
    root.mkdir(parents=True)
    with following(root) as follower:
        news(follower)
        root.rmdir()
        root.parent.rmdir()
        news(follower)
        root.mkdir(parents=True)
        append(root / "s.jsonl", line(header("s")))
        assert wait_for(follower, 1) == ["h-s"]

        root.rename(tmp_path / "old")
        news(follower)
        root.mkdir()
        append(root / "t.jsonl", line(header("t")))
        assert wait_for(follower, 1) == ["h-t"]


def test_a_storm_of_new_folders(tmp_path: Path) -> None:
    """Nothing is lost in folders that appear, with logs in them, faster than they are looked at."""
    with following(tmp_path / "logs") as follower:
        news(follower)
        for number in range(300):
            folder = tmp_path / "logs" / str(number % 7) / str(number)
            folder.mkdir(parents=True)
            append(folder / "s.jsonl", line(header(str(number))))

        assert {f"h-{number}" for number in range(300)} == set(wait_for(follower, 300))


def test_two_hundred_logs_at_once(tmp_path: Path) -> None:
    """Each line of each log comes once and in its order; what was read is what was written."""
    paths = [tmp_path / f"{number % 20}" / f"{number}.jsonl" for number in range(200)]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        append(path, line(header(path.stem)))
    found: dict[str, list[str]] = {path.stem: [] for path in paths}
    with following(tmp_path) as follower:
        assert len(news(follower)) == 200
        for step in range(10):
            for path in paths:
                append(path, line(entry(f"{path.stem}/{step}")))
            for name in news(follower):
                found[name.split("/")[0]].append(name)
        written = sum(path.stat().st_size for path in paths)

    assert {path.stem: [f"{path.stem}/{step}" for step in range(10)] for path in paths} == found
    assert follower.bytes_read < 6 * written


def test_from_append_to_news_in_some_milliseconds(tmp_path: Path) -> None:
    """A follower that waits is woken by the append, also with 200 logs."""
    for number in range(200):
        append(tmp_path / f"{number}.jsonl", line(header(str(number))))
    written: list[float] = []
    seen: list[float] = []
    with following(tmp_path) as follower:
        news(follower)

        def write() -> None:
            for number in range(20):
                time.sleep(0.01)
                written.append(time.perf_counter())
                append(tmp_path / f"{number}.jsonl", line(entry("x")))

        thread = threading.Thread(target=write)
        thread.start()
        while len(seen) < 20:
            follower.wait(5)
            seen += [time.perf_counter() for _ in news(follower)]
        thread.join()

    delays = sorted(after - before for before, after in zip(written, seen, strict=True))
    assert delays[len(delays) // 4] < 0.01  # the rest is for a machine that is busy with other things


def test_waiting_costs_next_to_nothing(tmp_path: Path) -> None:
    """No file is looked at while nothing happens."""
    for number in range(500):
        append(tmp_path / f"{number}.jsonl", line(header(str(number))))
    with following(tmp_path) as follower:
        news(follower)
        before, read = time.process_time(), follower.bytes_read
        for _ in range(10):
            follower.wait(0.05)
            assert news(follower) == []
        assert time.process_time() - before < 0.01
        assert read == follower.bytes_read


def test_a_start_opens_only_what_changed(tmp_path: Path) -> None:
    """Thousands of old logs are known by size and time; one of the same size but another time is read."""
    memory = Memory()
    for number in range(5000):
        path = tmp_path / f"{number % 50}" / f"{number}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(line(header(str(number))))
    with following(tmp_path, memory=memory) as follower:
        assert len(news(follower, memory)) == 5000
    append(tmp_path / "7" / "57.jsonl", line(entry("new")))
    changed = tmp_path / "8" / "58.jsonl"
    changed.write_bytes(line(header("85")))

    began = time.perf_counter()
    with following(tmp_path, memory=memory) as follower:
        assert {"new", "h-85"} == set(news(follower, memory))
        assert time.perf_counter() - began < 1
        assert follower.bytes_read < 5000


def test_lost_events_are_made_up_for_by_a_scan(tmp_path: Path) -> None:
    """When more happens than the system's queue holds, what changed is found by looking."""
    for name in "abc":
        append(tmp_path / f"{name}.jsonl", line(header(name)))
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with following(tmp_path) as follower:
        news(follower)
        with (tmp_path / "a.jsonl").open("ab", 0) as one, (tmp_path / "b.jsonl").open("ab", 0) as two:
            for _ in range(queue // 2 + 10):
                one.write(b" ")
                two.write(b" ")
        append(tmp_path / "c.jsonl", line(entry("c-1")))
        (tmp_path / "late").mkdir()
        append(tmp_path / "late" / "d.jsonl", line(header("d")))

        assert sorted(wait_for(follower, 2)) == ["c-1", "h-d"]
        append(tmp_path / "late" / "d.jsonl", line(entry("d-1")))
        assert wait_for(follower, 1) == ["d-1"]


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_without_inotify_a_slow_scan(tmp_path: Path) -> None:
    """Where the system has none, changes are found some seconds later, not at every look."""
    clock = Clock()
    (tmp_path / "logs").mkdir()
    append(tmp_path / "logs" / "a.jsonl", line(header("a")))
    with following(tmp_path / "logs", tmp_path / "later", notify=False, clock=clock) as follower:
        assert news(follower) == ["h-a"]
        append(tmp_path / "logs" / "a.jsonl", line(entry("a-1")))
        (tmp_path / "later").mkdir()
        append(tmp_path / "later" / "b.jsonl", line(header("b")))
        assert news(follower) == []
        clock.seconds += 60
        follower.wait(30)
        assert sorted(news(follower)) == ["a-1", "h-b"]


def test_no_watches_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the system's limit is reached, the scan takes over for what cannot be watched."""
    real: Callable[..., int] = INotify.add_watch

    def limited(self: INotify, path: str, mask: int) -> int:
        if path.endswith("unwatched"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, path, mask)

    monkeypatch.setattr(INotify, "add_watch", limited)
    clock = Clock()
    for name in ("watched", "unwatched"):
        (tmp_path / name).mkdir()
        append(tmp_path / name / "s.jsonl", line(header(name)))
    with following(tmp_path, clock=clock) as follower:
        assert len(news(follower)) == 2
        for name in ("watched", "unwatched"):
            append(tmp_path / name / "s.jsonl", line(entry(name)))
        assert news(follower) == ["watched"]
        clock.seconds += 60
        assert news(follower) == ["unwatched"]


def files(follower: Follower) -> list[tuple[LogFile, Any]]:
    return [piece for piece in follower.poll() if not isinstance(piece, NotALog)]


def test_a_live_log_that_is_renamed(tmp_path: Path) -> None:
    """It goes on under its new name, in another folder too, with the lines that are new."""
    (tmp_path / "one").mkdir()
    append(tmp_path / "one" / "s.jsonl", line(header()))
    with following(tmp_path) as follower:
        [(before, _)] = files(follower)
        (tmp_path / "two").mkdir()
        (tmp_path / "one" / "s.jsonl").rename(tmp_path / "two" / "s.jsonl")
        append(tmp_path / "two" / "s.jsonl", line(entry("1")))
        [(after, some)] = files(follower)

    assert before is after
    assert (str(tmp_path / "two" / "s.jsonl"), 1) == (after.path, len(some.lines))
    assert os.fsencode(after.path) == some.reached.path


def test_a_hard_link_is_the_same_log(tmp_path: Path) -> None:
    """Two names of one file are read once, under the first name."""
    append(tmp_path / "a.jsonl", line(header()))
    with following(tmp_path) as follower:
        news(follower)
        os.link(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
        append(tmp_path / "b.jsonl", line(entry("1")))
        [(file, _)] = files(follower)

    assert str(tmp_path / "a.jsonl") == file.path


def test_rewritten_while_followed(tmp_path: Path) -> None:
    """A log rewritten in place, or replaced, is read from its start."""
    path = tmp_path / "a.jsonl"
    append(path, lines([header("a"), entry("1")]))
    with following(tmp_path) as follower:
        news(follower)
        path.write_bytes(lines([header("b"), entry("2"), entry("3")]))
        assert news(follower) == ["h-b", "2", "3"]
        (tmp_path / "new").write_bytes(lines([header("b"), entry("2")]))
        (tmp_path / "new").replace(path)
        assert news(follower) == ["h-b", "2"]
        path.unlink()
        assert news(follower) == []
        append(path, line(header("c")))
        assert news(follower) == ["h-c"]


def test_what_is_no_log_is_told_once(tmp_path: Path) -> None:
    """Garbage, another program's file, a pipe, a link to nothing: one sentence, and the rest goes on."""
    (tmp_path / "garbage.jsonl").write_bytes(os.urandom(3000) + b"\n")
    append(tmp_path / "other.jsonl", b'{"some": "thing"}\n')
    (tmp_path / "nothing.jsonl").symlink_to(tmp_path / "missing")
    (tmp_path / "empty.jsonl").touch()
    append(tmp_path / "log.jsonl", line(header()))
    with following(tmp_path) as follower:
        first = news(follower)
        os.mkfifo(tmp_path / "pipe.jsonl")
        append(tmp_path / "other.jsonl", b"more\n")
        append(tmp_path / "garbage.jsonl", b"more\n")
        append(tmp_path / "log.jsonl", line(entry("1")))
        then = news(follower)

    said = "is no session log of an agent that the recorder knows"
    assert sorted([f"{tmp_path}/garbage.jsonl {said}", f"{tmp_path}/other.jsonl {said}", "h-s-1"]) == sorted(
        first
    )
    assert [f"{tmp_path}/pipe.jsonl cannot be read: it is not a regular file", "1"] == then


def test_lines_followed_are_live_and_those_caught_up_with_are_not(tmp_path: Path) -> None:
    """What was there at the start is old; what comes then, also in new files, is seen as it is written."""
    append(tmp_path / "a.jsonl", line(header("a")))
    with following(tmp_path) as follower:
        [(_, old)] = files(follower)
        append(tmp_path / "a.jsonl", line(entry("1")))
        append(tmp_path / "b.jsonl", line(header("b")))
        fresh = files(follower)

    assert [old.live, *(some.live for _, some in fresh)] == [False, True, True]
    assert old.written_at == fresh[0][1].previous_at <= fresh[0][1].written_at


def test_a_log_that_is_written_comes_before_the_backlog(tmp_path: Path) -> None:
    """While much old history is caught up with, new lines of other logs do not wait for it; they are
    live where their log had been caught up with before."""
    filler = line(entry("old", text="x" * 4000))
    append(tmp_path / "oldest.jsonl", line(header("oldest")))
    os.utime(tmp_path / "oldest.jsonl", (1, 1))
    (tmp_path / "big.jsonl").write_bytes(line(header("big")) + filler * (2 * BACKLOG // len(filler)))
    os.utime(tmp_path / "big.jsonl", (2, 2))
    append(tmp_path / "small.jsonl", line(header("small")))
    with following(tmp_path) as follower:
        order = []
        for piece in follower.poll():
            assert not isinstance(piece, NotALog)
            if piece[0].path.endswith("big.jsonl") and len(order) == 1:
                for name in ("small", "oldest", "big"):
                    append(tmp_path / f"{name}.jsonl", line(entry("now")))
            assert not follower.ready
            order.append((Path(piece[0].path).stem, piece[1].live))

    assert order[:4] == [("small", False), ("big", False), ("small", True), ("oldest", False)]
    assert order[-2:] == [("big", False), ("big", True)]
    assert follower.ready


def test_a_piece_that_could_not_be_stored_comes_again(tmp_path: Path) -> None:
    """The reading does not go on past lines that their taker failed on, and its reader sees them once."""
    source = SimpleSource()
    append(tmp_path / "a.jsonl", lines([header(), entry("1")]))
    with Follower([source], Memory(), [Root(tmp_path, "*.jsonl")]) as follower:
        for file, some in files_of(follower):
            file.records(some.lines)
            break
        assert news(follower) == ["h-s-1", "1"]
        append(tmp_path / "a.jsonl", line(entry("2")))
        for file, some in files_of(follower):
            file.records(some.lines)
            break
        assert news(follower) == ["2"]

    assert source.readers[-1].seen == 3


def files_of(follower: Follower) -> Iterator[tuple[LogFile, Any]]:
    for piece in follower.poll():
        assert not isinstance(piece, NotALog)
        yield piece


def test_woken_from_another_thread(tmp_path: Path) -> None:
    """A stop need not wait for the next line."""
    with following(tmp_path) as follower:
        news(follower)
        timer = threading.Timer(0.05, follower.wake)
        timer.start()
        began = time.monotonic()
        follower.wait(10)
        timer.join()
        assert time.monotonic() - began < 2
    follower.wake()


def test_a_root_below_a_file(tmp_path: Path) -> None:
    """Where a folder should be stands a file: nothing is found there, and nothing hangs, until it is one."""
    (tmp_path / "a").touch()
    with following(tmp_path / "a" / "logs") as follower:
        assert news(follower) == []
        (tmp_path / "a").unlink()
        (tmp_path / "a" / "logs").mkdir(parents=True)
        append(tmp_path / "a" / "logs" / "s.jsonl", line(header("s")))
        assert wait_for(follower, 1) == ["h-s"]


def test_a_reader_is_shown_the_lines_before_where_it_goes_on(tmp_path: Path) -> None:
    """A new process goes on in the middle of a file, with a reader that knows its first lines."""
    memory = Memory()
    append(tmp_path / "a.jsonl", lines([header(), entry("1"), entry("2")]))
    with following(tmp_path, memory=memory) as follower:
        news(follower, memory)
    append(tmp_path / "a.jsonl", line(entry("3")))
    source = SimpleSource()
    with Follower([source], memory, [Root(tmp_path, "*.jsonl")]) as follower:
        assert news(follower) == ["3"]
    assert [reader.seen for reader in source.readers] == [4]


def test_all_roots(tmp_path: Path) -> None:
    """Paths given by hand replace the agents' own folders."""
    source = SimpleSource()

    assert [Root(tmp_path / "logs", "*.jsonl")] == all_roots([source], {}, tmp_path)
    assert [Root(tmp_path / "x", "*.jsonl")] == all_roots([source], {}, tmp_path, [tmp_path / "x"])
