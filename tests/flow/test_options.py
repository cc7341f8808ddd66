"""The options of going back, and the conversation's part, on one recorded session."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.flow.conftest import Recorder, snapshot


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project, an agent's folder and a home after two prompts of Claude Code; copied for each test."""
    from tests.flow.agents import Claude

    base = tmp_path_factory.mktemp("played")
    project = base / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "app.py").write_text("one\n")
    (project / "notes.md").write_text("mine\n")
    recorder = Recorder(base / "recorder")
    with recorder.watching():
        agent = Claude(recorder.claude_folder, project, "99999999-2222-4333-8444-555555555555")
        agent.give("first")
        time.sleep(0.8)
        agent.write("made.txt", "by the agent\n")
        agent.done()
        recorder.wait_for(project, agent.session, 1)
        agent.give("second")
        time.sleep(0.8)
        agent.shell("…", lambda: _work(project))
        agent.done()
        recorder.wait_for(project, agent.session, 2)
    return base


def _work(project: Path) -> None:
    (project / "src" / "app.py").write_text("two\n")
    (project / "src" / "new.py").write_text("new\n")
    (project / "notes.md").unlink()


@pytest.fixture
def again(played: Path) -> tuple[Recorder, Path]:
    """The recorder and the project as they were after the second prompt, in their own place.

    The work tree is known by its folder, so it stays where it is and is put back after the test.
    """
    recorder = Recorder(played / "recorder")
    return recorder, played / "project"


@pytest.fixture(autouse=True)
def put_back(played: Path) -> object:
    """Each test finds files, home and logs as they were; the folder itself is never replaced."""
    kept = played.with_name(played.name + "-kept")
    if not kept.exists():
        shutil.copytree(played, kept, symlinks=True)
    yield
    shutil.rmtree(played / "recorder")
    shutil.copytree(kept / "recorder", played / "recorder", symlinks=True)
    for one in (played / "project").iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    shutil.copytree(kept / "project", played / "project", symlinks=True, dirs_exist_ok=True)


def test_a_dry_run_changes_nothing(again: tuple[Recorder, Path]) -> None:
    """The plan is told with exit 0, and no file, no log line and no event is written."""
    recorder, project = again
    before, events = snapshot(project), recorder.json("log", cwd=project)
    log = next(recorder.claude_folder.rglob("*.jsonl")).read_bytes()
    planned = recorder.json("rewind", "1", "--dry-run", cwd=project)

    assert planned["status"] == "planned"
    assert planned["files"]["write"] == ["notes.md", "src/app.py"]
    assert planned["files"]["delete"] == ["made.txt", "src/new.py"]
    assert (snapshot(project), recorder.json("log", cwd=project)) == (before, events)
    assert next(recorder.claude_folder.rglob("*.jsonl")).read_bytes() == log


def test_path_narrows_to_a_file_or_a_folder(again: tuple[Recorder, Path]) -> None:
    """Only what is named is taken back; from inside a folder a name is looked for there."""
    recorder, project = again
    done = recorder.json("rewind", "2", "--files", "--path", "app.py", cwd=project / "src")
    assert (done["files"]["write"], done["files"]["delete"]) == (["src/app.py"], [])
    done = recorder.json("rewind", "2", "--files", "--path", "src", cwd=project)
    assert done["files"]["delete"] == ["src/new.py"] and not (project / "notes.md").exists()
    assert recorder.json("undo", "--files", cwd=project)["checkpoint"]["number"] == 2
    for empty in (("rewind", "1", "--json", "--path", ""), ("diff", "1", "--json", "--", "")):
        assert recorder.run(*empty, cwd=project, check=2).json["error"]["code"] == "usage"
    for missing in ("nowhere", "../nowhere", str(project.parent / "nowhere")):
        answer = recorder.json("rewind", "1", "--path", missing, cwd=project, check=3)
        assert answer["error"]["code"] == "no_file"


def test_diff_takes_files_after_the_dashes(again: tuple[Recorder, Path]) -> None:
    """Wherever the options stand."""
    recorder, project = again
    for words in (("1", "2", "--stat"), ("--stat", "1", "2"), ("1", "2", "--session", "99999999")):
        out = recorder.run("diff", *words, "--", "made.txt", cwd=project).out.decode()
        assert "made.txt" in out and "app.py" not in out


def test_new_files_can_be_kept(again: tuple[Recorder, Path]) -> None:
    """--new-files keep leaves what the session made, and says so."""
    recorder, project = again
    done = recorder.json("rewind", "1", "--files", "--new-files", "keep", cwd=project)

    assert done["files"]["delete"] == []
    assert {one["path"] for one in done["files"]["keep"]} == {"made.txt", "src/new.py"}
    assert (project / "made.txt").exists() and (project / "notes.md").exists()


def test_revert_takes_back_one_run_alone(again: tuple[Recorder, Path]) -> None:
    """What the first prompt made goes, what the second did stays."""
    recorder, project = again
    done = recorder.json("revert", "1", cwd=project)

    assert (done["status"], done["files"]["delete"]) == ("done", ["made.txt"])
    assert (project / "src" / "app.py").read_text() == "two\n" and not (project / "notes.md").exists()


def test_tree_scope_takes_the_whole_tree(again: tuple[Recorder, Path]) -> None:
    """--scope tree brings back exactly what was captured, whoever changed it since, and can be undone."""
    recorder, project = again
    (project / "by-hand.txt").write_text("hand\n")
    before = snapshot(project)
    recorder.json("rewind", "1", "--files", "--scope", "tree", cwd=project)
    assert sorted(snapshot(project)) == ["notes.md", "src", "src/app.py"]
    recorder.json("rewind", "--undo", cwd=project)
    assert snapshot(project) == before


def test_the_conversation_of_a_closed_session_goes_back_in_place(again: tuple[Recorder, Path]) -> None:
    """Files and conversation: one line in the agent's log points to what stood before the prompt; undo
    points back; the active branch follows both times."""
    recorder, project = again
    log = next(recorder.claude_folder.rglob("*.jsonl"))
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    second = next(one for one in entries if one.get("message", {}).get("content") == "second")
    done = recorder.json("rewind", "2", cwd=project)
    line = json.loads(log.read_text().splitlines()[-1])

    assert done["conversation"]["status"] == "done" and "--resume" in done["conversation"]["resume"]
    assert (line["type"], line["explicit"], line["leafUuid"]) == ("last-prompt", True, second["parentUuid"])
    assert [one["number"] for one in recorder.json("checkpoints", cwd=project)] == [1]

    recorder.json("rewind", "--undo", cwd=project)
    assert [one["number"] for one in recorder.json("checkpoints", cwd=project)] == [2, 1]


def test_an_open_session_keeps_its_conversation(again: tuple[Recorder, Path]) -> None:
    """While the agent has the session open, files come back and a word says why the conversation does not;
    asked for by name it is refused, with nothing changed."""
    recorder, project = again
    registry = recorder.claude_folder / "sessions"
    registry.mkdir()
    start = Path(f"/proc/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[19]
    entry = {"pid": os.getpid(), "sessionId": "99999999-2222-4333-8444-555555555555", "procStart": start,
             "cwd": str(project), "status": "idle"}  # fmt: skip
    (registry / f"{os.getpid()}.json").write_text(json.dumps(entry))
    before = snapshot(project)

    refused = recorder.json("rewind", "2", "--both", cwd=project, check=4)
    assert refused["error"]["code"] == "conversation_unavailable" and snapshot(project) == before
    done = recorder.json("rewind", "2", cwd=project)
    assert (done["status"], done["conversation"]["status"]) == ("done", "unavailable")
    assert done["conversation"]["why"] and (project / "notes.md").exists()


def test_only_the_conversation(again: tuple[Recorder, Path]) -> None:
    """--conversation leaves every file; the files can be taken back later all the same."""
    recorder, project = again
    before = snapshot(project)
    done = recorder.json("rewind", "2", "--conversation", cwd=project)
    assert (done["status"], snapshot(project)) == ("done", before)
    recorder.json("rewind", "2", "--files", cwd=project)
    assert (project / "notes.md").exists() and (project / "made.txt").exists()


def test_names_of_checkpoints(again: tuple[Recorder, Path]) -> None:
    """Number, #number, latest, @-N, id, its beginning, a label and a time all mean a checkpoint; a label
    that reads as another form is refused."""
    recorder, project = again
    found = {one["number"]: one for one in recorder.json("checkpoints", cwd=project)}
    recorder.run("label", "1", "start", cwd=project)
    for word, number in (
        ("1", 1), ("#2", 2), ("latest", 2), ("@-1", 1), (found[1]["id"], 1), (found[2]["id"][:6], 2),
        ("start", 1), (found[1]["created_at"], 1), ("0s ago", 2),
    ):  # fmt: skip
        assert recorder.json("show", word, cwd=project)["number"] == number, word
    for bad in ("3", "latest", "2h ago", "@-1", found[1]["id"]):
        assert recorder.run("label", "1", bad, cwd=project, check=2).out == b""
    assert recorder.json("show", "@-7", cwd=project, check=3)["error"]["code"] == "no_checkpoint"
    assert recorder.json("show", "1h ago", cwd=project, check=3)["error"]["code"] == "no_checkpoint"


def test_pinned_and_labelled_checkpoints_outlive_the_retention(again: tuple[Recorder, Path]) -> None:
    """With room for one checkpoint, the pinned one stays too; unpinned it goes, with a reason, and cannot be
    gone back to any more."""
    recorder, project = again
    recorder.environment["RECORDER_MAX_CHECKPOINTS"] = "1"
    recorder.run("pin", "1", cwd=project)
    assert recorder.json("prune", cwd=project)["retired"] == []
    recorder.run("unpin", "1", cwd=project)
    retired = recorder.json("prune", cwd=project)["retired"]
    assert [(one["number"], "more than 1" in one["reason"]) for one in retired] == [(1, True)]
    assert recorder.json("rewind", "1", "--files", cwd=project, check=4)["error"]["code"] == "retired"
    assert recorder.json("rewind", "2", "--files", cwd=project)["status"] == "done"


def test_two_active_sessions_must_be_told_apart(again: tuple[Recorder, Path]) -> None:
    """A changing command with no session named, where two were active within the hour, refuses and lists
    both; named, it goes; looking commands take the newest."""
    recorder, project = again
    with recorder.watching():
        other = recorder.pi(project)
        other.give("another one")
        recorder.wait_for(project, other.session, 1, settled=False)
    refused = recorder.json("rewind", "1", "--files", cwd=project, check=4)["error"]
    assert refused["code"] == "which_session"
    assert set(refused["candidates"]) == {other.session, "99999999-2222-4333-8444-555555555555"}
    assert recorder.json("checkpoints", cwd=project)[0]["session"] == other.session
    recorder.json("rewind", "2", "--files", "--session", "99999999", cwd=project)
    assert (project / "notes.md").exists()
