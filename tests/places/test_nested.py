"""Repositories and work trees that come, go and are worked in inside a recorded tree: their `.git` and their
registration are never touched, and `show` and the plan tell of them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capture.helpers import commit_all, make_repository, run_git
from tests.flow.within import APART, Within
from tests.places.journey import Place, furnish, rampage, record, same, state, there_and_back


@pytest.fixture
def place(tmp_path: Path) -> Place:
    root = make_repository(tmp_path / "place" / "w")
    furnish(root)
    commit_all(root)
    return Place(tmp_path / "place", root)


def repository(root: Path) -> None:
    make_repository(root)
    furnish(root)
    commit_all(root)


def make(root: Path) -> None:
    repository(root / "new")


def make_around(root: Path) -> None:
    """A folder that is captured becomes a repository."""
    make_repository(root / "kept")
    commit_all(root / "kept")
    rampage(root)


def copy(root: Path) -> None:
    shutil.copytree(root / "old", root / "copied", symlinks=True)


def remove(root: Path) -> None:
    shutil.rmtree(root / "old")


def remove_git(root: Path) -> None:
    shutil.rmtree(root / "old" / ".git")
    rampage(root)


def move(root: Path) -> None:
    (root / "old").rename(root / "moved")


def work_within(root: Path) -> None:
    rampage(root / "old")
    commit_all(root / "old")


@pytest.mark.parametrize(
    ("act", "made", "gone"),
    [
        (make, ["new"], []),
        (make_around, ["kept"], []),
        (copy, ["copied"], []),
        (remove, [], ["old"]),
        (remove_git, [], ["old"]),
        (move, ["moved"], ["old"]),
        (work_within, [], []),
    ],
)
def test_nested_repositories_that_come_and_go(
    act: Callable[[Path], object], made: list[str], gone: list[str], within: Within, place: Place
) -> None:
    """Their files are the run's, their `.git` stays where it is or stays gone, and the plan says so."""
    repository(place.root / "old")
    done = there_and_back(within, place, act)
    shown = within.json("show", "1", cwd=place.root)["skipped"]
    assert {(one["path"], one["why"].startswith("since the run")) for one in shown} == {
        ("old/.git", False),
        *((f"{name}/.git", True) for name in made),
    }
    said = [one["message"] for one in done["warnings"] if one["code"] == "left_out"]
    told = [f"not put back: {name}/.git" for name in gone] + [f"as they are: {name}/.git" for name in made]
    assert len(said) == len(told) and all(a in b for a, b in zip(told, sorted(said), strict=True)), done


def add(root: Path) -> None:
    run_git(root, "worktree", "add", "-q", str(root / "new"))


def test_a_linked_work_tree_that_the_run_adds(within: Within, place: Place) -> None:
    """It stays, whole and registered; what a tool wrote in it by name is taken back, the rest is told."""
    agent = within.agent("pi", place.root)
    record(
        within, place, agent,
        lambda one: one.shell("git worktree add", lambda: add(place.root)),
        lambda one: one.write("new/named.txt", "by name\n"),
    )  # fmt: skip
    end = state(place)
    done = within.json("rewind", "1", "--session", agent.session, cwd=place.root)
    assert done["files"]["delete"] == ["named.txt", "new/named.txt"]
    [told] = [one["message"] for one in done["warnings"] if one["code"] == "left_out"]
    assert "left as they are: new (a linked work tree" in told
    listed = run_git(place.root, "worktree", "list", "--porcelain").decode()
    assert f"worktree {place.root / 'new'}" in listed and "prunable" not in listed
    assert run_git(place.root / "new", "--no-optional-locks", "status", "--porcelain") == b""
    within.json("rewind", "--undo", cwd=place.root)
    same(end, state(place))


def test_a_linked_work_tree_that_the_run_removes(within: Within, place: Place) -> None:
    """It is neither put back nor registered again, which the plan says."""
    add(place.root)
    agent = within.agent("pi", place.root)
    words = ("worktree", "remove", str(place.root / "new"))
    record(within, place, agent, lambda one: one.shell("…", lambda: run_git(place.root, *words)))
    done = within.json("rewind", "1", "--session", agent.session, cwd=place.root)
    [told] = [one["message"] for one in done["warnings"] if one["code"] == "left_out"]
    assert "not put back: new (a linked work tree" in told and not (place.root / "new").exists()


def test_a_tree_that_becomes_a_repository(within: Within, tmp_path: Path) -> None:
    """What the run makes of a plain folder stays one: the rewind takes the files back and not the history."""
    place = Place(tmp_path / "place", tmp_path / "place" / "w")
    furnish(place.root)

    def initialize(root: Path) -> None:
        rampage(root)
        make_repository(root)
        commit_all(root)

    there_and_back(within, place, initialize)


@pytest.mark.parametrize("index", ["split", "sparse"])
def test_an_agent_that_moves_head(index: str, within: Within, place: Place) -> None:
    """Asking what git itself changed leaves a split or sparse index and its objects alone too."""
    root = place.root
    run_git(root, "checkout", "-q", "-b", "other")
    (root / "by-git").write_text("other\n")
    (root / "out").mkdir()
    (root / "out" / "x").write_text("x\n")
    commit_all(root)
    run_git(root, "checkout", "-q", "main")
    if index == "split":
        run_git(root, "update-index", "--split-index")
    else:
        run_git(root, "sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    agent = within.agent("pi", root)

    def act() -> None:
        (root / "changed.txt").write_text("two\n")
        run_git(root, "checkout", "-q", "other")

    record(within, place, agent, lambda one: one.shell("…", act))
    end = state(place)
    shown = within.json("show", "1", "--session", agent.session, cwd=root)
    assert {one["path"]: one["by"] for one in shown["files"]}["by-git"] == "git"
    same(end, state(place))


def test_two_work_trees_of_one_repository_at_once(within: Within, place: Place) -> None:
    """Each has checkpoints of its own, and going back in one changes nothing in the other."""
    run_git(place.root, "worktree", "add", "-q", str(place.base / "side"))
    both = [place, place._replace(root=place.base / "side")]
    starts = [state(one) for one in both]
    agents = [within.agent("pi", one.root) for one in both]
    with within.watching() as watcher:
        for agent in agents:
            agent.give("go wild")
            watcher.look(agent)
        time.sleep(APART)
        for agent, one in zip(agents, both, strict=True):
            agent.shell("…", lambda one=one: rampage(one.root))
            watcher.look(agent)
        for agent in agents:
            agent.done()
            watcher.look(agent)
    ends = [state(one) for one in both]
    for number, agent in enumerate(agents):
        within.json("rewind", "1", "--session", agent.session, cwd=both[number].root)
        same(starts[number], state(both[number]))
        same(ends[1 - number], state(both[1 - number]))
        within.json("rewind", "--undo", cwd=both[number].root)
        same(ends[number], state(both[number]))
