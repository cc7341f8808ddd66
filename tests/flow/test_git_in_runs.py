"""What the agent's own shell does with git in its run is by git: kept by a rewind, which takes back the rest,
whether each step was captured or only the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from projections import capture
from tests.capture.helpers import commit_all, make_repository, run_git, write
from tests.flow.agents import Claude, Pi
from tests.flow.within import APART, Watcher, Within

Act = Callable[[Pi | Claude], None]


def git(*words: str) -> Act:
    return lambda agent: agent.shell("git …", lambda: run_git(agent.folder, *words))


def commit(agent: Pi | Claude) -> None:
    agent.shell("git …", lambda: commit_all(agent.folder))


def wrote(name: str, content: str) -> Act:
    return lambda agent: agent.write(name, content)


class Session:
    """An agent in a repository whose branch `other` has an `f` and a folder of its own, and its watcher."""

    def __init__(self, within: Within, kind: str, folder: Path, watcher: Watcher) -> None:
        self.within, self.folder, self.watcher = within, folder, watcher
        self.agent = within.agent(kind, folder)

    def run(self, *acts: Act) -> None:
        time.sleep(APART)
        self.watcher.prompt(self.agent, "go", *acts)

    def rewind(self, *words: str) -> dict[str, Any]:
        done: dict[str, Any] = self.within.json("rewind", *words, "--files", cwd=self.folder)
        return done

    def read(self, name: str) -> str | None:
        path = self.folder / name
        return path.read_text() if path.exists() else None

    def head(self) -> str:
        return run_git(self.folder, "rev-parse", "--abbrev-ref", "HEAD").decode().strip()


@pytest.fixture(params=[("pi", True), ("pi", False), ("claude", True), ("claude", False)], ids=str)
def session(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Session]:
    kind, steps = request.param
    root = make_repository(tmp_path / "project")
    write(root / "f", "1\n")
    write(root / "g", "1\n")
    commit_all(root)
    run_git(root, "checkout", "-q", "-b", "other")
    write(root / "f", "other\n")
    write(root / "lib/h", "h\n")
    commit_all(root)
    run_git(root, "checkout", "-q", "main")
    for limit in ("QUICK_NS", "STEP_FRESH_NS"):
        monkeypatch.setattr(capture, limit, 10**12)
    within = Within(tmp_path / "recorder", monkeypatch)
    with within.watching() as watcher:
        watcher.steps = steps
        yield Session(within, kind, root, watcher)


def test_a_branch_and_back(session: Session) -> None:
    """An edit that lies in a commit on another branch is not on the disk any more: there is nothing to take
    back but what the run left."""
    session.run(
        git("checkout", "-q", "-b", "topic"),
        wrote("f", "topic\n"),
        commit,
        git("checkout", "-q", "main"),
        wrote("g", "edited\n"),
    )
    done = session.rewind("1")
    assert (done["status"], done["files"]["conflict"]) == ("done", [])
    assert (session.read("f"), session.read("g"), session.head()) == ("1\n", "1\n", "main")
    session.rewind("--undo")
    assert session.read("g") == "edited\n"


def test_edited_committed_and_on_another_branch(session: Session) -> None:
    """What the other branch has stays, also where the run had edited the path before; the rest goes back."""
    session.run(
        wrote("f", "edited\n"),
        wrote("g", "edited\n"),
        commit,
        git("checkout", "-q", "other"),
        wrote("new", "new\n"),
    )
    assert (session.read("f"), session.read("g")) == ("other\n", "1\n")
    done = session.rewind("1")
    assert (done["status"], done["files"]["conflict"]) == ("done", [])
    assert done["files"]["delete"] == ["new"]
    assert (session.read("f"), session.read("lib/h"), session.read("new")) == ("other\n", "h\n", None)
    assert [one["code"] for one in done["warnings"]] == ["head_moved"]
    said = session.within.run("rewind", "--undo", "--files", cwd=session.folder).out.decode()
    assert session.read("new") == "new\n", said


def test_a_folder_that_git_took_does_not_come_back_empty(session: Session) -> None:
    """The branch that has it was left in the run."""
    run_git(session.folder, "checkout", "-q", "other")
    session.run(git("checkout", "-q", "main"), wrote("g", "edited\n"))
    assert session.rewind("1")["files"]["write"] == ["g"]
    assert not (session.folder / "lib").exists()


def test_set_aside_and_brought_back(session: Session) -> None:
    """An edit of the session that was seen is taken back wherever it comes from: a stash that held it is no
    reason to keep it, nor to bring it back. One that only the stash ever showed is git's."""
    session.run(wrote("f", "edited\n"), git("stash", "push", "-q"))
    assert session.rewind("1", "--dry-run")["files"]["write"] == []
    assert session.read("f") == "1\n"
    session.run(git("stash", "pop", "-q"))
    assert session.read("f") == "edited\n"
    done = session.rewind("1")
    seen = session.watcher.steps
    assert (done["status"], done["files"]["write"]) == (("done", ["f"]) if seen else ("noop", []))
    assert session.read("f") == ("1\n" if seen else "edited\n")


def test_a_stash_of_what_a_person_had_is_theirs(session: Session) -> None:
    """A person's edit that the run sets aside stays set aside."""
    write(session.folder / "f", "mine\n")
    session.run(git("stash", "push", "-q"), wrote("g", "edited\n"))
    done = session.rewind("1")
    assert (done["status"], done["files"]["write"]) == ("done", ["g"])
    assert (session.read("f"), session.read("g")) == ("1\n", "1\n")
    assert run_git(session.folder, "show", "stash:f") == b"mine\n"


def test_work_that_a_reset_threw_away_comes_back(session: Session) -> None:
    """No commit and no stash holds it: it is the run's doing, and a rewind brings it back."""
    write(session.folder / "f", "mine\n")
    session.run(git("reset", "-q", "--hard"), wrote("g", "edited\n"))
    done = session.rewind("1")
    assert sorted(done["files"]["write"]) == ["f", "g"]
    assert (session.read("f"), session.read("g")) == ("mine\n", "1\n")
