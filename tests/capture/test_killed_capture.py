"""A capture, a collection and a mending that are killed at any step, or find the disk full there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.capturing import filling, leftovers
from tests.capture.helpers import commit_all, write
from tests.capture.recorded import Kept, Recorded, tolerant
from tests.faults import killed, out_of_room


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    recorded = Recorded(tmp_path)
    for name in ["a", "sub/b", "sub/deep/c"]:
        write(recorded.root / name, name)
    commit_all(recorded.root)
    (recorded.root / "link").symlink_to("a")
    return recorded


def killed_anywhere(
    recorded: Recorded, run: Callable[[], object], without: frozenset[str] = frozenset()
) -> int:
    """Kill it before each of its effects. Whatever that leaves: what the log has is there, nothing in the
    work tree or its repository was touched, and the next capture is whole. The number of effects."""
    kept = Kept(recorded)
    at = 0
    while killed(at, run):
        recorded.check(without)
        recorded.check_next()
        kept.check_untouched()
        kept.put_back()
        at += 1
    recorded.check(without)
    kept.check_untouched()
    return at


def test_the_first_capture(recorded: Recorded) -> None:
    """From no store at all to the event in the log."""
    assert killed_anywhere(recorded, recorded.capture) > 50


def test_a_further_capture(recorded: Recorded) -> None:
    """Changes of every kind, on top of a capture."""
    recorded.captured()
    write(recorded.root / "a", "2")
    write(recorded.root / "sub/new", "3")
    (recorded.root / "sub/deep/c").unlink()
    (recorded.root / "link").unlink()
    assert killed_anywhere(recorded, recorded.capture) > 15


def test_a_large_file(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is written as it is read."""
    monkeypatch.setattr(filling, "LARGE", 1000)
    recorded.captured()
    write(recorded.root / "large", os.urandom(5000))
    assert killed_anywhere(recorded, recorded.capture) > 20


def test_a_collection(recorded: Recorded) -> None:
    """Letting captures go and packing what is left; what git itself does is another test's."""
    for content in ["1", "2", "3"]:
        write(recorded.root / "a", content * 1000)
        recorded.captured()
    gone = recorded.commits()[:1]
    count = killed_anywhere(recorded, lambda: recorded.collect(gone), frozenset(gone))
    assert count > 5


@pytest.mark.parametrize("damage", ["flipped", "no index"])
def test_mending(recorded: Recorded, damage: str) -> None:
    """Killed on its way it loses nothing more, and the next one ends it: what can be saved is saved."""
    for content in ["1", "2"]:
        write(recorded.root / "a", os.urandom(300))
        write(recorded.root / f"sub/{content}", content)
        recorded.captured()
    damaged(recorded, damage)
    kept = Kept(recorded)
    recorded.mend()
    whole = left(recorded)
    kept.put_back()
    at = 0
    while killed(at, recorded.mend):
        recorded.mend()
        assert left(recorded) == whole, at
        kept.check_untouched()
        kept.put_back()
        at += 1
    assert at > 8
    recorded.check_next()


def damaged(recorded: Recorded, how: str) -> None:
    for pack in sorted((recorded.store / "objects/pack").glob("*.pack"))[:1]:
        content = pack.read_bytes()
        if how == "no index":
            pack.with_suffix(".idx").unlink()
        else:
            pack.write_bytes(content[:60] + bytes([content[60] ^ 255]) + content[61:])


def left(recorded: Recorded) -> list[object]:
    """What the record says of each capture, and what can be read of each."""
    with recorded.open() as (_, views, tree):
        rows = views.connection.execute("SELECT capture, commit_id FROM captures ORDER BY position")
        found: list[object] = []
        for row in rows:
            states = dict(tree.walk(row["commit_id"])) if row["commit_id"] else {}
            assert all(tree.holds(state.oid) for state in states.values() if state.oid)
            found.append((row["capture"], row["commit_id"], states))
        if (recorded.store / "HEAD").exists():
            tree.fsck()
        return found


def test_a_full_disk(recorded: Recorded) -> None:
    """Whatever does not find the room: it fails in a sentence, what the log has is there, and with room again
    the next capture is whole and nothing half written is left."""
    recorded.captured()
    write(recorded.root / "a", "2" * 5000)
    write(recorded.root / "sub/new", "3")
    kept = Kept(recorded)
    at = 0
    while out_of_room(at, lambda: tolerant(recorded)):
        assert not leftovers.half_written(recorded.store), at
        recorded.check()
        recorded.check_next()
        kept.check_untouched()
        kept.put_back()
        at += 1
    assert at > 10


def test_a_full_disk_for_the_first_capture(recorded: Recorded) -> None:
    """Also where there is no store yet; as the room does not come back, not every effect is needed."""
    kept = Kept(recorded)
    at = 0
    while out_of_room(at, lambda: tolerant(recorded)):
        recorded.check()
        recorded.check_next()
        kept.check_untouched()
        kept.put_back()
        at += 4
    assert at > 50
