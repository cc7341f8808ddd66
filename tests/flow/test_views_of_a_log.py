"""Views are believed only where they are of the log that is there, and whole."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from projections.views import OF_ANOTHER_LOG, rebuild, views_as_of
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import snapshot
from tests.flow.within import Within


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


def _on_disk(home: Path, name: str) -> Path:
    """A database of the home, with nothing left beside it."""
    with contextlib.closing(sqlite3.connect(home / name)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return home / name


def _remove(database: Path) -> None:
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def _record(within: Within, folder: Path, *contents: str) -> None:
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        for content in contents:
            watcher.prompt(agent, content, _writes(content))
    os.utime(agent.log, (1e9, 1e9))


def _writes(content: str) -> Callable[[Pi | Claude], object]:
    return lambda agent: agent.write("new.txt", content)


def _swap_log(within: Within, folder: Path, how: str) -> None:
    """Three prompts are recorded; then the log is the one of before the third, or none."""
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "one", lambda one: one.write("new.txt", "1"))
        watcher.prompt(agent, "two", lambda one: one.write("new.txt", "2"))
    older = _on_disk(within.home, "log.db").read_bytes()
    with within.watching() as watcher:
        watcher.prompt(agent, "three", lambda one: one.write("new.txt", "3"))
    os.utime(agent.log, (1e9, 1e9))
    _remove(_on_disk(within.home, "log.db"))
    if how == "older":
        (within.home / "log.db").write_bytes(older)
        (within.home / "log.db").chmod(0o600)


def _agree(within: Within) -> None:
    """The stored views say what a fold of the whole log says."""
    with within.recording() as recording, views_as_of(recording.log, None) as anew:
        stored = list(recording.views.connection.iterdump())
        assert stored == list(anew.connection.iterdump())


def test_a_rewind_after_the_log_was_put_back_from_an_older_copy(within: Within, folder: Path) -> None:
    """The rewind is decided by the log that is there, is undone when asked, and the doctor finds nothing."""
    _swap_log(within, folder, "older")
    before = snapshot(folder)

    rewind = ("rewind", "1", "--files", "--on-conflict", "overwrite")
    said = within.run(*rewind, "--yes", cwd=folder)
    assert OF_ANOTHER_LOG in said.err and not (folder / "new.txt").exists()
    _agree(within)
    within.run("rewind", "--undo", "--yes", cwd=folder)
    assert snapshot(folder) == before
    assert {one["code"] for one in within.json("doctor", cwd=folder)["problems"]} <= {"views_behind"}
    _agree(within)


def test_a_rewind_after_the_log_was_deleted(within: Within, folder: Path) -> None:
    """A new log knows of no checkpoint: nothing is rewound by what only the old views knew."""
    _swap_log(within, folder, "deleted")
    before = snapshot(folder)

    said = within.run("rewind", "1", "--files", "--yes", cwd=folder, check=3)
    assert OF_ANOTHER_LOG in said.err
    assert "can be undone" not in said.out.decode()
    within.run("rewind", "--undo", "--yes", cwd=folder, check=3)
    assert snapshot(folder) == before
    found = {one["code"] for one in within.json("doctor", cwd=folder, check=None)["problems"]}
    assert not {one for one in found if one.startswith("views")}
    _agree(within)


@pytest.mark.parametrize("how", ["older", "deleted"])
def test_a_log_that_has_grown_past_the_views(within: Within, folder: Path, how: str) -> None:
    """The doctor tells by the chain's digest, not by the position alone; a screen that only looks is right
    already, and any command mends it."""
    _swap_log(within, folder, how)
    views = _on_disk(within.home, "views.db").read_bytes()
    _remove(within.home / "views.db")
    _record(within, folder, *"abcdef")
    _remove(_on_disk(within.home, "views.db"))
    (within.home / "views.db").write_bytes(views)

    assert within.json("checkpoint", cwd=folder)["checkpoints"] == 6
    problems = within.json("doctor", cwd=folder, check=5)["problems"]
    assert [one["code"] for one in problems if one["code"].startswith("views")] == ["views_of_another_log"]
    mended = within.json("doctor", "--fix", cwd=folder, check=None)
    assert "views_of_another_log" in [one["code"] for one in mended["fixed"]]
    _agree(within)


def test_open_views_notice_that_they_are_of_another_log(within: Within, folder: Path) -> None:
    """A catch-up asks as an opening does; what was folded anew has the digest of where it stands."""
    _record(within, folder, "1", "2")
    with within.recording() as recording:
        views = recording.views
        views.connection.execute("UPDATE folded SET digest = 'another'")
        views.connection.execute("DELETE FROM checkpoints")
        assert views.catch_up() == recording.log.head().position
        assert views.connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0] == 2
        rebuild(views)
        stands = views.connection.execute("SELECT position, digest FROM folded").fetchone()
        head = recording.log.head()
        assert tuple(stands) == (head.position, head.digest)
        assert recording.log.digest_at(head.position + 1) is None


def _flip_in_schema(home: Path, table: str, column: str) -> None:
    """One bit of a column's name, in the text that the database keeps of a table."""
    file = _on_disk(home, "views.db")
    _remove_beside(file)
    content = bytearray(file.read_bytes())
    at = re.search(rb"CREATE TABLE %s \(.*?\b(%s)\b" % (table.encode(), column.encode()), content, re.DOTALL)
    assert at is not None
    content[at.start(1)] ^= 1
    file.write_bytes(bytes(content))


def _remove_beside(file: Path) -> None:
    for suffix in ("-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)


def test_views_that_do_not_say_where_they_stand(within: Within, folder: Path) -> None:
    """They are damage to the doctor, and folded anew by whatever command is next."""
    _record(within, folder, "1", "2")
    before = within.json("checkpoints", cwd=folder)
    with contextlib.closing(sqlite3.connect(within.home / "views.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM folded")

    assert [one["code"] for one in within.json("doctor", cwd=folder, check=5)["problems"]] == [
        "views_damaged"
    ]
    assert within.json("checkpoint", cwd=folder)["checkpoints"] == 2
    assert within.json("checkpoints", cwd=folder) == before
    assert within.json("doctor", cwd=folder)["problems"] == []


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("checkpoints", "entry"),
        ("sessions", "name"),
        ("operations", "state"),
        ("sessions", "cwd"),
        ("folded", "position"),
        ("folded", "digest"),
    ],
)
@pytest.mark.parametrize("mend", [("rebuild",), ("doctor", "--fix")])
def test_a_flipped_byte_in_the_schema(
    within: Within, folder: Path, table: str, column: str, mend: tuple[str, ...]
) -> None:
    """It is told as damage with what mends it, found by the doctor, and both mend it."""
    _record(within, folder, "1", "2")
    before = within.json("checkpoints", cwd=folder)
    _flip_in_schema(within.home, table, column)

    said = within.run("checkpoints", cwd=folder, check=5)
    assert "the views are damaged" in said.err and "recorder rebuild" in said.err
    assert within.json("checkpoint", cwd=folder)["checkpoints"] == 2
    assert [one["code"] for one in within.json("doctor", cwd=folder, check=5)["problems"]] == [
        "views_damaged"
    ]
    within.run(*mend, cwd=folder)
    assert within.json("checkpoints", cwd=folder) == before
    assert within.json("doctor", cwd=folder)["problems"] == []
