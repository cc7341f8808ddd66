"""What is kept, for how long, for which versions, and who may read it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from recorder.eventlog import mapper
from recorder.events import StepEnded
from tests.capture.helpers import everything, run_git
from tests.cases.stage import Stage, by_shell, played, saves, store_of
from tests.flow.conftest import snapshot
from tests.flow.within import Within


def test_case_67_what_is_kept_stays_whole(plain: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than checkpoints are kept: the oldest that is left gives every file as it was, also one that
    only a retired run changed."""
    agent, states = plain.agent(), []
    for number in range(1, 7):
        states.append(snapshot(plain.folder))
        plain.play(agent, (by_shell(saves("f", f"of run {number}\n"), saves(f"new-{number}", "1\n")),))
    monkeypatch.setenv("RECORDER_MAX_CHECKPOINTS", "2")
    pruned = plain.json("prune")
    run_git(store_of(plain), "gc", "--prune=now", "--quiet")
    assert [one["number"] for one in pruned["kept"]] == [5, 6]
    assert all("more than 2" in one["reason"] for one in pruned["retired"])
    plain.rewind("5")
    assert snapshot(plain.folder) == states[4]
    refused = plain.rewind("1", check=4)
    assert "error" in refused and snapshot(plain.folder) == states[4]


def test_case_58_what_a_newer_version_wrote_is_no_forgery(
    place: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events with a field more than this version knows, and events of a type that it does not know: the check
    finds nothing wrong, and the rest is read and gone back to."""
    start, pack = snapshot(place.folder), mapper._pack
    topics = {**mapper._TOPICS, StepEnded: "StepEnded.9"}
    with monkeypatch.context() as patch:
        patch.setattr(mapper, "_pack", lambda fact: pack([*msgspec.msgpack.decode(pack(fact)), "more"]))
        patch.setattr(mapper, "_TOPICS", topics)
        played(place)
    with place.within.recording() as recording:
        assert list(recording.log.check()) == []
    assert [one["state"] for one in place.json("checkpoints")] == ["complete"] * 2
    place.rewind("1")
    assert snapshot(place.folder) == start


def test_case_58_what_the_first_version_wrote_is_read(within: Within, tmp_path: Path) -> None:
    """A home of the first version: nothing in it looks tampered with, and its sessions are shown."""
    shutil.copytree(Path(__file__).parents[1] / "stores" / "v1", within.home)
    with within.recording() as recording:
        assert list(recording.log.check()) == []
    assert within.json("sessions", "--all", cwd=tmp_path)


def test_case_85_nobody_else_reads_what_is_kept(stage: Stage) -> None:
    """Whatever the user's mask: folders of the home are 0700 and files 0600; a secret that a tool prints is
    in no file of the home, and what `.env` holds is in no looking command."""
    token = "sk-ant-api03-" + "a1B2c3D4" * 11 + "-AAAAAAAA"
    (stage.folder / ".gitignore").write_text(".env\n")
    (stage.folder / ".env").write_text("PASSWORD=correct-horse-battery\n")
    old = os.umask(0o022)
    try:
        agent = stage.agent()
        agent_tool = "bash" if stage.kind == "pi" else "Bash"
        stage.play(agent, (lambda one: one.use(agent_tool, {"command": f"echo {token}"}, lambda: None),))
        stage.rewind("1")
    finally:
        os.umask(old)
    for path in (stage.within.home, *stage.within.home.rglob("*")):
        mode = path.stat().st_mode & 0o777
        assert mode & 0o077 == 0, (path, oct(mode))
        if path.is_file():
            assert token.encode() not in path.read_bytes(), path
    for words in (("log",), ("tree",), ("show", "1"), ("checkpoints",), ("sessions",)):
        answer = stage.within.run(*words, "--json", cwd=stage.folder)
        assert b"correct-horse" not in answer.out and token.encode() not in answer.out


def test_case_99_looking_and_settings_touch_nothing(plain: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large file appears and settings come and go: no looking command captures, no setting writes or
    removes anything in the project, and no undo is needed for it."""
    (plain.folder / ".gitignore").write_text("*.cache\n")
    (plain.folder / "x.cache").write_text("1\n")
    played(plain)
    (plain.folder / "big.bin").write_bytes(b"x" * (10 << 20))
    before, looking = (
        everything(plain.folder),
        [("sessions",), ("checkpoints",), ("show", "1"), ("diff", "1")],
    )
    for include in ("*.cache", ""):
        monkeypatch.setenv("RECORDER_INCLUDE_IGNORED", include)
        for words in (*looking, ("log",), ("config", "list")):
            plain.within.run(*words, cwd=plain.folder)
        plain.within.run("watch", "--once", cwd=plain.folder)
    plain.within.news()
    for words in looking:
        plain.within.run(*words, cwd=plain.folder)
    assert plain.within.news() == [] and everything(plain.folder) == before
    plain.rewind("1")
    assert (plain.folder / "big.bin").exists() and (plain.folder / "x.cache").exists()
