"""What a live agent means for going back: the source says what is seen of one beside a simulated session."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cli.context import open_recording
from projections import conversation
from projections.running import under_way
from projections.sessions import sessions
from recorder.conversation import Way, find_way
from recorder.home import open_home
from recorder.sources.base import Closed
from recorder.sources.pi import PiSource
from tests.flow.agents import Pi
from tests.flow.conftest import Recorder

UNKNOWN = Closed("unknown", "pi runs and does not tell which session it has open")
OPEN = Closed("open", "it has it open")
IDLE = Closed("open", "it has it open", busy=False)
BUSY = Closed("open", "it has it open", busy=True)
CLOSED = Closed("closed", "none runs")


class Beside(PiSource):
    """Sees what it is told to see."""

    def __init__(self, seen: Closed) -> None:
        self._seen = seen
        self.has_registry = seen.busy is not None

    def closed(self, log: Path, session: str) -> Closed:
        return self._seen


def running(recorder: Recorder, agent: Pi, seen: Closed) -> str | None:
    with open_recording(open_home(recorder.home)) as recording:
        connection = recording.views.connection
        (session,) = sessions(connection)
        return under_way(connection, session.stream, agent.session, session.log, Beside(seen), time.time_ns())


@pytest.mark.parametrize(
    ("seen", "alive"), [(UNKNOWN, True), (OPEN, True), (BUSY, True), (IDLE, False), (CLOSED, False)]
)
def test_a_prompt_that_the_model_thinks_about_is_under_way(
    recorder: Recorder, folder: Path, seen: Closed, alive: bool
) -> None:
    """Where an agent may be alive that does not say that it is idle, and for ten minutes."""
    agent = recorder.pi(folder)
    agent.give("think")
    recorder.run("watch", "--once", cwd=folder)

    assert (running(recorder, agent, seen) is not None) is alive
    long_ago = time.time() - 601
    os.utime(agent.log, (long_ago, long_ago))
    assert (running(recorder, agent, seen) is not None) is (seen is BUSY)


@pytest.mark.parametrize("seen", [UNKNOWN, OPEN, IDLE])
def test_a_run_that_ended_is_not_under_way(recorder: Recorder, folder: Path, seen: Closed) -> None:
    """An agent that waits for the next prompt stands in nobody's way."""
    agent = recorder.pi(folder)
    agent.give("say")
    agent.done()
    recorder.run("watch", "--once", cwd=folder)

    assert running(recorder, agent, seen) is None


@pytest.mark.parametrize("seen", [UNKNOWN, OPEN])
def test_a_conversation_that_stays_has_no_command_to_go_on(
    recorder: Recorder, folder: Path, seen: Closed
) -> None:
    """The agent's command for the session would go on from its end, not from there."""
    agent = recorder.pi(folder)
    prompt = agent.give("say")
    agent.done()

    def way(seen: Closed) -> Way:
        return find_way(Beside(seen), agent.log, agent.session, keep=None, prompt=prompt, cwd=None)

    assert way(seen) == Way("unavailable", why=seen.why)
    assert way(CLOSED).resume is not None


def test_a_conversation_that_was_moved_stands_there(recorder: Recorder, folder: Path) -> None:
    """The agent's entry that moves it, and a label, say nothing: a second move would change nothing."""
    agent = recorder.pi(folder)
    agent.give("one")
    agent.done()
    before = agent.leaf
    second = agent.give("two")
    agent.done()

    def stands_at(entry: str | None) -> bool:
        recorder.run("watch", "--once", cwd=folder)
        with open_recording(open_home(recorder.home)) as recording:
            (session,) = sessions(recording.views.connection)
            return conversation.stands_at(recording.views.connection, session.stream, entry)

    assert stands_at(agent.leaf) and not stands_at(before)
    move = Beside(CLOSED).move(agent.log, agent.session, before, second, None)
    with agent.log.open("ab") as log:
        log.write(move.line or b"")
    assert stands_at(before) and not stands_at(second) and not stands_at(None)
