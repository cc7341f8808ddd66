"""Several sessions and a person in one project: a rewind of one is no business of the others."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.capture.helpers import everything
from tests.cases.stage import Act, Agent, Stage, by_shell, by_tool, git, project, saves
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Within


@pytest.fixture(
    params=[("pi", "pi", "folder"), ("pi", "claude", "repository"), ("claude", "claude", "folder")],
    ids="-".join,
)
def two(request: pytest.FixtureRequest, within: Within, tmp_path: Path) -> tuple[Stage, Agent, Agent]:
    """A place and two agents in it."""
    first, second, where = request.param
    place = Stage(within, project(tmp_path, where), first, by_tool)
    return place, place.agent(first), place.agent(second)


def interleaved(place: Stage, a: Agent, b: Agent, act_a: Act, act_b: Act) -> None:
    """Both runs are under way at the same time; first one's tool works, then the other's."""
    with place.within.watching() as watcher:
        for agent in (a, b):
            agent.give("work")
            watcher.look(agent)
        for agent, act in ((a, act_a), (b, act_b)):
            act(agent)
            watcher.look(agent)
            time.sleep(APART)
        for agent in (a, b):
            agent.done()
            watcher.look(agent)


@pytest.mark.parametrize("together", [False, True])
def test_case_29_another_sessions_work_stays(together: bool, two: tuple[Stage, Agent, Agent]) -> None:
    """One session writes one file and the other another, one after the other or with runs that overlap:
    each rewind gives its own file back, and no more."""
    place, a, b = two
    write_a, write_b = by_tool("notes.md", "a\n"), by_shell(saves("src/app.py", "b\n"), saves("b/new", "b\n"))
    if together:
        interleaved(place, a, b, write_a, write_b)
    else:
        place.play(a, (write_a,))
        place.play(b, (write_b,))
    after = snapshot(place.folder)
    place.rewind("1", "--session", a.session)
    assert (place.folder / "notes.md").read_text() == "mine\n"
    assert {**snapshot(place.folder), "notes.md": after["notes.md"]} == after
    place.rewind("1", "--session", b.session)
    assert (place.folder / "src" / "app.py").read_text() == "print('one')\n"
    assert not (place.folder / "b").exists()


@pytest.mark.parametrize("together", [False, True])
def test_case_29_a_file_of_both_is_a_conflict(together: bool, two: tuple[Stage, Agent, Agent]) -> None:
    """Both wrote the same file: the rewind of the first one is refused as a whole and names it; in runs that
    overlapped it is refused even where it could be merged."""
    place, a, b = two
    write_a, write_b = by_tool("notes.md", "a\nmine\n"), by_tool("notes.md", "a\nmine\nb\n")
    if together:
        interleaved(place, a, b, write_a, write_b)
    else:
        place.play(a, (write_a, by_tool("other.txt", "a\n")))
        place.play(b, (write_b,))
    after = snapshot(place.folder)
    words = () if together else ("--on-conflict", "refuse")
    told = place.rewind("1", "--session", a.session, *words, check=4)
    assert told["status"] == "refused"
    assert [one["path"] for one in told["files"]["conflict"]] == ["notes.md"]
    assert snapshot(place.folder) == after


def test_case_30_a_session_without_changes_takes_nothing_back(two: tuple[Stage, Agent, Agent]) -> None:
    """One session edits files, the other only talks: its rewind is nothing to do, says so and writes
    nothing."""
    place, a, b = two
    interleaved(place, a, b, by_tool("notes.md", "a\n"), lambda one: None)
    place.play(b, ())
    before = everything(place.folder)
    for number in ("1", "2"):
        assert place.rewind(number, "--session", b.session)["status"] == "noop"
    said = place.within.run("rewind", "1", "--files", "--session", b.session, cwd=place.folder).out.decode()
    assert "nothing" in said.lower(), said
    assert everything(place.folder) == before


def test_case_31_a_run_that_only_read_is_taken_back_without_a_write(stage: Stage) -> None:
    """In a project that is dirty before and after it, with things staged, deleted and new: to the last byte
    and time as before."""
    agent = stage.agent()
    (stage.folder / "notes.md").write_text("dirty\n")
    (stage.folder / "go.mod").unlink()
    saves("new/file", "untracked\n")(stage.folder)
    git(stage.folder, "add", "notes.md")
    tool = "read" if stage.kind == "pi" else "Read"
    stage.play(agent, (lambda one: one.use(tool, {"path": "notes.md"}, lambda: None), by_shell(Path.exists)))
    (stage.folder / "src" / "app.py").write_text("dirty, too\n")
    before = everything(stage.folder)
    assert stage.rewind("1")["status"] == "noop"
    assert stage.json("undo", "--files")["status"] in ("noop", "done")
    assert everything(stage.folder) == before


def test_case_62_redo_brings_back_every_byte(two: tuple[Stage, Agent, Agent]) -> None:
    """With edits of another session and of a person lying about: after an undo and its undo everything is as
    before, and after the redo as after the undo."""
    place, a, b = two
    place.play(a, (by_tool("notes.md", "a\n"), by_shell(saves("a/new", "a\n"), saves("gone", "a\n"))))
    place.play(b, (by_tool("src/app.py", "b\n"),))
    (place.folder / "go.mod").write_text("by hand\n")
    (place.folder / "a" / "by-hand").write_text("by hand\n")
    before = snapshot(place.folder)
    place.json("undo", "--files", "--session", a.session)
    undone = snapshot(place.folder)
    assert undone != before and undone["go.mod"] == before["go.mod"]
    for _ in range(2):
        place.rewind("--undo")
        assert snapshot(place.folder) == before
        place.rewind("--redo")
        assert snapshot(place.folder) == undone
    place.json("redo", "--files", "--session", a.session)
    assert snapshot(place.folder) == before
