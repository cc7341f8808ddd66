"""The person's own git: captures and rewinds change nothing of it, and nothing of it is in their way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.events import CaptureFailed
from tests.capture.helpers import everything, make_repository
from tests.cases.stage import Stage, by_shell, by_tool, git, project, saves
from tests.flow.conftest import snapshot
from tests.flow.within import Within, whole

NAMES = ("-c", "user.name=p", "-c", "user.email=p@example.invalid")


def commit(folder: Path) -> None:
    git(folder, *NAMES, "commit", "-qam", "by hand")


def amend(folder: Path) -> None:
    git(folder, *NAMES, "commit", "-qa", "--amend", "-m", "again")


def branch(folder: Path) -> None:
    git(folder, "checkout", "-q", "-b", "side")


def stage_it(folder: Path) -> None:
    git(folder, "add", "-A")


def stash_something(folder: Path) -> None:
    saves("go.mod", "stashed\n")(folder)
    git(folder, *NAMES, "stash", "-q", "--", "go.mod")


def merge_with_conflict(folder: Path) -> None:
    git(folder, "checkout", "-q", "-b", "theirs", "HEAD")
    saves("go.mod", "theirs\n")(folder)
    git(folder, *NAMES, "commit", "-q", "-m", "theirs", "--", "go.mod")
    git(folder, "checkout", "-q", "main")
    saves("go.mod", "ours\n")(folder)
    git(folder, *NAMES, "commit", "-q", "-m", "ours", "--", "go.mod")
    git(folder, *NAMES, "merge", "-q", "theirs", check=False)


@pytest.mark.parametrize("deed", [commit, amend, branch, stage_it, stash_something, merge_with_conflict])
def test_case_28_the_persons_repository_is_never_written(
    deed: Callable[[Path], None], within: Within, tmp_path: Path
) -> None:
    """Whatever a person does in git after the run: HEAD, branches, index, stash and all else in `.git` are
    to the last byte as before, through rewinds of either scope and their undo; the files go back all the
    same."""
    stage = Stage(within, project(tmp_path, "repository"), "pi", by_tool)
    stage.play(stage.agent(), (stage.write("notes.md", "by the run\n"), by_shell(saves("new", "1\n"))))
    deed(stage.folder)
    kept, files = everything(stage.folder / ".git"), snapshot(stage.folder)
    for scope in ("session", "tree"):
        done = stage.rewind("1", "--scope", scope)
        assert (stage.folder / "notes.md").read_text() == "mine\n" and not (stage.folder / "new").exists()
        warned = {one["code"] for one in done["warnings"]} & {"head_moved", "git_operation"}
        assert bool(warned) == (deed not in (stage_it, stash_something))
        stage.rewind("--undo")
        assert snapshot(stage.folder) == files
    assert everything(stage.folder / ".git") == kept


@pytest.mark.parametrize("names", [("GIT_DIR",), ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE")])
def test_case_72_the_environments_repository_is_not_meant(
    names: tuple[str, ...], place: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Variables of a hook that the command runs in name another repository: it stays as it is, and capture,
    rewind and prune are as ever."""
    other = make_repository(tmp_path / "other")
    saves("f", "1\n")(other)
    git(other, "add", "f")
    kept = everything(other)

    def inherit() -> None:
        """Whoever starts git takes the variables out of its own process."""
        own = {"GIT_DIR": "", "GIT_INDEX_FILE": "index", "GIT_OBJECT_DIRECTORY": "objects"}
        for name in names:
            monkeypatch.setenv(name, str(other / ".git" / own[name]) if name in own else str(other))

    before, deed = snapshot(place.folder), by_shell(saves("notes.md", "2\n"), saves("new", "1\n"))
    inherit()
    place.play(place.agent(), (), (deed,))
    inherit()
    monkeypatch.setenv("RECORDER_MAX_CHECKPOINTS", "1")
    assert place.json("prune")["retired"]
    inherit()
    place.rewind("2")
    assert snapshot(place.folder) == before and everything(other) == kept


def test_case_73_and_74_no_configuration_of_the_persons_gets_in_the_way(
    place: Stage, clean_environment: Path
) -> None:
    """Hooks that fail and tell on it, commits to be signed by a program that fails, filters, line endings, a
    monitor: none of it runs, and the bytes are as they are."""
    home, told = clean_environment, clean_environment / "told"
    hooks = home / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "reference-transaction", "post-checkout", "monitor"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {told}\nexit 1\n")
        (hooks / name).chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nhooksPath = {hooks}\nautocrlf = true\nfsmonitor = {hooks}/monitor\n"
        "[commit]\ngpgSign = true\n[tag]\ngpgSign = true\n[gpg]\nprogram = false\n"
        f'[filter "all"]\nclean = {hooks}/monitor\nsmudge = {hooks}/monitor\nrequired = true\n'
    )
    (place.folder / ".gitattributes").write_text("* filter=all text\n")
    (place.folder / "notes.md").write_bytes(b"one\r\ntwo\n")
    before = snapshot(place.folder)
    place.play(place.agent(), (by_shell(saves("notes.md", "2\n"), saves("go.mod", "2\n")),))
    place.rewind("1")
    assert snapshot(place.folder) == before and not told.exists()
    with place.within.recording() as recording:
        assert not [one for one in whole(recording) if isinstance(one.fact, CaptureFailed)]


def test_case_98_what_git_does_is_no_step_to_undo(stage: Stage) -> None:
    """After a rewind a person rebases, bisects and commits: the undo is still that of the rewind, it names
    session, prompt and files, and what git did is not taken back."""
    agent = stage.agent()
    stage.play(agent, (stage.write("notes.md", "2\n"),))
    stage.rewind("1")
    saves("go.mod", "by hand\n")(stage.folder)
    commit(stage.folder)
    git(stage.folder, "bisect", "start", check=False)
    git(stage.folder, "bisect", "reset", check=False)
    git(stage.folder, *NAMES, "rebase", "-q", "--root", check=False)
    kept = everything(stage.folder / ".git")
    said = stage.within.run("rewind", "--undo", "--files", cwd=stage.folder)
    told = said.out.decode() + said.err
    for word in (agent.session[:8], "prompt 1", "notes.md"):
        assert word in told, told
    assert (stage.folder / "notes.md").read_text() == "2\n"
    assert (stage.folder / "go.mod").read_text() == "by hand\n" and everything(stage.folder / ".git") == kept
    assert stage.rewind("--undo", check=3)["error"]
