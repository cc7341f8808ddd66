"""What cannot be stored, and what is not what was stored any more: said, and never passed off as whole."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.events import Captured, CaptureFailed, CaptureRefused
from tests.capture.helpers import run_git
from tests.capture.test_git import put_in_place_of_git
from tests.cases.stage import Stage, impatient, played, saves, store_of
from tests.flow.conftest import snapshot
from tests.flow.within import whole


def full_where_files_are_kept(descriptor: int) -> None:
    if "/trees/" in os.readlink(f"/proc/self/fd/{descriptor}"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_case_24_no_capture_is_better_than_an_empty_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store cannot be written when the prompt comes: there is no checkpoint with nothing in it, and going
    back is refused before files or conversation are touched."""
    stage.play(stage.agent(), ())
    agent = stage.agent()
    saves("fresh", "1\n")(stage.folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_where_files_are_kept)
        stage.play(agent, (stage.write("notes.md", "2\n"),))
    before = (snapshot(stage.folder), agent.log.read_bytes())
    [one] = stage.json("checkpoints", agent.session)
    assert (one["state"], one["restorable"]) == ("lost", False) and one["why_not"]
    for words in (("rewind", "1"), ("rewind", "1", "--both"), ("undo",), ("rewind", "1", "--scope", "tree")):
        assert "error" in stage.json(*words, "--session", agent.session, check=None)
    assert (snapshot(stage.folder), agent.log.read_bytes()) == before
    with stage.within.recording() as recording:
        facts = [one.fact for one in whole(recording)]
    assert all(fact.commit for fact in facts if isinstance(fact, Captured))
    assert [fact for fact in facts if isinstance(fact, CaptureFailed | CaptureRefused)]


def test_case_82_a_git_that_waits_for_input_holds_nothing_up(
    place: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every call of git reads until its input ends, or never ends at all: the capture is over within the
    deadline and says what it did not learn; the next one is whole."""
    agent = place.agent()
    with place.within.watching() as watcher:
        with monkeypatch.context() as patch:
            impatient(patch)
            hangs = 'cat > /dev/null\ncase "$*" in *config*) exit 1;; esac\nsleep 60'
            put_in_place_of_git(tmp_path, patch, hangs)
            agent.give("hangs")
            begun = time.monotonic()
            watcher.look(agent)
            assert time.monotonic() - begun < 20
        agent.done()
        watcher.look(agent)
        watcher.prompt(agent, "whole")
    second, first = place.json("checkpoints")
    assert first["state"] in ("partial", "lost") and first["why_not"]
    assert second["state"] == "complete"


@pytest.mark.parametrize("damage", ["blob", "tree", "commit"])
def test_case_57_a_damaged_checkpoint_is_not_a_missing_one(damage: str, plain: Stage) -> None:
    """A byte of every stored content, folder or capture is another one: it is told as damage, with an exit
    code of its own, and a rewind gives what stood there or changes nothing."""
    start = snapshot(plain.folder)
    played(plain)
    before = snapshot(plain.folder)
    flip_a_byte_of_each(damage, store_of(plain))
    answer = plain.within.run("cat", "1", "notes.md", cwd=plain.folder, check=5)
    assert answer.out == b"" and re.search("integrity|damaged|not what was stored", answer.err), answer
    for scope in ("session", "tree"):
        done = plain.rewind("1", "--scope", scope, check=None)
        assert snapshot(plain.folder) == (start if done.get("status") == "done" else before), done
        if done.get("status") == "done":
            plain.rewind("--undo")


def flip_a_byte_of_each(kind: str, store: Path) -> None:
    """In every pack, in the middle of what is stored of each object of a kind."""
    for pack in store.glob("objects/pack/*.pack"):
        listed = run_git(store, "verify-pack", "-v", str(pack.with_suffix(".idx"))).decode()
        rows = [row.split() for row in listed.splitlines()]
        content = bytearray(pack.read_bytes())
        for row in rows:
            if len(row) >= 5 and row[1] == kind:
                size, offset = int(row[3]), int(row[4])
                content[offset + size // 2] ^= 0xFF
        pack.chmod(0o600)
        pack.write_bytes(content)


@contextlib.contextmanager
def changing_events(stage: Stage) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(stage.within.home / "log.db")) as connection, connection:
        yield connection


def test_case_57_a_changed_event_is_found(place: Stage) -> None:
    """One byte of one event in the log: whatever reads the log from the start fails its check and says so."""
    played(place)
    with changing_events(place) as connection:
        rowid, state = connection.execute(
            "SELECT rowid, state FROM stored_events WHERE topic LIKE '%PromptGiven%' LIMIT 1"
        ).fetchone()
        changed = bytearray(state)
        changed[-1] ^= 1
        connection.execute("UPDATE stored_events SET state = ? WHERE rowid = ?", (bytes(changed), rowid))
    with place.within.recording() as recording:
        assert len(list(recording.log.check())) == 1


def test_case_94_what_is_derived_is_computed_anew(stage: Stage) -> None:
    """Killed between the log and what is derived from it, or that is lost, empty or from earlier: the next
    command folds it from the log, and the branch goes on where the log says."""
    agent, words = stage.agent(), [("checkpoints",), ("tree",), ("show", "1")]
    stage.play(agent, (stage.write("f", "1"),))
    early = _copied(stage.within.home)
    stage.play(agent, (stage.write("f", "2"),))
    now = [stage.json(*one) for one in words]
    for views in (None, b"", early):
        for path in stage.within.home.glob("views.db*"):
            path.unlink()
        if views is not None:
            (stage.within.home / "views.db").write_bytes(views)
        assert [stage.json(*one) for one in words] == now
    stage.rewind("2")
    assert (stage.folder / "f").read_text() == "1"


def _copied(home: Path) -> bytes:
    """The views as they stand in their file, all in one."""
    with contextlib.closing(sqlite3.connect(home / "views.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (home / "views.db").read_bytes()


def test_case_94_a_missing_event_is_found_and_the_rest_is_there(stage: Stage) -> None:
    """An event is gone from the log: the check finds the place, and everything else can be looked at and gone
    back to."""
    agent = stage.agent()
    stage.play(agent, (stage.write("f", "1"),), (stage.write("f", "2"),), (stage.write("f", "3"),))
    with changing_events(stage) as connection:
        gone = "SELECT MIN(rowid) FROM stored_events WHERE topic LIKE '%ToolReturned%'"
        assert connection.execute(f"DELETE FROM stored_events WHERE rowid = ({gone})").rowcount == 1
    with stage.within.recording() as recording:
        assert list(recording.log.check())
    for path in stage.within.home.glob("views.db*"):
        path.unlink()
    assert [one["number"] for one in stage.json("checkpoints")] == [3, 2, 1]
    stage.rewind("3")
    assert (stage.folder / "f").read_text() == "2"
