"""One screen on a folder: what is recorded of it and how, or why not; looked at without a trace."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from recorder.home import Home
from tests.capture.helpers import make_repository
from tests.flow.conftest import Recorder
from tests.flow.within import Within, killed

KEYS = {
    "recorded", "kind", "how", "work_tree", "session", "checkpoints", "steps", "recent", "store",
    "retention_days", "max_checkpoints", "last_failure", "can_undo", "why", "notes",
}  # fmt: skip


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


def status(within: Within, cwd: Path, *words: str) -> dict[str, Any]:
    document = within.json("checkpoint", "status", *words, cwd=cwd)
    assert set(document) == KEYS
    return dict(document)


def played(within: Within, folder: Path, prompts: int = 2, kind: str = "pi") -> Any:
    agent = within.agent(kind, folder)
    with within.watching() as watcher:
        for number in range(prompts):
            watcher.prompt(
                agent, f"prompt {number + 1}", lambda one, n=number: one.write("new.txt", f"{n}\n")
            )
    return agent


def test_a_recorded_folder(within: Within, folder: Path) -> None:
    """Everything that the document promises, from the folder itself and from one below it. Each run has two
    steps: the answer that calls a tool, and the last one."""
    agent = played(within, folder, 6)
    found = status(within, folder)

    assert found == status(within, folder / "src")
    assert found["recent"] == within.json("checkpoints", cwd=folder)[:5]
    store = found.pop("store")
    assert store["bytes"] == sum(
        path.stat().st_size for path in Path(store["path"]).rglob("*") if path.is_file()
    )
    assert {key: value for key, value in found.items() if key != "recent"} == {
        "recorded": True, "kind": "folder", "how": "none", "work_tree": str(folder), "session": agent.session,
        "checkpoints": 6, "steps": 12, "retention_days": 30, "max_checkpoints": 100, "last_failure": None,
        "can_undo": False, "why": None, "notes": [],
    }  # fmt: skip


def test_bare_and_on_a_terminals_width(within: Within, folder: Path) -> None:
    """Bare is the status and a line of usage; `--json` with it is the status alone."""
    played(within, folder)
    bare = within.run("checkpoint", cwd=folder).out.decode()

    assert bare.startswith(within.run("checkpoint", "status", cwd=folder).out.decode())
    assert bare.rstrip().endswith("Usage: recorder checkpoint [status|undo]")
    assert within.json("checkpoint", cwd=folder) == status(within, folder)


def test_a_folder_where_nothing_is_recorded(within: Within, tmp_path: Path) -> None:
    """It says what the folder would be, and makes neither a home nor anything else."""
    repository = make_repository(tmp_path / "repository")
    (repository / "below").mkdir()
    (tmp_path / "plain").mkdir()
    user_home = Path(os.environ["HOME"])
    seen = {
        place: (found["recorded"], found["kind"], found["work_tree"], found["why"])
        for place in (repository / "below", tmp_path / "plain", user_home, Path("/"), within.base.parent)
        if (found := status(within, place))
    }

    assert seen == {
        repository / "below": (False, "repository", str(repository), None),
        tmp_path / "plain": (False, "folder", str(tmp_path / "plain"), None),
        user_home: (False, "per-file", str(user_home), "it is the user's home folder"),
        Path("/"): (False, "per-file", "/", "it is the root of the file system"),
        tmp_path: (False, "per-file", str(tmp_path), "it contains the recorder's own home"),
    }
    assert not within.home.exists()


def test_a_folder_that_is_too_big(within: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is per file, with the reason; it is counted no further than that is known."""
    monkeypatch.setattr("recorder.worktree.MAX_FOLDER_FILES", 10)
    listed: list[bytes] = []
    scandir = os.scandir
    for number in range(500):
        (tmp_path / "big" / f"f{number}").mkdir(parents=True)
        (tmp_path / "big" / f"f{number}" / "x").touch()

    def counting(path: Any) -> Any:
        listed.append(path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", counting)
    found = status(within, tmp_path / "big")

    assert found["kind"] == "per-file" and "more than 10 files" in found["why"]
    assert 0 < len(listed) < 1000


@pytest.mark.parametrize("where", ["gone", "a file"])
def test_a_folder_that_would_be_refused(within: Within, tmp_path: Path, where: str) -> None:
    """What is no folder, or is not there, is captured not at all, and the reason is given."""
    (tmp_path / "a file").touch()
    found = status(within, tmp_path, "--cwd", str(tmp_path / where))

    assert (found["recorded"], found["kind"]) == (False, "disabled")
    assert {"gone": "is not there", "a file": "is not a folder"}[where] in found["why"]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_recorder_that_is_switched_off(
    within: Within, folder: Path, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own setting it captures nothing anywhere; by one agent's switch nothing of that agent."""
    if recorded:
        played(within, folder, kind="claude")
    monkeypatch.setenv("CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING", "1")
    by_agent = status(within, folder)
    assert by_agent["kind"] == ("disabled" if recorded else "folder")
    told = by_agent["why"] if recorded else by_agent["notes"][0]
    assert "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING is set" in told
    monkeypatch.setenv("RECORDER_ENABLED", "false")
    by_setting = status(within, folder)

    assert (by_setting["kind"], by_setting["recorded"]) == ("disabled", recorded)
    assert "setting “enabled”" in by_setting["why"]


@pytest.mark.parametrize("how", ["gone", "replaced"])
def test_a_folder_that_is_not_what_was_captured(within: Within, folder: Path, how: str) -> None:
    """Its checkpoints are shown as not to be gone back to, by every command that shows them."""
    agent = played(within, folder)
    folder.rename(folder.with_name("moved"))
    if how == "replaced":
        folder.mkdir()
    words = ("--session", agent.session)
    found = status(within, folder.parent, *words)

    why = {"gone": "is not there", "replaced": "another folder than the one that was captured"}[how]
    assert found["recorded"] and any(why in note for note in found["notes"])
    documents = [*found["recent"], *within.json("checkpoints", *words, cwd=folder.parent)]
    documents.append(within.json("show", "1", *words, cwd=folder.parent))
    assert [(one["restorable"], why in one["why_not"]) for one in documents] == [(False, True)] * 5
    assert why in within.run("checkpoints", *words, cwd=folder.parent).out.decode()


def test_the_reason_stands_with_the_checkpoints(within: Within) -> None:
    """Of a per-file folder, and of one whose capture was refused, `checkpoints` says why."""
    home = Path(os.environ["HOME"])
    per_file, refused = played(within, home, 1), played(within, Path("/not/there"), 0)
    with within.watching() as watcher:
        watcher.prompt(refused, "one")
    (one,) = within.json("checkpoints", refused.session, cwd=home)

    assert "the user's home folder" in within.run("checkpoints", per_file.session, cwd=home).out.decode()
    assert not one["restorable"] and "is not there" in one["why_not"]
    assert "is not there" in within.run("checkpoints", refused.session, cwd=home).out.decode()
    found = status(within, home, "--session", refused.session)
    assert (found["recorded"], found["kind"]) == (False, "disabled") and "is not there" in found["why"]


def test_the_last_failure(within: Within, folder: Path) -> None:
    """A capture that failed is told with its checkpoint and the reason, and whether a later one was made."""
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "one", lambda one: one.write("new.txt", "1\n"))
        folder.rename(folder.with_name("away"))
        watcher.prompt(agent, "two")
        failure = status(within, folder.parent, "--session", agent.session)["last_failure"]
        folder.with_name("away").rename(folder)
        watcher.prompt(agent, "three", lambda one: one.write("new.txt", "3\n"))
    later = status(within, folder)["last_failure"]

    assert failure["checkpoint"]["number"] == 2 and "is not there" in failure["why"]
    assert (failure["healed"], later) == (False, {**failure, "healed": True})


def test_what_nobody_watched_is_no_failure(
    within: Within, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions that were imported, or given their prompts before the recorder watched, failed at nothing."""
    monkeypatch.setattr("projections.capture.STALE_NS", 0)
    for number, words in enumerate((("import", str(within.base)), ("watch", "--once"))):
        agent = within.agent("pi", folder)
        agent.give(f"prompt {number}")
        agent.done()
        within.run(*words, cwd=folder)
        found = status(within, folder, "--session", agent.session)
        assert (found["checkpoints"], found["last_failure"], found["recorded"]) == (1, None, False)


def test_how_it_is_captured(within: Within, folder: Path) -> None:
    """A watcher is seen by its lock, without disturbing it; a hook by what it captured last."""
    assert status(within, folder)["how"] == "none"
    recorder = Recorder(within.base)
    with recorder.watching() as watcher:
        assert status(within, folder)["how"] == "watch" and watcher.poll() is None
    assert status(within, folder)["how"] == "none"
    played(within, folder, 1)
    with contextlib.closing(sqlite3.connect(within.home / "views.db")) as views:
        views.execute("UPDATE captures SET source = 'hook'")
        views.commit()

    assert status(within, folder)["how"] == "hook"


@pytest.mark.parametrize("damage", ["store is gone", "no objects", "truncated pack"])
def test_a_broken_store(within: Within, folder: Path, damage: str) -> None:
    """It is said, and all that is known from the log is shown."""
    agent = played(within, folder)
    store = next((within.home / "trees").glob("*/store.git"))
    if damage == "store is gone":
        shutil.rmtree(store)
    elif damage == "no objects":
        shutil.rmtree(store / "objects")
    else:
        for pack in (store / "objects" / "pack").glob("*.pack"):
            pack.chmod(0o600)
            os.truncate(pack, 20)
    found = status(within, folder)

    assert (found["session"], found["checkpoints"], len(found["recent"])) == (agent.session, 2, 2)
    assert any("doctor --fix" in note for note in found["notes"])
    assert "damaged" in within.run("checkpoint", cwd=folder).out.decode()


def test_it_is_looked_at_without_a_trace(within: Within, folder: Path) -> None:
    """Nothing is captured, folded, rolled back or written, also where a rewind was killed and the views are
    behind, and no lock is waited for."""
    played(within, folder)
    died, _ = killed(8, ("rewind", "1", "--files"), folder)
    (folder / "notes.md").write_text("mine, later\n")
    before = traces(within, folder)
    with contextlib.ExitStack() as held:
        for name in os.listdir(within.home / "locks"):
            held.enter_context(Home(within.home).lock(name))
        views = held.enter_context(contextlib.closing(sqlite3.connect(within.home / "views.db")))
        views.execute("BEGIN IMMEDIATE")
        assert died and status(within, folder)["checkpoints"] == 2

    assert traces(within, folder) == before


def traces(within: Within, folder: Path) -> tuple[dict[Path, int], list[int]]:
    """When each file was written, and how far log and views are. When a database is closed, SQLite itself
    moves what stands in its write-ahead log, so that the times of its files say nothing."""
    files = [path for path in (*within.home.rglob("*"), *folder.rglob("*")) if ".db" not in path.name]
    ends = []
    for name, question in (("log", "MAX(rowid) FROM stored_events"), ("views", "position FROM folded")):
        with contextlib.closing(sqlite3.connect(within.home / f"{name}.db")) as database:
            ends.append(database.execute(f"SELECT {question}").fetchone()[0])
    return {path: path.lstat().st_mtime_ns for path in files if path != within.home}, ends


def test_undo_is_rewind_undo(within: Within, folder: Path) -> None:
    """The same document, the same options and the same answer where there is nothing to take back."""
    played(within, folder)
    assert within.json("checkpoint", "undo", cwd=folder, check=3)["error"]["code"] == "nothing_to_undo"
    within.run("rewind", "2", "--files", cwd=folder)
    assert status(within, folder)["can_undo"] and (folder / "new.txt").read_text() == "0\n"
    planned = within.json("checkpoint", "undo", "--files", "--dry-run", cwd=folder)
    assert planned == within.json("rewind", "--undo", "--files", "--dry-run", cwd=folder)
    done = within.json("checkpoint", "undo", "--files", "--yes", "--on-conflict", "refuse", cwd=folder)

    assert (done["status"], (folder / "new.txt").read_text()) == ("done", "1\n")
    assert not status(within, folder)["can_undo"]


def test_wrong_words(within: Within, folder: Path) -> None:
    """Options of `undo` are none of the status, nor are other words; a session that is not there is 3."""
    within.run("checkpoint", "status", "--dry-run", cwd=folder, check=2)
    within.run("checkpoint", "--on-conflict", "skip", cwd=folder, check=2)
    within.run("checkpoint", "redo", cwd=folder, check=2)
    within.run("checkpoint", "--session", "nobody", cwd=folder, check=3)
    played(within, folder)
    within.run("checkpoint", "--session", "nobody", cwd=folder, check=3)
