"""What is really broken is found and said, what can be mended is, and a second look finds nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from cli.checks.home import check_room
from projections.capture import STALE_NS
from recorder.home import Home
from recorder.recording import lock_name
from tests.flow.conftest import ENTRY, Recorder, snapshot
from tests.flow.within import Within, killed
from tests.rights import BOUND_BY_MODES


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def recorded(within: Within, folder: Path) -> Within:
    """One session with two prompts, recorded some time ago: no agent is at work now."""
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("new.txt", "x\n"))
        watcher.prompt(agent, "more", lambda one: one.write("new.txt", "y\n"))
    os.utime(agent.log, (1e9, 1e9))
    return within


def codes(document: dict[str, Any], kind: str = "problems") -> list[str]:
    return [one["code"] for one in document[kind]]


def doctor(within: Within, *words: str, check: int | None = 0) -> Any:
    return within.json("doctor", *words, cwd=within.base.parent, check=check)


def healed(within: Within, code: str, *, exits: int) -> str:
    """One problem is found, told by an exit code, mended, and gone; returns the sentence about it. Views that
    a killed command left behind are none of it."""
    problems = doctor(within, check=exits)["problems"]
    (found,) = [one for one in problems if one["code"] == code]
    assert found["message"] and found["fix"] and set(codes({"problems": problems})) <= {code, "views_behind"}
    mended = doctor(within, "--fix")
    assert code in codes(mended, "fixed") and mended["problems"] == []
    assert doctor(within) == {"problems": [], "fixed": []}
    return str(found["message"])


def test_a_healthy_recording_has_no_problems(recorded: Within) -> None:
    """Nothing is wrong with what was recorded, and the doctor says so and changes nothing."""
    before = {path: path.stat().st_mtime_ns for path in recorded.home.rglob("*") if path.suffix != ".db-shm"}

    assert doctor(recorded) == {"problems": [], "fixed": []}
    assert doctor(recorded, "--fix") == {"problems": [], "fixed": []}
    assert recorded.run("doctor", cwd=recorded.base).out.decode().strip() == "Nothing is wrong."
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_machine_with_nothing_recorded_has_no_problems(within: Within, tmp_path: Path) -> None:
    """No home is no problem, and none is made for the question."""
    assert within.json("doctor", "--fix", cwd=tmp_path) == {"problems": [], "fixed": []}
    assert not within.home.exists()


# ---- the home


def test_a_home_that_others_can_read(recorded: Within) -> None:
    """Folders and files of the home are private again."""
    for path, mode in (
        (recorded.home, 0o755),
        (recorded.home / "log.db", 0o644),
        (recorded.home / "trees", 0o750),
    ):
        path.chmod(mode)

    assert "3 files or folders" in healed(recorded, "home_open", exits=1)
    assert recorded.home.stat().st_mode & 0o777 == 0o700
    assert (recorded.home / "log.db").stat().st_mode & 0o777 == 0o600


def test_a_home_that_its_owner_cannot_use(recorded: Within, folder: Path) -> None:
    """What is closed to the owner is opened before anything that needs it is looked at."""
    recorded.home.chmod(0o500)
    (recorded.home / "log.db").chmod(0o400)
    for closed in (next((recorded.home / "trees").iterdir()), recorded.home / "trees"):
        closed.chmod(0o000)
    found = _unprivileged(recorded, "doctor", "--json", cwd=folder)
    assert codes(found)[0] == "home_closed" and set(codes(found)[1:]) <= {"not_examined"}
    mended = _unprivileged(recorded, "doctor", "--fix", "--json", cwd=folder)

    assert (codes(mended, "fixed"), codes(mended)) == (["home_closed"], [])
    assert codes(_unprivileged(recorded, "doctor", "--json", cwd=folder)) == []
    assert len(_unprivileged(recorded, "checkpoints", "--json", cwd=folder)) == 2


def _unprivileged(within: Within, *words: str, cwd: Path) -> Any:
    """A command in a process that file modes bind, also where the tests run as root."""
    done = subprocess.run(
        [*BOUND_BY_MODES, sys.executable, "-I", str(ENTRY), *words], cwd=cwd, capture_output=True, check=False
    )
    return json.loads(done.stdout)


def test_a_home_that_cannot_be_entered(recorded: Within, folder: Path) -> None:
    """It is said, is not touched (who knows whose it is), and hides nothing of what is around it."""
    recorded.home.chmod(0o000)
    (recorded.base / "pi" / "sessions").chmod(0o000)
    found = _unprivileged(recorded, "doctor", "--fix", "--json", cwd=folder)

    assert codes(found) == ["home_unusable", "logs_unreadable"]
    assert recorded.home.stat().st_mode & 0o777 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_home_with_somebody_elses_files(recorded: Within) -> None:
    """Nobody but root can mend it, so it is told with the command and stays."""
    os.chown(recorded.home / "views.db", 4242, 4242)
    found = doctor(recorded, "--fix", check=1)

    assert codes(found) == ["home_foreign"] and "chown" in found["problems"][0]["fix"]
    assert (recorded.home / "views.db").stat().st_uid == 4242


def test_a_disk_that_is_nearly_full(recorded: Within) -> None:
    """Little room is advice, next to none a problem, by what the disk says is free."""
    home, free = Home(recorded.home), shutil.disk_usage(recorded.home).free

    assert [one.gravity for one in check_room(home, room=free * 2, scarce=0)] == ["advice"]
    assert [one.gravity for one in check_room(home, room=free * 2, scarce=free * 2)] == ["fault"]
    assert list(check_room(home, room=0)) == []


# ---- the record


def test_an_event_that_was_changed(recorded: Within) -> None:
    """A byte of an event that is not as appended is told with its position, as a failed integrity check, and
    is nothing that could be mended; what else is wrong is told too."""
    _alter(recorded, "UPDATE stored_events SET state = CAST(state || x'c0' AS BLOB) WHERE rowid = 3")
    recorded.home.chmod(0o755)
    found = doctor(recorded, check=5)

    assert codes(found) == ["home_open", "log_changed"] and "event 3" in found["problems"][1]["message"]
    assert codes(doctor(recorded, "--fix", check=6)) == ["log_changed"]
    assert codes(doctor(recorded, "--fix", check=5)) == ["log_changed"]


def test_only_the_newest_events_are_walked(recorded: Within, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at the chain does not grow with the log; the end of it is looked at."""
    monkeypatch.setattr("cli.checks.record.NEWEST", 5)
    _alter(recorded, "UPDATE stored_events SET state = CAST(state || x'c0' AS BLOB) WHERE rowid = 3")
    assert doctor(recorded)["problems"] == []
    _alter(recorded, "DELETE FROM stored_events WHERE rowid = (SELECT MAX(rowid) FROM stored_events)")

    assert "log_changed" in codes(doctor(recorded, check=5))


def _alter(within: Within, *statements: str) -> None:
    connection = sqlite3.connect(within.home / "log.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_log_that_is_none(recorded: Within) -> None:
    """The log is told of, and what does not need it is looked at all the same."""
    (recorded.home / "log.db").write_bytes(b"no database at all" * 100)
    for name in ("log.db-wal", "log.db-shm"):
        (recorded.home / name).unlink(missing_ok=True)
    (recorded.base / "pi" / "sessions").chmod(0o000)
    found = _unprivileged(recorded, "doctor", "--json", cwd=recorded.base)

    assert codes(found) == ["log_unusable", "logs_unreadable"]


@pytest.mark.parametrize("how", ["overwritten", "truncated", "garbled"])
def test_views_that_are_damaged(recorded: Within, folder: Path, how: str) -> None:
    """They are folded anew from the log, and show what they showed."""
    before = recorded.json("checkpoints", cwd=folder)
    with contextlib.closing(sqlite3.connect(recorded.home / "views.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        tables = connection.execute("SELECT rootpage FROM sqlite_master WHERE name <> 'folded'").fetchall()
    content = bytearray((recorded.home / "views.db").read_bytes())
    for (number,) in tables if how == "garbled" else ():
        content[(number - 1) * page : number * page] = b"\x55" * page
    (recorded.home / "views.db").write_bytes(
        {"overwritten": b"x" * 9000, "truncated": bytes(content[:5000]), "garbled": bytes(content)}[how]
    )
    status = recorded.json("checkpoint", cwd=folder)
    assert [one["number"] for one in status["recent"]] == [2, 1]

    healed(recorded, "views_damaged", exits=5)
    assert recorded.json("checkpoints", cwd=folder) == before


def test_views_that_are_behind(recorded: Within, folder: Path) -> None:
    """That is no fault, since whatever is next brings them up; a screen on the folder does not need it."""
    with contextlib.closing(sqlite3.connect(recorded.home / "views.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    older = (recorded.home / "views.db").read_bytes()
    agent = recorded.agent("claude", folder)
    with recorded.watching() as watcher:
        watcher.prompt(agent, "third", lambda one: one.write("third.txt", "x\n"))
    os.utime(agent.log, (1e9, 1e9))
    (recorded.home / "views.db-wal").unlink(missing_ok=True)
    (recorded.home / "views.db").write_bytes(older)
    assert recorded.json("checkpoint", cwd=folder)["session"] == agent.session

    assert "behind" in healed(recorded, "views_behind", exits=0)


def test_views_of_a_log_that_was_cut(recorded: Within, folder: Path) -> None:
    """Views that know more than the log are never believed: they are folded anew from what it has."""
    _alter(
        recorded,
        "DELETE FROM stored_events WHERE rowid > 6",
        "UPDATE sqlite_sequence SET seq = 6 WHERE name = 'stored_events'",
    )
    assert len(recorded.json("checkpoint", cwd=folder)["recent"]) < 2

    healed(recorded, "views_ahead", exits=5)


# ---- the stores


def _a_store(within: Within) -> Path:
    return next((within.home / "trees").glob("*/store.git"))


def _damage_store(store: Path, damage: str) -> None:
    if damage == "gone":
        shutil.rmtree(store)
    elif damage == "no refs":
        shutil.rmtree(store / "refs")
    elif damage == "no configuration":
        (store / "config").write_bytes(bytes(300))
    elif damage == "stale lock":
        (store / "packed-refs.lock").touch()
        os.utime(store / "packed-refs.lock", (1e9, 1e9))
    elif damage == "half a pack":
        (store / "objects" / "pack" / "tmp_pack_4242").write_bytes(b"PACK")
        os.utime(store / "objects" / "pack" / "tmp_pack_4242", (1e9, 1e9))
    elif damage == "no index":
        for index in (store / "objects" / "pack").glob("*.idx"):
            index.unlink()


@pytest.mark.parametrize(
    ("damage", "exits"),
    [("no refs", 5), ("no configuration", 1), ("stale lock", 1), ("half a pack", 1), ("no index", 5)],
)
def test_a_store_that_is_damaged(recorded: Within, folder: Path, damage: str, exits: int) -> None:
    """It is repaired so that its checkpoints can be gone back to as before."""
    _damage_store(_a_store(recorded), damage)

    healed(recorded, "store_damaged", exits=exits)
    recorded.run("rewind", "2", "--files", cwd=folder)
    assert (folder / "new.txt").read_text() == "x\n"


@pytest.mark.parametrize("damage", ["gone", "truncated"])
def test_contents_that_are_lost_for_good(recorded: Within, folder: Path, damage: str) -> None:
    """What cannot be brought back is told when it is found, and then by its checkpoints; what is captured
    next is whole."""
    store = _a_store(recorded)
    if damage == "gone":
        _damage_store(store, "gone")
    for pack in (store / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        os.truncate(pack, 40)
    assert codes(doctor(recorded, check=5)) == ["store_damaged"]
    mended = doctor(recorded, "--fix", check=6)
    assert (codes(mended, "fixed"), codes(mended)) == (["store_damaged"], ["contents_lost"])
    assert doctor(recorded)["problems"] == []
    assert all(one["why_not"] for one in recorded.json("checkpoints", cwd=folder))
    agent = recorded.agent("pi", folder)
    with recorded.watching() as watcher:
        watcher.prompt(agent, "on", lambda one: one.write("on.txt", "x\n"))

    assert recorded.json("checkpoints", agent.session, cwd=folder)[0]["state"] == "complete"


def test_one_broken_store_hides_nothing(recorded: Within, folder: Path, tmp_path: Path) -> None:
    """Two stores that are damaged, another folder that is gone, a home that is open: each is told."""
    other, gone = tmp_path / "other", tmp_path / "gone"
    for place in (other, gone):
        place.mkdir()
        agent = recorded.agent("pi", place)
        with recorded.watching() as watcher:
            watcher.prompt(agent, "write", lambda one: one.write("new.txt", "x\n"))
        os.utime(agent.log, (1e9, 1e9))
    shutil.rmtree(gone)
    for store in (recorded.home / "trees").glob("*/store.git"):
        _damage_store(store, "no refs")
    recorded.home.chmod(0o755)
    found = doctor(recorded, check=5)
    assert codes(found) == ["home_open", "store_damaged", "store_damaged", "store_damaged", "tree_gone"]
    assert all(any(str(place) in one["message"] for one in found["problems"]) for place in (folder, other))

    assert codes(doctor(recorded, "--fix")) == codes(doctor(recorded)) == ["tree_gone"]


# ---- the work trees


def test_a_rewind_that_was_killed(recorded: Within, folder: Path) -> None:
    """Wherever it was killed, the doctor tells of it and leaves the files to --fix, after which they are as
    before, or as they should have become, and nothing is wrong."""
    before, target, told = snapshot(folder), {**snapshot(folder)}, 0
    del target["new.txt"]
    for at in range(3, 100, 3):
        died, _ = killed(at, ("rewind", "1", "--files"), folder)
        broken = snapshot(folder)
        if not died:
            break
        if "rewind_unfinished" in codes(doctor(recorded, check=None)):
            told += 1
            assert snapshot(folder) == broken
            healed(recorded, "rewind_unfinished", exits=1)
        assert snapshot(folder) in (before, target)
        recorded.run("rewind", "--undo", "--files", cwd=folder, check=None)

    assert told > 1 and snapshot(folder) == target


def test_a_rewind_at_work_is_no_problem(recorded: Within, folder: Path) -> None:
    """Who holds the work tree's lock is at work: nothing was broken off."""
    died, _ = killed(8, ("rewind", "1", "--files"), folder)
    (tree,) = map(UUID, os.listdir(recorded.home / "trees"))
    with Home(recorded.home).lock(lock_name(tree)):
        assert died and "rewind_unfinished" not in codes(doctor(recorded))
    assert "rewind_unfinished" in codes(doctor(recorded, check=1))


@pytest.mark.parametrize("how", ["gone", "replaced"])
def test_a_folder_that_is_not_there_any_more(recorded: Within, folder: Path, how: str) -> None:
    """Its checkpoints cannot be gone back to: that is advice, since projects come and go."""
    folder.rename(folder.with_name("moved"))
    if how == "replaced":
        folder.mkdir()
    (found,) = doctor(recorded)["problems"]

    assert found["code"] == f"tree_{how}" and str(folder) in found["message"]


def test_a_home_folder_is_told_as_per_file(within: Within) -> None:
    """$HOME is recorded per file, with the reason, and that is advice."""
    home = Path(os.environ["HOME"])
    agent = within.agent("pi", home)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("doc.txt", "x\n"))
    os.utime(agent.log, (1e9, 1e9))
    (found,) = doctor(within)["problems"]

    assert found["code"] == "tree_per_file" and "the user's home folder" in found["message"]


# ---- the sessions


def test_a_session_without_a_checkpoint(within: Within, folder: Path) -> None:
    """Prompts of which not one was captured are an error with the reason, until a later session is."""
    gone = folder.with_name("gone")
    agent = within.agent("pi", gone)
    with within.watching() as watcher:
        watcher.prompt(agent, "one")
        watcher.prompt(agent, "two")
        os.utime(agent.log, (1e9, 1e9))
        (found,) = doctor(within, check=1)["problems"]
        assert found["code"] == "no_checkpoints"
        assert "0 checkpoints for 2 prompts" in found["message"] and "is not there" in found["message"]
        gone.mkdir()
        later = within.agent("pi", gone)
        watcher.prompt(later, "three")
    os.utime(later.log, (1e9, 1e9))

    assert doctor(within)["problems"] == []


@pytest.mark.parametrize("wish", ["switched off", "imported", "late", "of another machine"])
def test_sessions_that_nobody_meant_to_capture(
    within: Within, folder: Path, wish: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the user switched off, imported, or did not watch is no fault of the recording."""
    if wish == "switched off":
        monkeypatch.setenv("RECORDER_ENABLED", "false")
    monkeypatch.setattr("projections.capture.STALE_NS", 0 if wish == "late" else STALE_NS)
    agent = within.agent("claude", Path("/remote/work") if wish == "of another machine" else folder)
    if wish in ("imported", "late"):
        agent.give("one")
        agent.done()
        within.run(*(("import", str(agent.log)) if wish == "imported" else ("watch", "--once")), cwd=folder)
    else:
        with within.watching() as watcher:
            watcher.prompt(agent, "one")
    os.utime(agent.log, (1e9, 1e9))
    found = doctor(within, check=None)

    expected = {"switched off": ["no_checkpoints"], "of another machine": ["no_checkpoints"]}
    assert codes(found) == expected.get(wish, [])
    if wish == "switched off":
        assert "switched off" in found["problems"][0]["message"] and doctor(within)


# ---- around it


def test_no_git(recorded: Within, tmp_path: Path) -> None:
    """A git that is missing, too old, or does not work is told, with what to do."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    said = {}
    for name, script in (
        ("missing", None),
        ("old", "echo git version 2.33.9"),
        ("broken", "echo oh no; exit 3"),
        ("new", "echo git version 2.34.0"),
    ):
        if script:
            (bin_folder / "git").write_text(f"#!/bin/sh\n{script}\n")
            (bin_folder / "git").chmod(0o755)
        done = subprocess.run(
            [sys.executable, "-I", str(ENTRY), "doctor", "--json"],
            cwd=tmp_path, env={**os.environ, "PATH": str(bin_folder)}, capture_output=True, check=False,
        )  # fmt: skip
        said[name] = (done.returncode, codes(json.loads(done.stdout)))

    fault = (1, ["git_missing"])
    assert said == {"missing": fault, "old": (1, ["git_old"]), "broken": fault, "new": (0, [])}


def test_settings_that_are_no_good(recorded: Within, folder: Path) -> None:
    """Every bad value is told with its file and line, the user's and the project's."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "recorder" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("enabled = true\nretention_days = 'many'\n")
    (folder / ".recorder.toml").write_text("exclude = ['*.log']\nenabled = false\n")
    found = doctor(recorded, check=1)["problems"]

    assert [one["code"] for one in found] == ["setting", "setting"]
    assert f"{folder}/.recorder.toml, line 2" in found[0]["message"]
    assert f"{config}, line 2" in found[1]["message"]
    config.write_text("enabled = \n")
    assert "line 1" in doctor(recorded, check=1)["problems"][1]["message"]


def test_agents_folders(recorded: Within, folder: Path) -> None:
    """A log or a folder of logs that cannot be read is a problem; a folder that is gone is advice."""
    sessions = recorded.pi_folder / "sessions"
    log = next(sessions.rglob("*.jsonl"))
    for closed, told in (
        (log, "1 file cannot be read"),
        (log.parent, "Permission denied"),
        (sessions, "cannot"),
    ):
        mode = closed.stat().st_mode & 0o777
        closed.chmod(0o000)
        (found,) = _unprivileged(recorded, "doctor", "--json", cwd=folder)["problems"]
        assert found["code"] == "logs_unreadable" and told in found["message"], closed
        closed.chmod(mode)
    shutil.rmtree(sessions)

    assert codes(doctor(recorded)) == ["logs_missing"]


def test_nobody_watches_while_an_agent_is_at_work(recorded: Within, folder: Path) -> None:
    """It is advice as long as nobody watches; a watcher is seen without being disturbed."""
    recorded.agent("pi", folder).give("and now?")
    assert codes(doctor(recorded)) == ["not_watched"]
    recorder = Recorder(recorded.base)
    with recorder.watching() as watcher:
        assert codes(doctor(recorded)) == [] and watcher.poll() is None


def test_one_look_that_fails_hides_no_other(recorded: Within) -> None:
    """A row that cannot be read spoils the looks that need it, each says so, and all others are taken; for a
    command it is damage of the views."""
    with contextlib.closing(sqlite3.connect(recorded.home / "views.db", isolation_level=None)) as connection:
        connection.execute(
            "INSERT INTO operations (operation, tree, state) VALUES ('o', CAST(x'ff' AS TEXT), 'planned')"
        )
    recorded.home.chmod(0o755)
    found = doctor(recorded, check=1)

    assert codes(found) == ["home_open", "not_examined"] and "rewinds" in found["problems"][1]["message"]
    said = recorded.run("sessions", cwd=recorded.base, check=5)
    assert "the views are damaged" in said.err and "recorder rebuild" in said.err
    recorded.run("rebuild", cwd=recorded.base)
    assert codes(doctor(recorded, check=1)) == ["home_open"]
