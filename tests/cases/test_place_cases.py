"""Where sessions run: nested repositories, plain folders, files outside, home folders, other machines."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recorder.events import CaptureFailed
from tests.capture.helpers import commit_all, everything, make_repository, run_git
from tests.cases.stage import Stage, by_shell, by_tool, git, saves
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import snapshot
from tests.flow.within import Within, whole


def nested_without_commit(folder: Path) -> None:
    make_repository(folder / "without-commit")


def nested_broken(folder: Path) -> None:
    (folder / "broken").mkdir()
    (folder / "broken" / ".git").write_text("gitdir: /nowhere\n")


def nested_empty(folder: Path) -> None:
    (folder / "empty" / ".git").mkdir(parents=True)


def test_case_7_odd_nested_repositories_do_not_freeze_the_capture(corner: Stage) -> None:
    """A repository without a commit, a broken one and an empty one appear: what else changed is captured, in
    that very checkpoint, and taken back."""
    agent = corner.agent()
    odd = by_shell(nested_without_commit, nested_broken, nested_empty)
    corner.play(agent, (corner.write("notes.md", "v2\n"), odd), (corner.write("notes.md", "v3\n"),))
    assert corner.within.run("cat", "2", "notes.md", cwd=corner.folder).out == b"v2\n"
    with corner.within.recording() as recording:
        assert not [one for one in whole(recording) if isinstance(one.fact, CaptureFailed)]
    corner.rewind("1")
    assert (corner.folder / "notes.md").read_text() == "mine\n"


@pytest.mark.parametrize("elsewhere", ["repository", "folder"])
def test_case_9_an_edit_outside_the_project_is_never_passed_over(
    elsewhere: str, stage: Stage, tmp_path: Path
) -> None:
    """One tool call edits a file here and one a file of another project: both come back, or the one outside
    is named as not brought back and the exit code says so."""
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / "y").write_text("from before\n")
    if elsewhere == "repository":
        commit_all(make_repository(outside))
    agent = stage.agent()
    path = str(outside / "y")
    stage.play(agent, (by_tool("notes.md", "v2\n"), by_tool(path, "v2\n")), (by_tool(path, "v3\n"),))
    stage.rewind("2")
    assert (outside / "y").read_text() == "v2\n"
    planned = stage.rewind("1", "--dry-run", check=None)
    done = stage.rewind("1", check=None)
    assert (stage.folder / "notes.md").read_text() == "mine\n"
    if done["status"] == "done":
        assert (outside / "y").read_text() == "from before\n"
    else:
        assert done["status"] == "partial"
        assert [path] == done["files"]["unrecovered"] == planned["files"]["unrecovered"]


def test_case_10_a_plain_folder_is_no_lesser_place(stage: Stage, tmp_path: Path) -> None:
    """Without git everything is as in a repository: the same plan, the same report, the same files."""
    found = []
    for place in (stage, stage._replace(folder=_copied_without_git(stage.folder, tmp_path / "plain"))):
        place.play(place.agent(), (place.write("notes.md", "v2\n"), by_shell(saves("new/file", "1\n"))))
        done = place.rewind("1", "--session", "latest")
        found.append((done["status"], done["files"], done["warnings"], snapshot(place.folder)))
    assert found[0] == found[1]
    assert found[0][0] == "done" and "new" not in found[0][3]


def _copied_without_git(folder: Path, to: Path) -> Path:
    for path in (one for one in folder.rglob("*") if one.is_file() and ".git" not in one.parts):
        saves(str(path.relative_to(folder)), path.read_text())(to)
    return to


def test_case_10_where_nothing_is_captured_nothing_is_claimed(
    place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switched off: the conversation is recorded, the checkpoint is lost and says why, and a rewind fails
    without a word of success."""
    monkeypatch.setenv("RECORDER_ENABLED", "false")
    place.play(place.agent(), (place.write("notes.md", "v2\n"),))
    [one] = place.json("checkpoints")
    assert (one["state"], one["restorable"]) == ("lost", False) and "switched off" in one["why_not"]
    for words in (("rewind", "1"), ("undo",)):
        answer = place.within.run(*words, cwd=place.folder, check=4)
        assert "switched off" in answer.err
    assert (place.folder / "notes.md").read_text() == "v2\n"


def test_case_11_a_plain_folder_is_recorded(within: Within, tmp_path: Path) -> None:
    """Two agents, a folder that is no repository, one run each: every prompt has its checkpoint."""
    (tmp_path / "plain").mkdir()
    for kind in ("pi", "claude"):
        stage = Stage(within, tmp_path / "plain", kind, by_tool)
        agent = stage.agent()
        stage.play(agent, (stage.write(f"{kind}.txt", "1\n"),))
        [one] = stage.json("checkpoints", agent.session)
        assert (one["state"], one["changes"]["added"]) == ("complete", 1)


def test_case_17_what_is_changed_in_a_nested_repository_comes_back(corner: Stage) -> None:
    """Its files are captured like all others, its own `.git` is as it was to the last byte, and nothing else
    is captured any less for it."""
    sub = make_repository(corner.folder / "sub")
    _fill(sub)
    check_nested(corner)


def test_case_18_a_submodule_is_nested_too(stage: Stage, tmp_path: Path) -> None:
    """Its `.git` is a file: it is recognised all the same, and treated like any nested repository."""
    _fill(make_repository(tmp_path / "origin"))
    run_git(stage.folder, "submodule", "--quiet", "add", str(tmp_path / "origin"), "sub")
    run_git(stage.folder, "commit", "-qm", "sub")
    check_nested(stage)


def check_nested(stage: Stage) -> None:
    """Two runs change files outside and in the nested repository `sub`; both are taken back."""
    sub, before = stage.folder / "sub", snapshot(stage.folder)
    git_dirs = [path for path in (sub / ".git", stage.folder / ".git") if path.exists()]
    kept = [_bytes_of(path) for path in git_dirs]
    stage.play(
        stage.agent(), (stage.write("sub/f", "2\n"), stage.write("notes.md", "2\n")), (by_shell(_drop),)
    )
    stage.rewind("2")
    assert (sub / "f").read_text() == "2\n" and (sub / "g").exists()
    stage.rewind("1")
    assert snapshot(stage.folder) == before
    assert [_bytes_of(path) for path in git_dirs] == kept


def _fill(repository: Path) -> None:
    for name in ("f", "g"):
        saves(name, "1\n")(repository)
    commit_all(repository)


def _drop(folder: Path) -> None:
    (folder / "sub" / "g").unlink()


def _bytes_of(path: Path) -> dict[bytes, tuple[object, ...]] | bytes:
    return path.read_bytes() if path.is_file() else everything(path)


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_case_18_other_work_trees_and_links_out_are_not_walked(
    kind: str, within: Within, tmp_path: Path
) -> None:
    """A linked work tree inside belongs to itself and is named as left out; a link to another repository is a
    link, which comes back as one, and what it leads to is neither captured nor touched."""
    folder, elsewhere = make_repository(tmp_path / "project"), make_repository(tmp_path / "elsewhere")
    for one in (folder, elsewhere):
        saves("f", "1\n")(one)
        commit_all(one)
    git(folder, "worktree", "add", "-q", "linked", "-b", "side")
    (folder / "l").symlink_to(elsewhere)
    untouched = everything(elsewhere)
    stage = Stage(within, folder, kind, by_tool)
    stage.play(stage.agent(), (by_shell(lambda here: (here / "l").unlink(), saves("linked/f", "2\n")),))
    shown = stage.json("show", "1")
    assert [one["path"] for one in shown["skipped"]] == ["linked"]
    assert [one["path"] for one in shown["files"]] == ["l"]
    stage.rewind("1")
    assert os.readlink(folder / "l") == str(elsewhere)
    assert (folder / "linked" / "f").read_text() == "2\n" and everything(elsewhere) == untouched


def test_case_21_sessions_of_folders_below_are_shown(stage: Stage) -> None:
    """Seen from the folder above, where nothing ran itself; and from a folder inside, where it runs."""
    agent = stage.agent()
    stage.play(agent, (stage.write("notes.md", "v2\n"),))
    for cwd in (stage.folder, stage.folder.parent, stage.folder / "src"):
        assert [one["id"] for one in stage.json("sessions", cwd=cwd)] == [agent.session], cwd
        assert len(stage.json("checkpoints", agent.session, cwd=cwd)) == 1
    assert stage.json("sessions", cwd=stage.within.base) == []
    assert len(stage.json("sessions", "--all", cwd=stage.within.base)) == 1


@pytest.mark.parametrize("mark", ["remote run", "remote session", "container uri", "windows"])
def test_case_48_a_session_of_another_machine_touches_nothing_here(
    mark: str, within: Within, tmp_path: Path
) -> None:
    """Its folder's name exists here too: nothing is captured, and a rewind is refused with the reason."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "f").write_text("of this machine\n")
    agent = _foreign(mark, within, folder)
    stage = Stage(within, folder, agent.agent, by_tool)
    before = everything(folder)
    with within.watching() as watcher:
        agent.give("work over there")
        watcher.look(agent)
        agent.done()
        watcher.look(agent)
    [one] = stage.json("checkpoints", agent.session, cwd=tmp_path)
    assert one["state"] == "lost" and one["why_not"], one
    for scope in ("session", "tree"):
        words = ("rewind", "1", "--session", agent.session, "--scope", scope)
        assert one["why_not"] in stage.json(*words, cwd=tmp_path, check=4)["error"]["message"]
    assert everything(folder) == before and not list(within.home.glob("trees/*/store.git"))


def _foreign(mark: str, within: Within, folder: Path) -> Pi | Claude:
    """An agent whose log says, in one way or another, that it ran elsewhere."""
    if mark == "container uri":
        pi = Pi(within.pi_folder, folder)
        header = json.loads(pi.log.read_bytes())
        pi.log.write_text(json.dumps({**header, "cwd": f"vscode-remote://container{folder}"}) + "\n")
        return pi
    claude = Claude(within.claude_folder, folder)
    chained = claude._chained

    def elsewhere(kind: str, **fields: object) -> dict[str, object]:
        line = chained(kind, **fields)
        if mark == "remote run":
            line["entrypoint"] = "remote_mobile"
        elif mark == "windows":
            line["cwd"] = "C:\\work\\workspace"
        return line

    claude._chained = elsewhere  # type: ignore[method-assign]
    if mark == "remote session":
        attachment = {"type": "remote_session_change", "url": "https://example.invalid/session"}
        claude._write(claude._chained("attachment", attachment=attachment))
    return claude


@pytest.mark.parametrize("stray", [True, False])
def test_case_81_the_home_folder_is_no_work_tree(
    stray: bool, within: Within, clean_environment: Path
) -> None:
    """With or without a stray `.git` in it: only what tools name is kept, it is said, and a rewind takes back
    just that."""
    home = clean_environment
    if stray:
        git(home, "init", "-q")
    (home / "letter.txt").write_text("private\n")
    (home / "doc.txt").write_text("one\n")
    stage = Stage(within, home, "claude", by_tool)
    stage.play(stage.agent(), (by_tool("doc.txt", "two\n"),), (by_tool("doc.txt", "three\n"),))
    (home / "letter.txt").write_text("still private\n")
    second, first = stage.json("checkpoints")
    assert "only the files that tools name" in first["why_not"] and second["state"] == "partial"
    stage.rewind("2")
    assert (home / "doc.txt").read_text() == "two\n"
    stage.rewind("1", check=None)
    assert (home / "letter.txt").read_text() == "still private\n"
    assert stage.within.run("cat", "2", "letter.txt", cwd=home, check=3).out == b""
