"""Every step of a run has its states, where there was time to capture them: looked at, gone back to, kept."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from projections import capture
from projections.steps import _waiting as waiting
from projections.steps import just_returned
from projections.views import rebuild
from recorder import events
from recorder.events import Captured
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import PATIENCE, Recorder, snapshot
from tests.flow.test_views import SESSION, folded
from tests.flow.within import APART, Within, rows, whole

Agent = Pi | Claude
AGENTS = pytest.mark.parametrize("kind", ["pi", "claude"])


EVER = 10**12
"""ns that no test takes, however busy the machine is."""


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    """With time for every step, unless a test says otherwise."""
    monkeypatch.setattr(capture, "QUICK_NS", EVER)
    monkeypatch.setattr(capture, "STEP_FRESH_NS", EVER)
    return Within(tmp_path / "recorder", monkeypatch)


def writes(name: str, content: str) -> Callable[[Agent], None]:
    return lambda agent: agent.write(name, content)


def shells(act: Callable[[Path], object]) -> Callable[[Agent], None]:
    return lambda agent: agent.shell("…", lambda: act(agent.folder))


def reads(agent: Agent) -> None:
    tool = "read" if agent.agent == "pi" else "Read"
    agent.use(tool, {"path": "notes.md", "file_path": str(agent.folder / "notes.md")}, lambda: None)


def run_of_three(within: Within, kind: str, folder: Path) -> Agent:
    """A prompt that only reads, then one of three steps and an answer: write, shell, read."""
    agent = within.agent(kind, folder)
    with within.watching() as watcher:
        watcher.steps = True
        watcher.prompt(agent, "look around", reads)
        time.sleep(APART)
        watcher.prompt(
            agent,
            "change things",
            writes("a.txt", "1\n"),
            shells(lambda root: ((root / "a.txt").write_text("2\n"), (root / "b.txt").write_text("b\n"))),
            reads,
        )
    return agent


def steps(within: Within, cwd: Path, number: int) -> list[dict[str, Any]]:
    listed = within.json("checkpoints", "--steps", cwd=cwd)
    found: list[dict[str, Any]] = next(one for one in listed if one["number"] == number)["steps"]
    assert within.json("show", str(number), cwd=cwd)["steps"] == found
    return found


def files(step: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["path"]: (one["change"], one["by"]) for one in step["files"]}


@AGENTS
def test_each_step_has_the_states_around_it(kind: str, within: Within, folder: Path) -> None:
    """Before and after of every step are there and hold what stood then, also of one that only reads and of
    the answer at the end; each step has its own files."""
    run_of_three(within, kind, folder)
    found = steps(within, folder, 2)
    assert [one["name"] for one in found] == ["2.1", "2.2", "2.3", "2.4"]
    assert [len(one["calls"]) for one in found] == [1, 1, 1, 0]
    assert [files(one) for one in found] == [
        {"a.txt": ("added", "session")},
        {"a.txt": ("modified", "session"), "b.txt": ("added", "session")},
        {},
        {},
    ]
    stood = {"2.1": None, "2.1+": "1\n", "2.2": "1\n", "2.2+": "2\n", "2.3": "2\n", "2.4": "2\n", "2+": "2\n"}
    for name, content in stood.items():
        answer = within.run("cat", name, "a.txt", cwd=folder, check=3 if content is None else 0)
        assert answer.out.decode() == (content or ""), name
    assert [one["path"] for one in within.json("diff", "2.1", "2.2", cwd=folder)] == ["a.txt"]
    assert within.json("diff", "2.2+", "2+", cwd=folder) == []
    assert [one["path"] for one in within.json("diff", "2.2", cwd=folder)] == ["a.txt", "b.txt"]
    shown = within.json("show", "2.2", cwd=folder)
    assert (shown["name"], shown["step"], shown["checkpoint"]["number"]) == (
        "before step 2 of prompt 2",
        found[1],
        2,
    )


@AGENTS
@pytest.mark.parametrize("scope", ["session", "tree"])
def test_files_go_back_to_a_step(kind: str, scope: str, within: Within, folder: Path) -> None:
    """Only files go to the state before a step or after it, with a word on the conversation, and back; the
    session's position stays where it was."""
    agent = run_of_three(within, kind, folder)
    end, log = snapshot(folder), agent.log.read_bytes()
    for name, content in (("2.2", "1\n"), ("2.1+", "1\n")):
        done = within.json("rewind", name, "--scope", scope, cwd=folder)
        assert (done["status"], done["conversation"]["status"]) == ("done", "unavailable"), done
        assert "only files" in done["conversation"]["why"]
        assert (folder / "a.txt").read_text() == content and not (folder / "b.txt").exists()
        assert within.json("undo", "--files", "--dry-run", cwd=folder)["checkpoint"]["number"] == 2
        back = within.json("rewind", "--undo", cwd=folder)
        assert (back["status"], back["conversation"]["status"]) == ("done", "noop")
        assert snapshot(folder) == end
    refused = within.run("rewind", "2.2", "--both", "--json", cwd=folder, check=4).json
    assert refused["error"]["code"] == "conversation_unavailable"
    assert within.json("rewind", "2+", "--scope", scope, cwd=folder)["status"] in ("noop", "done")
    assert snapshot(folder) == end
    assert agent.log.read_bytes() == log


@AGENTS
def test_a_step_is_captured_only_where_it_may_have_written(kind: str, within: Within, folder: Path) -> None:
    """A look costs nothing; a step that wrote costs one capture, and nothing in the store where it changed
    nothing."""
    agent = within.agent(kind, folder)
    with within.watching() as watcher:
        watcher.steps = True
        watcher.prompt(agent, "go", reads, shells(lambda root: None), writes("a.txt", "1\n"), reads)
        made = [
            (one.fact.moment, len(one.fact.delta))
            for one in whole(watcher.recording)
            if isinstance(one.fact, Captured)
        ]
        commits = [one.fact.commit for one in whole(watcher.recording) if isinstance(one.fact, Captured)]
    assert made[-4:] == [("prompt", 0), ("step", 0), ("step", 1), ("settled", 0)]
    assert commits[-4] == commits[-3] and commits[-2] == commits[-1]


def stepped(within: Within, agent: Agent, *acts: Callable[[Agent], None], wait: float = 0.0) -> list[str]:
    """The moments of the captures of one run whose steps are captured `wait` seconds after they are read."""
    with within.watching() as watcher:
        agent.give("go")
        watcher.look(agent)
        for act in acts:
            time.sleep(APART)
            act(agent)
            watcher.look(agent)
            time.sleep(wait)
            while watcher.reactor.capture_step() is not None:
                pass
        agent.done()
        watcher.look(agent)
        return [one.fact.moment for one in whole(watcher.recording) if isinstance(one.fact, Captured)]


@AGENTS
def test_where_there_is_no_time_a_step_has_no_state(
    kind: str, within: Within, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A work tree that was captured slowly is left alone, unless the step itself took longer by far; what was
    not captured is told as such, and cannot be named."""
    monkeypatch.setattr(capture, "QUICK_NS", 0)
    monkeypatch.setattr(capture, "STEP_SHARE", 10**6)
    agent = within.agent(kind, folder)
    assert "step" not in stepped(within, agent, writes("a.txt", "1\n"), writes("b.txt", "2\n"))
    first, second, answer = steps(within, folder, 1)
    assert (first["after"], second["before"], first["files"]) == (None, None, None)
    assert first["before"] and second["after"] and answer["before"]
    for words in (("cat", "1.2", "a.txt"), ("rewind", "1.2"), ("show", "1.1+")):
        assert "no files were captured" in within.run(*words, cwd=folder, check=3).err
    monkeypatch.setattr(capture, "STEP_SHARE", 0)
    assert stepped(within, agent, shells(lambda root: time.sleep(0.01))).count("step") == 1


@AGENTS
def test_a_step_that_was_read_late_is_not_captured(
    kind: str, within: Within, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model may be further on by then."""
    monkeypatch.setattr(capture, "STEP_FRESH_NS", 200_000_000)
    agent = within.agent(kind, folder)
    assert "step" not in stepped(within, agent, writes("a.txt", "1\n"), wait=0.3)
    monkeypatch.setattr(capture, "STEP_FRESH_NS", EVER)
    assert "step" in stepped(within, agent, writes("a.txt", "2\n"), wait=0.3)


def test_a_step_waits_for_no_lock_and_for_all_its_tools(within: Within, folder: Path) -> None:
    """While another process has the work tree, or a tool of the step still runs, nothing is captured; the
    next step is."""
    agent = Pi(within.pi_folder, folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first")
        agent.give("go")
        watcher.look(agent)
        one, other = agent.call("bash", {"command": "…"}), agent.call("bash", {"command": "…"})
        del other
        agent.returned(one, "bash")
        watcher.look(agent)
        assert watcher.reactor.capture_step() is None
    with within.recording() as recording:
        tree = next(one.fact for one in whole(recording) if isinstance(one.fact, Captured)).originator_id
        lock = f"tree-{tree.hex}"
    with within.watching() as watcher:
        agent.give("again")
        watcher.look(agent)
        agent.write("a.txt", "1\n")
        with within_lock(within, lock):
            watcher.look(agent)
            began = time.monotonic()
            assert watcher.reactor.capture_step() is None
            assert time.monotonic() - began < 5
        agent.write("a.txt", "2\n")
        watcher.look(agent)
        assert watcher.reactor.capture_step() is not None


def within_lock(within: Within, lock: str) -> Any:
    from recorder.home import open_home

    return open_home(within.home).lock(lock)


@AGENTS
def test_the_captures_of_steps_live_as_long_as_the_checkpoint_of_their_run(
    kind: str, within: Within, folder: Path
) -> None:
    """Of a pinned checkpoint the steps stay, those of a retired one go; what is kept can be gone back to."""
    agent = within.agent(kind, folder)
    with within.watching() as watcher:
        watcher.steps = True
        for number in (1, 2, 3):
            watcher.prompt(agent, "go", writes("a.txt", f"{number}\n"), writes("b.txt", f"{number}\n"))
            time.sleep(APART)
    within.run("pin", "1", cwd=folder)
    pruned = prune(within, checkpoints=1)
    assert [(one.candidate.number, one.retire) for one in pruned.verdicts] == [
        (1, False),
        (2, True),
        (3, False),
    ]
    assert within.run("cat", "1.2", "a.txt", cwd=folder).out == b"1\n"
    assert within.run("cat", "1.2", "b.txt", cwd=folder, check=3).err
    assert within.run("cat", "3.2", "a.txt", cwd=folder).out == b"3\n"
    assert "retired" in within.run("cat", "2.2", "a.txt", cwd=folder, check=3).err
    done = within.json("rewind", "1.2", "--files", "--scope", "tree", cwd=folder)
    assert done["status"] == "done"
    assert (folder / "a.txt").read_text() == "1\n" and not (folder / "b.txt").exists()


def prune(within: Within, *, checkpoints: int) -> Any:
    from cli.policy import policy_of
    from projections.prune import prune as let_go
    from recorder.retention import Limits

    with within.recording() as recording:
        later = time.time_ns() + 31 * 86_400 * 10**9
        return let_go(
            recording.home, recording.log, recording.views, Limits(90, checkpoints), later, policy_of
        )


@AGENTS
def test_a_persons_edit_between_two_calls_is_kept(kind: str, within: Within, folder: Path) -> None:
    """One run wrote a file twice and a person in between: with a capture there each has their own change, and
    taking the run back leaves the person's."""
    agent = within.agent(kind, folder)
    lines = [f"line {number}\n" for number in range(9)]
    (folder / "a.txt").write_text("".join(lines))
    with within.watching() as watcher:
        watcher.steps = True
        agent.give("go")
        watcher.look(agent)
        time.sleep(APART)
        agent.write("a.txt", "".join(["agent\n", *lines[1:]]))
        watcher.look(agent)
        time.sleep(APART)
        (folder / "a.txt").write_text("".join(["agent\n", *lines[1:8], "person\n"]))
        time.sleep(APART)
        agent.shell("…", lambda: (folder / "b.txt").write_text("b\n"))
        watcher.look(agent)
        agent.done()
        watcher.look(agent)
    done = within.json("rewind", "1", "--files", cwd=folder)
    assert (done["status"], done["files"]["delete"]) == ("done", ["b.txt"])
    assert (folder / "a.txt").read_text() == "".join([*lines[:8], "person\n"])


@pytest.mark.parametrize("seed", range(6))
def test_captures_at_any_moment_do_not_change_whose_a_change_is(
    seed: int, within: Within, folder: Path
) -> None:
    """Another session's captures fall between a tool's write and its line, between two writes of one call,
    beside a tool in the background: what agent and person changed is told apart as it is without them."""
    chance = random.Random(seed)
    agent, other = within.agent(chance.choice(["pi", "claude"]), folder), within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.steps = True

        def captured() -> None:
            if chance.random() < 0.5:
                other.give("look")
                watcher.look(other)
                other.done()
                watcher.look(other)

        def act(name: str, number: int) -> None:
            for half in ("one", "two"):
                (folder / name).write_text(f"{half} {number}\n")
                captured()

        agent.give("go")
        watcher.look(agent)
        for number in range(4):
            time.sleep(APART)
            if chance.random() < 0.5:
                agent.write(f"named-{number}", f"{number}\n")
            else:
                agent.shell("…", lambda number=number: act(f"shell-{number}", number))
            captured()
            watcher.look(agent)
            captured()
            time.sleep(APART)
            (folder / f"person-{number}").write_text(f"{number}\n")
        time.sleep(APART)
        agent.done()
        watcher.look(agent)
        with within.recording() as recording:
            live = rows(recording.views)
            rebuild(recording.views)
            assert rows(recording.views) == live
    shown = within.json("show", "1", "--session", agent.session, cwd=folder)["files"]
    whose = {one["path"]: one["by"] for one in shown}
    assert whose == {path: "other" if path.startswith("person") else "session" for path in whose}
    assert sum(path.startswith(("named", "shell")) for path in whose) == 4
    done = within.json("rewind", "1", "--session", agent.session, "--files", cwd=folder)
    assert done["status"] == "done"
    left = {path.name for path in folder.iterdir() if "-" in path.name}
    assert left == {f"person-{number}" for number in range(4)}


def test_a_watcher_captures_steps_by_itself(recorder: Recorder, folder: Path) -> None:
    """The real command, while the model thinks; a busy machine may leave some steps without, and what is told
    of the others is what stood there."""
    with recorder.watching():
        agent = recorder.pi(folder)
        agent.give("go")
        recorder.wait_for(folder, agent.session, 1, settled=False)
        end, number = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end and moments(recorder, folder).count("step") < 2:
            number += 1
            agent.write("a.txt", f"{number}\n")
            time.sleep(0.8)
        agent.done()
        recorder.wait_for(folder, agent.session, 1)
    *found, answer = recorder.json("show", "1", cwd=folder)["steps"]
    assert len(found) == number and answer["before"] == found[-1]["after"]
    known = [one["name"] for one in found if one["after"]]
    assert len(known) >= 2
    for name in known:
        written = f"{name.partition('.')[2]}\n".encode()
        assert recorder.run("cat", f"{name}+", "a.txt", cwd=folder).out == written


def moments(recorder: Recorder, folder: Path) -> list[str]:
    return [one["data"]["moment"] for one in recorder.json("log", "--type", "Captured", cwd=folder)]


def test_what_runs_in_the_background_does_not_hold_a_step_open() -> None:
    """A child that goes on when the next step has begun takes no state from the step that started it; one
    call that has not returned before the next step does."""
    for waits in (False, True):
        calls = [called(3, "shell", at=10), *([called(4, "other", at=11)] if waits else [])]
        with folded(
            events.StepStarted(**observed(1, 9), run="r", step="one"),
            *calls,
            returned(5, "shell", at=20),
            events.StepStarted(**observed(6, 30), run="r", step="two"),
            called(7, "child", at=40),
            returned(8, "child", at=50),
        ) as views:
            [row, _] = views.connection.execute("SELECT * FROM steps ORDER BY ordinal").fetchall()
            assert (row["writes_at"], row["over_at"]) == (10, 20)
            assert just_returned(views.connection, SESSION.hex) is None
            assert ("one" in waiting(views.connection, SESSION.hex, "r")) == waits
    with folded(
        events.StepStarted(**observed(1, 9), run="r", step="one"),
        called(2, "shell", at=10),
        returned(3, "shell", at=20),
        events.StepStarted(**observed(4, 30), run="r", step="two"),
        called(5, "child", at=40),
    ) as views:
        assert "one" not in waiting(views.connection, SESSION.hex, "r")


def observed(version: int, at: int) -> dict[str, Any]:
    return {"originator_id": SESSION, "originator_version": version, "at": at, "time": ""}


def called(version: int, call: str, at: int) -> events.ToolCalled:
    return events.ToolCalled(
        **observed(version, at), run="r", step="one", call=call, tool="bash", writes="any", files=(),
        background=False,
    )  # fmt: skip


def returned(version: int, call: str, at: int) -> events.ToolReturned:
    return events.ToolReturned(**observed(version, at), run="r", call=call, failed=False, files=())
