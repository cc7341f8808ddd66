"""Logs that tell of a prompt only when its run has begun, as releases of pi before 0.99 do at a session's
first prompt: the state from before is said to be known only where it is."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from tests.flow.agents import Pi
from tests.flow.conftest import Recorder, snapshot

THINKING = 0.3


class LatePi(Pi):
    """Keeps its lines to itself until `appear`."""

    def __init__(self, recorder: Recorder, folder: Path) -> None:
        super().__init__(recorder.base / "not yet", folder)
        self._place = recorder.pi_folder / self.log.relative_to(recorder.base / "not yet")

    def appear(self, recorder: Recorder, *, in_two: bool) -> None:
        """The lines come at once, or the first is seen before the others, as may happen."""
        whole, self.log = self.log.read_bytes(), self._place
        self.log.parent.mkdir(parents=True, exist_ok=True)
        header, _, rest = whole.partition(b"\n")
        staged = self.log.with_name("staged")
        staged.write_bytes(header + b"\n" if in_two else whole)
        shutil.move(staged, self.log)
        if in_two:
            wait_for_start(recorder, self)
            with self.log.open("ab") as log:
                log.write(rest)


def wait_for_start(recorder: Recorder, agent: Pi) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        answer = recorder.run(
            "log", agent.session, "--type", "Captured", "--json", cwd=agent.folder, check=None
        )
        if answer.code == 0 and answer.json:
            return
    raise AssertionError("no first state")


def late_run(recorder: Recorder, folder: Path, *, in_two: bool) -> LatePi:
    """A first prompt whose run made, changed and deleted a file before its log came; then one more."""
    agent = LatePi(recorder, folder)
    agent.give("late")
    time.sleep(THINKING)
    call = agent.call("bash", {"command": "…"})
    (folder / "new.txt").write_text("new\n")
    (folder / "notes.md").unlink()
    agent.appear(recorder, in_two=in_two)
    recorder.wait_for(folder, agent.session, 1, settled=False)
    (folder / "src" / "app.py").write_text("print('two')\n")
    agent.returned(call, "bash")
    agent.done()
    recorder.wait_for(folder, agent.session, 1)
    return agent


def test_what_came_before_a_first_capture_is_not_known(recorder: Recorder, folder: Path) -> None:
    """Also where a capture that came too late itself lies before it; what is known comes back."""
    for name, in_two in (("at once", False), ("in two", True)):
        project = folder.with_name(name)
        shutil.copytree(folder, project)
        with recorder.watching():
            agent = late_run(recorder, project, in_two=in_two)
        shown = recorder.json("show", "1", cwd=project)
        assert (shown["state"], [one["path"] for one in shown["unknown"]]) == ("partial", ["new.txt"])

        done = recorder.json("rewind", "1", "--files", "--session", agent.session, cwd=project)
        assert done["files"]["write"] == ["src/app.py"] and done["files"]["delete"] == []
        assert [one["code"] for one in done["warnings"]] == ["late_capture"]
        assert (project / "src" / "app.py").read_text() == "print('one')\n"
        assert (project / "new.txt").exists()
        again = recorder.json("rewind", "--undo", cwd=project)
        assert again["warnings"] == []


def test_a_late_checkpoint_where_nothing_is_changed_yet_may_miss_what_is_gone(
    recorder: Recorder, folder: Path
) -> None:
    """No file is unknown, and yet it is not complete."""
    agent = LatePi(recorder, folder)
    agent.give("late")
    time.sleep(THINKING)
    agent.call("bash", {"command": "rm notes.md"})
    with recorder.watching():
        agent.appear(recorder, in_two=True)
        (found,) = recorder.wait_for(folder, agent.session, 1, settled=False)

    assert found["state"] == "partial" and "deleted" in found["why_not"]


def test_a_late_checkpoint_is_complete_where_the_state_from_before_is_known(
    recorder: Recorder, folder: Path
) -> None:
    """From an earlier session in the same folder, whatever looked at it since and saw nothing new."""
    with recorder.watching():
        earlier = recorder.pi(folder)
        earlier.give("look")
        time.sleep(THINKING)
        earlier.done()
        recorder.wait_for(folder, earlier.session, 1)
        before = snapshot(folder)
        agent = LatePi(recorder, folder)
        agent.give("late")
        time.sleep(THINKING)
        call = agent.call("bash", {"command": "…"})
        agent.appear(recorder, in_two=True)
        (found,) = recorder.wait_for(folder, agent.session, 1, settled=False)
        (folder / "notes.md").unlink()
        agent.returned(call, "bash")
        agent.done()
        recorder.wait_for(folder, agent.session, 1)

    assert (found["state"], found["why_not"]) == ("complete", None)
    recorder.json("rewind", "1", "--files", "--session", agent.session, cwd=folder)
    assert snapshot(folder) == before
