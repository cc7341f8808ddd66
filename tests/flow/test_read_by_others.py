"""Facts that another process appended first: a prompt's files are captured whoever read its line, and forks
share what becomes of a prompt."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from cli.context import Recording
from cli.policy import policy_of
from cli.reactor import reactor_of
from projections.capture import FRESH_NS, CaptureReactor
from projections.sessions import sessions
from projections.views import Views
from recorder.events import session_stream
from recorder.reading.importing import import_paths
from recorder.sources import all_sources
from tests.flow.agents import Pi, append, now
from tests.flow.conftest import Recorder
from tests.flow.within import Within

WHY = "nobody looked"


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


def states(within: Within, cwd: Path, session: str) -> list[tuple[int, str]]:
    found = within.json("checkpoints", session, "--all-branches", cwd=cwd)
    return [(one["number"], one["state"]) for one in found][::-1]


def test_an_import_beside_a_watcher_costs_no_capture(within: Within, folder: Path) -> None:
    """The import reads the prompt's line first; the watcher answers it while it is fresh, and the import
    leaves that to it."""
    agent = Pi(within.pi_folder, folder)
    with (
        within.recording() as mine,
        reactor_of(mine, answers_others=True) as watching,
        within.recording() as theirs,
        reactor_of(theirs) as importing,
    ):
        agent.give("first")
        import_paths(theirs.log, all_sources(), [agent.log])
        importing.refuse(streams(theirs.views), WHY, spare_fresh=True)
        assert states(within, folder, agent.session) == [(1, "capturing")]
        watching.react(())
        assert states(within, folder, agent.session) == [(1, "complete")]
        agent.done()
        agent.give("second")
        import_paths(theirs.log, all_sources(), [agent.log])
        importing.refuse(streams(theirs.views), WHY)
        watching.react(())
    assert states(within, folder, agent.session) == [(1, "complete"), (2, "lost")]


def test_what_is_not_fresh_any_more_is_refused(within: Within, folder: Path) -> None:
    """A history that is imported is not the watcher's to capture."""
    agent = Pi(within.pi_folder, folder)
    agent.give("first")
    with within.recording() as mine, watcher_later(mine) as watching:
        import_paths(mine.log, all_sources(), [agent.log])
        watching.react(())
        assert states(within, folder, agent.session) == [(1, "capturing")]
        watching.refuse(streams(mine.views), WHY, spare_fresh=True)
    assert states(within, folder, agent.session) == [(1, "lost")]


def watcher_later(recording: Recording) -> AbstractContextManager[CaptureReactor]:
    """A watcher that looks when nothing is fresh any more."""
    reactor = CaptureReactor(
        recording.home,
        recording.log,
        recording.views,
        policy_of,
        Path("/nonexistent"),
        answers_others=True,
        now=lambda: time.time_ns() + FRESH_NS,
    )
    return contextlib.closing(reactor)


def streams(views: Views) -> set[uuid.UUID]:
    views.catch_up()
    return {uuid.UUID(one.stream) for one in sessions(views.connection)}


def test_imports_in_a_loop_beside_a_real_watcher(recorder: Recorder, folder: Path) -> None:
    """Whoever is first at each line, every prompt that was given while the watcher was there is captured."""
    with recorder.watching():
        agent = recorder.pi(folder)
        for number in range(3):
            agent.give(f"prompt {number}")
            recorder.run("import", str(agent.log), cwd=folder)
            time.sleep(0.3)
            agent.done()
        found = recorder.wait_for(folder, agent.session, 3, settled=False)
    assert [one["state"] for one in found] == ["complete"] * 3


def forked(within: Within, folder: Path, parent: Pi) -> Pi:
    """A session of pi that copies all lines of another one."""
    lines = [json.loads(line) for line in parent.log.read_text().splitlines()[1:]]
    time.sleep(0.01)
    fork = Pi(within.pi_folder, folder)
    head = json.loads(fork.log.read_text())
    fork.log.write_text(json.dumps({**head, "timestamp": now(), "parentSession": str(parent.log)}) + "\n")
    append(fork.log, *lines)
    fork.leaf = parent.leaf
    return fork


def test_a_fork_of_a_prompt_that_is_still_being_captured(within: Within, folder: Path) -> None:
    """What becomes of the prompt, captured or lost, is told to the fork and to a fork of the fork."""
    parent = Pi(within.pi_folder, folder)
    with within.recording() as recording:
        parent.give("first")
        import_paths(recording.log, all_sources(), [parent.log])
        child = forked(within, folder, parent)
        import_paths(recording.log, all_sources(), [child.log])
        grandchild = forked(within, folder, child)
        import_paths(recording.log, all_sources(), [grandchild.log])
        family = [parent.session, child.session, grandchild.session]
        assert [states(within, folder, one) for one in family] == [[(1, "capturing")]] * 3
        with reactor_of(recording) as reactor:
            reactor.refuse({session_stream("pi", child.session)}, WHY)
            assert states(within, folder, child.session) == [(1, "capturing")]
            reactor.catch_up(WHY)
        answered = states(within, folder, parent.session)
        assert answered[0][1] in ("complete", "partial")
        assert [states(within, folder, one) for one in family] == [answered] * 3
        parent.done()
        parent.give("second")
        import_paths(recording.log, all_sources(), [parent.log])
        late = forked(within, folder, parent)
        import_paths(recording.log, all_sources(), [late.log])
        with reactor_of(recording) as reactor:
            reactor.refuse(streams(recording.views), WHY)
    assert [states(within, folder, one.session) for one in (parent, late)] == [[*answered, (2, "lost")]] * 2
