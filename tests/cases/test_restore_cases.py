"""What a rewind may write and delete: what the session did, at its own place, and nothing besides."""

from __future__ import annotations

import errno
import functools
import os
import time
from pathlib import Path

import pytest

from cli import going_back
from recorder.capturing import scan
from tests.apply.trees import at_effect
from tests.cases.stage import Stage, by_shell, by_tool, saves
from tests.flow.conftest import snapshot
from tests.flow.within import APART

LARGE = "x" * (3 << 20)
"""More than is captured of a file that git does not track."""


def test_case_26_what_others_made_is_never_deleted(corner: Stage) -> None:
    """Outputs of other programs, small and too large to be captured, made before, between and after runs:
    all there after a rewind; also in a folder that the session made."""
    agent, others = corner.agent(), {}
    for number, content in enumerate(["small\n", LARGE, "small\n"]):
        saves(f"output/{number}.jsonl", content)(corner.folder)
        others[f"output/{number}.jsonl"] = content
        act = corner.write(f"made/{number}.txt", "1\n") if number else by_shell(make_folder)
        corner.play(agent, (act,))
    saves("made/by-hand.txt", LARGE)(corner.folder)
    done = corner.rewind("1")
    assert done["files"]["delete"] == ["made/1.txt", "made/2.txt"]
    for name, content in {**others, "made/by-hand.txt": LARGE}.items():
        assert (corner.folder / name).read_text() == content, name


def make_folder(folder: Path) -> None:
    (folder / "made").mkdir()


@pytest.mark.parametrize("when", ["during", "after"])
def test_case_32_not_there_at_first_is_not_made_by_the_run(when: str, stage: Stage) -> None:
    """The agent's tool fails to read a file; a person makes it, while the run goes on or after it: the rewind
    keeps it, and what the run did make goes."""
    agent, mine = stage.agent(), stage.folder / "f"

    def fail_to_read(one: object) -> None:
        tool = "read" if agent.agent == "pi" else "Read"
        agent.use(tool, {"path": "f", "file_path": str(mine)}, lambda: None)

    with stage.within.watching() as watcher:
        acts = [fail_to_read, lambda _: mine.write_text("by hand\n")] if when == "during" else [fail_to_read]
        watcher.prompt(agent, "read it", *acts, stage.write("other.txt", "1\n"))
    time.sleep(APART)
    mine.write_text("by hand\n")
    assert stage.rewind("1")["files"]["delete"] == ["other.txt"]
    assert mine.read_text() == "by hand\n"


def test_case_34_files_come_back_at_their_place(stage: Stage) -> None:
    """From whatever folder of the project the rewind is asked for, and named from there."""
    (stage.folder / "frontend").mkdir()
    write = stage.write
    made, changed = by_shell(saves("api/s.go", "1\n")), write("api/s.go", "2\n")
    stage.play(stage.agent(), (made,), (changed, write("t", "2\n")))
    frontend = stage.folder / "frontend"
    stage.json("rewind", "2", "--files", "--path", "../api", cwd=frontend)
    assert (stage.folder / "api" / "s.go").read_text() == "1\n" and (stage.folder / "t").exists()
    stage.json("rewind", "2", "--files", cwd=frontend)
    assert not (stage.folder / "t").exists()
    assert list(frontend.iterdir()) == []


def test_case_36_what_a_run_made_goes_unless_it_is_to_stay(stage: Stage) -> None:
    """A file, a nested one and the folders above it: kept when that is asked for, else gone."""
    before = snapshot(stage.folder)
    stage.play(stage.agent(), (stage.write("new.md", "1\n"), by_shell(saves("a/b/c", "1\n"))))
    after = snapshot(stage.folder)
    stage.rewind("1", "--new-files", "keep")
    assert snapshot(stage.folder) == after
    stage.rewind("1")
    assert snapshot(stage.folder) == before


@pytest.mark.parametrize("scope", ["session", "tree"])
def test_case_37_a_capture_that_was_cut_short_empties_nothing(
    scope: str, place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the project cannot be listed when the prompt comes: the checkpoint is partial, and a rewind to
    it deletes only what the run is recorded to have made."""
    agent, names = place.agent(), scan._names
    src = (place.folder / "src").stat().st_ino

    def fail_in_src(folder: int) -> list[tuple[bytes, os.stat_result]]:
        if os.fstat(folder).st_ino == src:
            raise OSError(5, "Input/output error")
        return names(folder)

    with place.within.watching() as watcher:
        with monkeypatch.context() as patch:
            patch.setattr(scan, "_names", fail_in_src)
            agent.give("write")
            watcher.look(agent)
        time.sleep(APART)
        agent.write("new.txt", "1\n")
        watcher.look(agent)
        agent.done()
        watcher.look(agent)
    [one] = place.json("checkpoints")
    assert one["state"] == "partial" and "src" in place.within.run("show", "1", cwd=place.folder).out.decode()
    assert place.rewind("1", "--scope", scope)["files"]["delete"] == ["new.txt"]
    assert (place.folder / "src" / "app.py").read_text() == "print('one')\n"


def test_case_37_a_capture_without_an_end_is_no_target(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project itself cannot be listed: the checkpoint is lost with the reason, and nothing is restored
    from it in any scope."""

    def fail(folder: int) -> list[tuple[bytes, os.stat_result]]:
        raise OSError(5, "Input/output error")

    agent = place.agent()
    with place.within.watching() as watcher, monkeypatch.context() as patch:
        patch.setattr(scan, "_names", fail)
        agent.give("write")
        watcher.look(agent)
    place.play(agent, (by_tool("new.txt", "1\n"),))
    before = snapshot(place.folder)
    second, first = place.json("checkpoints")
    assert (first["state"], second["state"]) == ("lost", "complete")
    for scope in ("session", "tree"):
        assert "cannot be listed" in place.rewind("1", "--scope", scope, check=4)["error"]["message"]
    assert snapshot(place.folder) == before


def test_case_40_a_persons_later_edit_can_always_be_brought_back(corner: Stage) -> None:
    """A file that the run wrote and a person then edited is told as such, whatever is done with it then; the
    state from before the rewind is kept, and one command brings it back."""
    corner.play(corner.agent(), (corner.write("notes.md", "by the run\n"),))
    mine = corner.folder / "notes.md"
    mine.write_text("by hand\n")
    told = corner.rewind("1", "--on-conflict", "refuse", check=4)
    assert [one["path"] for one in told["files"]["conflict"]] == ["notes.md"]
    assert mine.read_text() == "by hand\n"
    corner.rewind("1", "--on-conflict", "overwrite")
    assert mine.read_text() == "mine\n"
    corner.rewind("--undo")
    assert mine.read_text() == "by hand\n"


def test_case_43_only_what_differs_is_written(place: Stage) -> None:
    """A file that no run changed keeps its old date, its inode and its rights; so does one that a run wrote
    anew in the same words."""
    old = place.folder / "go.mod"
    os.utime(old, (1_580_000_000, 1_580_000_000))
    place.play(place.agent(), (by_shell(saves("notes.md", "2\n")), by_tool("src/app.py", "print('one')\n")))
    kept = {path: path.stat() for path in (old, place.folder / "src" / "app.py")}
    assert place.rewind("1")["files"]["write"] == ["notes.md"]
    for path, status in kept.items():
        now = path.stat()
        assert (now.st_ino, now.st_mtime_ns, now.st_ctime_ns, now.st_mode) == (
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
        )


def test_case_46_nothing_is_deleted_before_all_is_written(
    place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second write of a rewind fails, at any of its effects: the new file that was to go is there,
    nothing else is changed, and the report says that all is as before."""

    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    deeds = (saves("n", "new\n"), saves("notes.md", "2\n"), saves("go.mod", "2\n"))
    place.play(place.agent(), (by_shell(*deeds),))
    before, carry_out = snapshot(place.folder), going_back.carry_out
    for effect in ("before create", "before write", "before exchange"):
        hook = at_effect(effect, full, nth=1)
        with monkeypatch.context() as patch:
            failing = functools.partial(carry_out, before_step=hook)
            patch.setattr(going_back, "carry_out", failing)
            done = place.rewind("1", check=1)
        assert done["status"] == "failed" and done["failed"] and done["files"]["unrecovered"] == []
        assert snapshot(place.folder) == before
    assert place.rewind("1")["files"]["delete"] == ["n"]


def test_case_47_what_a_person_edited_is_no_part_of_it(corner: Stage, tmp_path: Path) -> None:
    """From a folder inside, from one outside, from one of another project: the same session's changes are
    taken back and nothing else; where no session is meant, nothing is done."""
    agent, elsewhere = corner.agent(), tmp_path / "elsewhere"
    elsewhere.mkdir()
    corner.play(agent, (corner.write("src/app.py", "2\n"),))
    (corner.folder / "README").write_text("by hand\n")
    (corner.folder / "notes.md").write_text("by hand\n")
    after = snapshot(corner.folder)
    assert corner.json("rewind", "1", "--files", cwd=elsewhere, check=3)["error"]
    assert snapshot(corner.folder) == after
    for cwd in (elsewhere, corner.folder / "src", corner.folder):
        done = corner.json("rewind", "1", "--files", "--session", agent.session, cwd=cwd)
        assert (done["files"]["write"], done["files"]["delete"]) == (["src/app.py"], [])
        assert (corner.folder / "README").read_text() == "by hand\n"
        corner.json("rewind", "--undo", "--files", "--session", agent.session, cwd=cwd)
        assert snapshot(corner.folder) == after


def test_case_49_uncommitted_work_from_before_the_session_comes_back(stage: Stage) -> None:
    """A file is dirty before the session, the run edits it, and while the run is still under way it is taken
    back: it is dirty as it was, not as it was committed."""
    (stage.folder / "notes.md").write_text("mine, not committed\n")
    agent = stage.agent()
    with stage.within.watching() as watcher:
        agent.give("write")
        watcher.look(agent)
        agent.write("notes.md", "by the run\n")
        watcher.look(agent)
    stage.rewind("1", "--while-running")
    assert (stage.folder / "notes.md").read_text() == "mine, not committed\n"


def test_case_65_before_and_after_every_prompt_can_be_gone_to(stage: Stage) -> None:
    """The state after a run is the one before the next, and after the last one it is a step forward; the same
    place is reached by number, by time and by step."""
    agent, mine = stage.agent(), stage.folder / "f"
    entries = stage.play(agent, (stage.write("f", "1"),), (stage.write("f", "2"),))
    found = {one["number"]: one for one in stage.json("checkpoints")}
    assert [found[number]["entry_id"] for number in (1, 2)] == entries
    for words, content in (
        (("rewind", found[2]["id"]), "1"),
        (("undo",), None),
        (("redo",), "1"),
        (("redo",), "2"),
        (("rewind", "@-1"), None),
        (("rewind", found[2]["created_at"]), "1"),
    ):
        stage.json(*words, "--files")
        assert (mine.read_text() if mine.exists() else None) == content, words


def test_case_70_what_is_said_is_what_is_done(corner: Stage) -> None:
    """With a dirty file in the way, the plan that is told and what then happens agree in every mode; what is
    overwritten needs no refusal, because it is captured first."""
    corner.play(corner.agent(), (corner.write("notes.md", "by the run\n"), corner.write("t", "1\n")))
    (corner.folder / "notes.md").write_text("by hand\n")
    dirty = snapshot(corner.folder)
    for words in (
        ("--on-conflict", "refuse"),
        ("--on-conflict", "skip"),
        ("--on-conflict", "overwrite"),
        ("--scope", "tree"),
    ):
        told = corner.rewind("1", *words, "--dry-run", check=None)
        done = corner.rewind("1", *words, check=None)
        assert told["files"] == done["files"], words
        assert (told["status"] == "refused") == (done["status"] == "refused") == ("refuse" in words)
        if done["status"] != "refused":
            assert snapshot(corner.folder) != dirty
            corner.rewind("--undo")
        assert snapshot(corner.folder) == dirty
