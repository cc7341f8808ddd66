"""Files that no capture knew before a tool wrote them: what the agent's log proves of them, and what stays
unrecovered. And forks, child agents and killed runs, with whose changes are whose."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.capture.helpers import commit_all, make_repository
from tests.flow.agents import Claude, Pi
from tests.flow.within import APART, Within

Agent = Pi | Claude


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository that ignores `build/`."""
    folder = make_repository(tmp_path / "project")
    (folder / ".gitignore").write_text("build/\n")
    (folder / "build").mkdir()
    (folder / "f.txt").write_text("one\n")
    commit_all(folder)
    return folder


@pytest.fixture(params=["ignored", "outside"])
def unseen(request: pytest.FixtureRequest, project: Path, tmp_path: Path) -> Path:
    """A place that captures do not look at of themselves."""
    (tmp_path / "elsewhere").mkdir()
    return (project / "build" if request.param == "ignored" else tmp_path / "elsewhere") / "new.txt"


def name_of(path: Path, project: Path) -> str:
    return str(path.relative_to(project)) if path.is_relative_to(project) else str(path)


def rewind(within: Within, agent: Agent, cwd: Path, *words: str, check: int = 0) -> Any:
    return within.json("rewind", "1", "--files", "--session", agent.session, *words, cwd=cwd, check=check)


def test_a_file_that_the_log_says_was_made_goes_again(within: Within, project: Path, unseen: Path) -> None:
    """Claude Code says that its tool created it: it is removed, and the undo brings it back."""
    agent = within.agent("claude", project)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write(str(unseen), "new\n"))

    done = rewind(within, agent, project)
    assert (done["status"], done["files"]["delete"]) == ("done", [name_of(unseen, project)])
    assert not unseen.exists()
    within.json("rewind", "--undo", "--files", cwd=project)
    assert unseen.read_text() == "new\n"


@pytest.mark.parametrize("after", ["person", "shell"])
def test_not_where_somebody_came_after(after: str, within: Within, project: Path, unseen: Path) -> None:
    """What stands there is not what the tool wrote: it stays, and is said."""
    agent = within.agent("claude", project)

    def append() -> None:
        unseen.write_text("new\nmore\n")

    with within.watching() as watcher:
        agent.give("write")
        watcher.look(agent)
        time.sleep(APART)
        agent.write(str(unseen), "new\n")
        time.sleep(APART)
        agent.shell("more", append) if after == "shell" else append()
        time.sleep(APART)
        agent.done()
        watcher.look(agent)

    done = rewind(within, agent, project, check=6)
    assert (done["status"], done["files"]["unrecovered"]) == ("partial", [name_of(unseen, project)])
    assert unseen.read_text() == "new\nmore\n"


def test_what_changed_since_it_was_captured_is_a_conflict(
    within: Within, project: Path, unseen: Path
) -> None:
    """A person's later work on it is nobody's to remove."""
    agent = within.agent("claude", project)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write(str(unseen), "new\n"))
    time.sleep(APART)
    unseen.write_text("theirs\n")

    assert rewind(within, agent, project, check=4)["status"] == "refused"
    assert unseen.read_text() == "theirs\n"


@pytest.mark.parametrize(
    ("old", "status", "stands"),
    [("old", "done", "old"), ("old\n", "partial", "new"), ("\ufeffold", "partial", "new")],
)
def test_a_content_that_the_log_has_for_certain_comes_back(
    old: str, status: str, stands: str, within: Within, project: Path, unseen: Path
) -> None:
    """Only where there is no line end and no mark that the agent could have shown otherwise."""
    unseen.write_text(old)
    unseen.chmod(0o640)
    agent = within.agent("claude", project)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: write_over(one, unseen, "new"))

    done = rewind(within, agent, project, check=0 if status == "done" else 6)
    assert (done["status"], unseen.read_text()) == (status, stands)
    assert unseen.stat().st_mode & 0o777 == 0o640
    if status == "done":
        within.json("rewind", "--undo", "--files", cwd=project)
        assert unseen.read_text() == "new"


def write_over(agent: Agent, path: Path, content: str) -> None:
    """Claude Code's writing over a file, which keeps its mode."""
    mode = path.stat().st_mode & 0o7777
    agent.write(str(path), content)
    path.chmod(mode)


def test_pi_proves_nothing(within: Within, project: Path, unseen: Path) -> None:
    """Its results say nothing of what was there: the file stays, and is said to be unrecovered."""
    agent = within.agent("pi", project)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write(str(unseen), "new\n"))

    done = rewind(within, agent, project, check=6)
    assert done["files"]["unrecovered"] == [name_of(unseen, project)]
    assert unseen.read_text() == "new\n"


def test_a_file_that_came_into_sight_in_a_later_run(within: Within, project: Path, unseen: Path) -> None:
    """The lines of the first run came only after the second prompt was captured: the file was made in the
    first one all the same, and stays where only the second is taken back."""
    agent = within.agent("claude", project)
    with within.watching() as watcher:
        watcher.prompt(agent, "hello")
        agent.give("write")
        watcher.look(agent)
        time.sleep(APART)
        agent.write(str(unseen), "new\n")
        time.sleep(APART)
        agent.done()
        agent.give("go on")
        watcher.look(agent)
        time.sleep(APART)
        agent.write("f.txt", "two\n")
        agent.done()
        watcher.look(agent)

    done = within.json("rewind", "3", "--files", cwd=project)
    assert (done["files"]["write"], done["files"]["delete"]) == (["f.txt"], [])
    assert unseen.read_text() == "new\n"
    done = within.json("rewind", "2", "--files", cwd=project)
    assert done["files"]["delete"] == [name_of(unseen, project)]


@pytest.mark.parametrize("kinds", [("claude", "claude"), ("claude", "pi"), ("pi", "claude")])
def test_a_file_that_two_sessions_named(
    kinds: tuple[str, str], within: Within, project: Path, unseen: Path
) -> None:
    """Of one tree, one after the other within two captures: nobody's to take back alone."""
    a, b = (within.agent(kind, project) for kind in kinds)
    with within.watching() as watcher:
        for agent in (a, b):
            watcher.prompt(agent, "hello")
        for agent in (a, b):
            agent.give("write")
            watcher.look(agent)
        for agent, text in ((a, "a\n"), (b, "b\n")):
            time.sleep(APART)
            agent.write(str(unseen), text)
        time.sleep(APART)
        for agent in (a, b):
            agent.done()
            watcher.look(agent)

    for agent in (a, b):
        answer = within.run(
            "rewind", "2", "--files", "--session", agent.session, "--json", cwd=project, check=None
        )
        assert answer.code in (4, 6), answer
        assert unseen.read_text() == "b\n"


def test_a_killed_run_s_file(within: Within, project: Path, unseen: Path) -> None:
    """The agent died after its tool: what it had logged by then proves the file's making, without any end of
    the run."""
    agent = within.agent("claude", project)
    with within.watching() as watcher:
        watcher.prompt(agent, "hello")
        agent.give("write")
        watcher.look(agent)
        time.sleep(APART)
        agent.write(str(unseen), "new\n")
        watcher.look(agent)

    done = within.json("rewind", "2", "--files", "--while-running", cwd=project)
    assert done["files"]["delete"] == [name_of(unseen, project)]
    assert not unseen.exists()


# ---- forks, children, runs without an end


def forked(parent: Pi, within: Within, folder: Path) -> Pi:
    """What pi's `--fork` makes: the parent's entries in a file of its own."""
    child = Pi(within.pi_folder, folder)
    header, *entries = (json.loads(line) for line in parent.log.read_text().splitlines())
    own = json.loads(child.log.read_text())
    own["parentSession"] = str(parent.log)
    lines = [own, *entries]
    child.log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    child.leaf = parent.leaf
    assert header["type"] == "session"
    return child


def test_a_fork_takes_back_what_it_inherited_and_not_what_its_parent_did_since(
    within: Within, project: Path
) -> None:
    """In one tree: the run before the fork is of both; each one's later files are its own."""
    parent = Pi(within.pi_folder, project)
    with within.watching() as watcher:
        watcher.prompt(parent, "before", lambda one: one.write("old.txt", "1\n"))
        time.sleep(APART)
        child = forked(parent, within, project)
        watcher.prompt(child, "child", lambda one: one.write("child.txt", "1\n"))
        time.sleep(APART)
        watcher.prompt(parent, "parent", lambda one: one.write("parent.txt", "1\n"))
        time.sleep(APART)

    within.json("rewind", "1", "--files", "--session", parent.session, cwd=project)
    assert {path.name for path in project.glob("*.txt")} == {"f.txt", "child.txt"}
    within.json("rewind", "--undo", "--files", cwd=project)
    done = within.json("rewind", "1", "--files", "--session", child.session, cwd=project, check=None)
    assert {path.name for path in project.glob("*.txt")} == {"f.txt", "parent.txt"}, done


def test_a_run_that_went_on_after_a_fork_is_its_parent_s(within: Within, project: Path) -> None:
    """The fork's conversation has its prompt, but what it wrote since is not in it."""
    parent = Pi(within.pi_folder, project)
    with within.watching() as watcher:
        watcher.prompt(parent, "hello")
        parent.give("long")
        watcher.look(parent)
        time.sleep(APART)
        child = forked(parent, within, project)
        watcher.prompt(child, "child", lambda one: one.write("child.txt", "1\n"))
        time.sleep(APART)
        parent.write("parent.txt", "1\n")
        parent.done()
        watcher.look(parent)

    number = within.json("checkpoints", child.session, cwd=project)[0]["number"]
    done = within.json("rewind", str(number), "--files", "--session", child.session, cwd=project, check=None)
    assert {path.name for path in project.glob("*.txt")} == {"f.txt", "parent.txt"}, done


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_a_child_agent_is_its_parent_s(kind: str, within: Within, project: Path) -> None:
    """It has no session of its own: what changes while the parent waits for it is the parent's, and another
    session's is not."""
    agent, other = within.agent(kind, project), within.agent("pi", project)
    tool = "Agent" if kind == "claude" else "subagent"
    arguments: dict[str, object] = {"prompt": "work", "description": "work", "run_in_background": False}
    with within.watching() as watcher:
        for one in (agent, other):
            watcher.prompt(one, "hello")
        time.sleep(APART)
        agent.give("delegate")
        watcher.look(agent)
        time.sleep(APART)
        agent.use(tool, arguments, lambda: (project / "child.txt").write_text("1\n"))
        time.sleep(APART)
        agent.done()
        watcher.look(agent)
        time.sleep(APART)
        watcher.prompt(other, "mine", lambda one: one.write("other.txt", "1\n"))

    within.json("rewind", "2", "--files", "--session", agent.session, cwd=project)
    assert {path.name for path in project.glob("*.txt")} == {"f.txt", "other.txt"}


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_what_changed_later_than_a_killed_run_s_end_is_not_the_run_s(
    kind: str, within: Within, project: Path
) -> None:
    """A run without an end ends with its last sign of life; its state after is the first capture begun after
    that, and what a person did in between stays."""
    agent = within.agent(kind, project)
    with within.watching() as watcher:
        agent.give("work")
        watcher.look(agent)
        time.sleep(APART)
        agent.shell("make", lambda: (project / "made.txt").write_text("1\n"))
        watcher.look(agent)
        time.sleep(APART)
        (project / "mine.txt").write_text("a person's\n")
        time.sleep(APART)
        watcher.prompt(agent, "again")

    assert within.json("rewind", "1", "--files", cwd=project)["files"]["delete"] == ["made.txt"]
    assert (project / "mine.txt").exists() and not (project / "made.txt").exists()


def test_what_was_written_unseen_is_shown(within: Within, folder: Path, tmp_path: Path) -> None:
    """Files that a run wrote by name and that no capture knew before, outside and ignored ones, are named by
    `show` as by the plan: it never says that nothing was changed."""
    outside = tmp_path / "outside.txt"
    outside.write_text("there\nbefore\n")
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda one: one.write(str(outside), "after\n"))
    shown = within.json("show", "1", cwd=folder)
    assert [one["path"] for one in shown["unknown"]] == [str(outside)]
    assert "written in the run" in shown["unknown"][0]["why"]
    assert "changed no file" not in within.run("show", "1", cwd=folder).out.decode()
    planned = within.json("rewind", "1", "--dry-run", cwd=folder)
    assert planned["files"]["unrecovered"] == [str(outside)]
