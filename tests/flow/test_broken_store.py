"""A store that was damaged behind the recorder's back: commands look, tell and go on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from projections.mending import mend_tree
from projections.views import rebuild
from recorder.capturing.store import object_id
from tests.flow.agents import Claude
from tests.flow.conftest import snapshot
from tests.flow.within import Within, rows


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


def recorded(within: Within, folder: Path) -> Claude:
    agent = Claude(within.claude_folder, folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda one: one.write("one.txt", "1\n" * 600))
        watcher.prompt(agent, "second", lambda one: one.write("two.txt", "2\n" * 600))
    return agent


def the_store(within: Within) -> Path:
    return next((within.home / "trees").glob("*/store.git"))


def cut(store: Path) -> None:
    for pack in (store / "objects/pack").glob("*.pack"):
        pack.write_bytes(pack.read_bytes()[:100])


def flip(store: Path) -> None:
    for pack in (store / "objects/pack").glob("*.pack"):
        content = bytearray(pack.read_bytes())
        for place in range(14, len(content) - 20, 30):
            content[place] ^= 0xFF
        pack.write_bytes(content)


def file_instead(store: Path) -> None:
    shutil.rmtree(store)
    store.write_text("a file\n")


def objects_instead(store: Path) -> None:
    shutil.rmtree(store / "objects")
    (store / "objects").write_text("a file\n")


ALL_GONE: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "a file": file_instead,
    "objects are a file": objects_instead,
    "cut": cut,
    "flipped": flip,
}


@pytest.fixture(params=ALL_GONE)
def damage(request: pytest.FixtureRequest) -> Callable[[Path], object]:
    return ALL_GONE[request.param]


def looking(within: Within, folder: Path, agent: Claude) -> list[dict[str, Any]]:
    """Every command that looks answers; the checkpoints as they are listed."""
    for words in (("sessions",), ("tree",), ("log", agent.session), ("show", "1")):
        within.run(*words, cwd=folder)
    return within.json("checkpoints", agent.session, cwd=folder)  # type: ignore[no-any-return]


def test_looking_goes_on(within: Within, folder: Path, damage: Callable[[Path], object]) -> None:
    """Prompts and what they changed are listed all the same, by commands that repair nothing; reading a
    content is an error that says what became of it, and a rewind writes nothing and names the path."""
    agent = recorded(within, folder)
    damage(the_store(within))

    assert [one["number"] for one in looking(within, folder, agent)] == [2, 1]
    read = within.run("cat", "2", "one.txt", cwd=folder, check=None)
    assert (read.code, read.out) in ((3, b""), (5, b""))
    (folder / "one.txt").write_text("mine\n")
    back = within.run("rewind", "1", "--files", cwd=folder, check=None)
    assert (folder / "one.txt").read_text() == "mine\n"
    assert "one.txt" in back.out.decode() + back.err


def test_the_next_prompt_is_captured_and_the_record_says_what_is_lost(
    within: Within, folder: Path, damage: Callable[[Path], object]
) -> None:
    """The capture after the damage is whole and so are those that follow; what can still be gone back to is
    complete or partial, with the reason, and really can be; folded anew the views say the same."""
    agent = recorded(within, folder)
    damage(the_store(within))
    (folder / "notes.md").write_text("by hand\n")
    with within.watching() as watcher:
        watcher.prompt(agent, "third", lambda one: one.write("two.txt", "3\n"))
        watcher.prompt(agent, "fourth", lambda one: one.write("three.txt", "4\n"))

    listed = looking(within, folder, agent)
    assert [one["state"] for one in listed][:2] == ["complete", "complete"]
    assert {one["state"] for one in listed} <= {"complete", "partial", "lost"}
    assert all(one["why_not"] for one in listed if one["state"] != "complete")
    assert {one["state"] for one in listed[2:]} & {"partial", "lost"}
    within.run("rewind", "3", "--files", cwd=folder)
    assert (folder / "two.txt").read_text() == "2\n" * 600
    assert not (folder / "three.txt").exists()
    assert (folder / "notes.md").read_text() == "by hand\n"
    within.run("prune", cwd=folder)
    with within.recording() as recording:
        tree = the_store(within).parent.name
        assert mend_tree(recording.home, recording.log, recording.views, tree)[1] == (), "told once"
        assert list(recording.log.check()) == []
        recording.views.catch_up()
        live = rows(recording.views)
        rebuild(recording.views)
        assert rows(recording.views) == live


def test_a_broken_store_stops_no_other(
    within: Within, folder: Path, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    """Another work tree is captured, gone back in and cleaned up while one is broken."""
    recorded(within, folder)
    broken = the_store(within)
    damage(broken)
    other = tmp_path / "other"
    other.mkdir()
    (other / "f").write_text("before\n")
    agent = Claude(within.claude_folder, other)
    with within.watching() as watcher:
        watcher.prompt(agent, "elsewhere", lambda one: one.write("f", "after\n"))
    assert [one["state"] for one in looking(within, other, agent)] == ["complete"]
    assert len(within.json("sessions", "--all", cwd=other)) == 2
    within.run("rewind", "1", "--files", cwd=other)
    assert (other / "f").read_text() == "before\n"
    within.run("prune", cwd=other)


def test_a_rewind_tells_the_log_what_it_found_lost(within: Within, folder: Path) -> None:
    """Without a watcher: its own captures meet the damage, and the record of the checkpoints says so."""
    recorded(within, folder)
    min((the_store(within) / "objects/pack").glob("*.pack"), key=lambda one: one.stat().st_mtime_ns).unlink()

    within.run("rewind", "2", "--files", cwd=folder)
    assert not (folder / "two.txt").exists()
    first = within.json("checkpoints", cwd=folder)[-1]
    assert first["state"] in ("partial", "lost") and "lost" in first["why_not"]


def test_what_stands_there_is_kept_although_the_stores_copy_of_it_is_damaged(
    within: Within, folder: Path
) -> None:
    """A rewind replaces no content that it could not bring back: the damaged copy of what stands on disk is
    noticed and stored anew before anything is touched, and taking the rewind back gives every byte."""
    recorded(within, folder)
    before = snapshot(folder)
    store = the_store(within)
    oid = object_id(b"blob", (folder / "two.txt").read_bytes()).hex()
    for index in (store / "objects/pack").glob("*.idx"):
        listed = subprocess.run(
            ["git", "verify-pack", "-v", index], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            if line.startswith(oid):
                _, _, _, packed, offset = line.split()
                content = bytearray(index.with_suffix(".pack").read_bytes())
                content[int(offset) + int(packed) // 2] ^= 0x04
                index.with_suffix(".pack").chmod(0o600)
                index.with_suffix(".pack").write_bytes(content)
    done = within.json("rewind", "2", "--files", cwd=folder)
    assert done["status"] == "done" and not (folder / "two.txt").exists()
    assert within.json("rewind", "--undo", cwd=folder)["status"] == "done"
    assert snapshot(folder) == before


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("byte", [1, 2, 3])
def test_an_index_with_a_wrong_table(every: bool, byte: int, within: Within, folder: Path) -> None:
    """A pack's index whose table of counts is wrong is damage like any other: told in words, and mended."""
    recorded(within, folder)
    before = snapshot(folder)
    for index in (the_store(within) / "objects/pack").glob("*.idx"):
        content = bytearray(index.read_bytes())
        first = content[8 + 256 * 4]
        for bucket in range(256) if every else [first]:
            content[8 + 4 * bucket + byte] ^= 0x01
        index.chmod(0o600)
        index.write_bytes(content)
    answer = within.run("doctor", "--json", cwd=folder, check=None)
    assert answer.code in (1, 5) and "store_damaged" in [one["code"] for one in answer.json["problems"]]
    assert "internal" not in answer.out.decode()
    assert within.run("rewind", "2", "--files", cwd=folder, check=None).code in (0, 4, 5, 6)
    assert within.run("doctor", "--fix", cwd=folder, check=None).code == 0
    if snapshot(folder) != before:
        within.json("rewind", "--undo", cwd=folder)
    assert snapshot(folder) == before
