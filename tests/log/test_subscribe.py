from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from recorder.log import Subscription, open_log
from tests.log.samples import STREAM, run, runs


@pytest.fixture
def patience() -> Iterator[Callable[[Subscription], None]]:
    """Ends a subscription that hears nothing for half a minute, so that the test fails and does not hang."""
    timers = []

    def limit(news: Subscription) -> None:
        timers.append(threading.Timer(30, news.stop))
        timers[-1].start()

    yield limit
    for timer in timers:
        timer.cancel()


def test_a_subscription_gives_the_old_and_then_the_new(log):
    """In log order, each once, from the position asked for."""
    log.append(runs(1, 3))
    with log.subscribe(after=1) as news:
        assert [next(news).position for _ in range(2)] == [2, 3]
        log.append(runs(4, 5))
        assert [next(news).fact for _ in range(2)] == runs(4, 5)


def test_an_own_append_is_heard_at_once(log):
    """Without waiting for the next look at the database."""
    delays = []
    with log.subscribe(after=0) as news:
        time.sleep(0.1)
        for version in range(1, 12):
            started = time.perf_counter()
            log.append([run(version)])
            next(news)
            delays.append(time.perf_counter() - started)

    assert sorted(delays)[5] < 0.02


def test_another_process_is_heard(log, writer, patience):
    """Its facts arrive while it runs, in log order."""
    with log.subscribe(after=0) as news:
        patience(news)
        process = writer(STREAM, 20, "other")
        heard = [next(news).fact.run for _ in range(20)]

        assert process.wait(timeout=30) == 0
    assert heard == [f"other-{number}" for number in range(1, 21)]


def test_another_connection_is_heard_soon(home, log, patience):
    """What comes from elsewhere is seen at the next look, twenty times a second."""
    delays = []
    with log.subscribe(after=0) as news, open_log(home) as another:
        patience(news)
        for version in range(1, 6):
            time.sleep(0.03)
            another.append([run(version)])
            started = time.perf_counter()
            next(news)
            delays.append(time.perf_counter() - started)

    assert sorted(delays)[2] < 0.2


def test_two_subscriptions_hear_the_same(log):
    """They do not take facts from each other."""
    with log.subscribe(after=0) as one, log.subscribe(after=2) as two:
        log.append(runs(1, 4))

        assert [next(one).position for _ in range(4)] == [1, 2, 3, 4]
        assert [next(two).position for _ in range(2)] == [3, 4]


@pytest.mark.parametrize("end", ["stop", "close"])
def test_a_waiting_reader_is_released(log, end):
    """By `stop`, and by closing the log: its loop just ends."""
    heard = []

    def read(news):
        heard.extend(each.fact for each in news)
        heard.append("the end")

    with log.subscribe(after=0) as news:
        reader = threading.Thread(target=read, args=(news,))
        reader.start()
        log.append([run(1)])
        time.sleep(0.1)
        news.stop() if end == "stop" else log.close()
        reader.join(timeout=5)

    assert heard == [run(1), "the end"]


def test_no_thread_is_left(log):
    """Leaving the `with` ends everything that the subscription started."""
    before = threading.active_count()
    with log.subscribe(after=0):
        assert threading.active_count() == before + 2

    assert threading.active_count() == before


def test_a_subscription_that_nobody_entered_is_empty(log):
    """It starts nothing, and can be stopped."""
    log.append([run(1)])
    news = log.subscribe(after=0)
    news.stop()

    assert list(news) == []
