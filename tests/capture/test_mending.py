"""A damaged store: what is told of it, what is put right, and what the next capture makes of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.capture import Look, Tree
from recorder.capturing import mending
from recorder.capturing.past import Moment
from recorder.home import open_home
from recorder.states import ABSENT, UNKNOWN, PathState
from tests.capture.helpers import (
    blob_id,
    make_repository,
    on_disk,
    resolved,
    run_git,
    write,
)

HOUR = 3600


class World:
    """A work tree, its store, and the log's word on its captures: what a reactor would have."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path, self.root = tmp_path, make_repository(tmp_path / "w")
        self.home, self.work_tree = open_home(tmp_path / "home"), resolved(tmp_path, self.root)
        self.looks: list[Look] = []
        self.states: list[dict[bytes, PathState]] = []

    @property
    def store(self) -> Path:
        return self.home.store(self.work_tree.stream)

    @property
    def commits(self) -> list[str]:
        return [look.commit for look in self.looks]

    def past(self) -> Iterator[Moment]:
        for look in reversed(self.looks):
            yield Moment(look.commit, look.began_at, look.delta)

    def tree(self) -> Tree:
        from recorder.capture import Policy

        return Tree(self.home, self.work_tree, Policy(), self.past)

    def capture(self) -> Look:
        with self.tree() as tree:
            look = tree.capture(previous=self.looks[-1].commit if self.looks else None)
            self.looks.append(look)
            self.states.append(on_disk(self.root))
            assert dict(tree.walk(look.commit)) == self.states[-1]
        return look

    def examine(self) -> set[str]:
        return {damage.code for damage in mending.examine(self.home, self.work_tree, self.commits)}

    def mend(self) -> set[str]:
        return {one.code for one in mending.mend(self.home, self.work_tree, self.commits)}

    def check(self, *numbers: int) -> None:
        """These captures are there byte for byte, and git finds nothing wrong."""
        with self.tree() as tree:
            for number in numbers:
                stored = dict(tree.walk(self.commits[number]))
                assert stored == self.states[number]
                for path, state in stored.items():
                    if state.oid:
                        assert blob_id(tree.blob(state.oid)) == state.oid, path
            tree.fsck()


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Three captures, each in a pack of its own: a folder that stays, a file that changes, one that grows."""
    world = World(tmp_path)
    for name in ["a", "sub/b", "sub/deep/c"]:
        write(world.root / name, name * 500)
    world.capture()
    write(world.root / "a", os.urandom(40_000))
    write(world.root / "new", "n")
    world.capture()
    write(world.root / "sub/b", "2")
    (world.root / "new").unlink()
    world.capture()
    return world


def packs(store: Path) -> list[Path]:
    return sorted((store / "objects/pack").glob("*.pack"), key=lambda pack: pack.stat().st_mtime_ns)


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def flip(file: Path, place: int) -> None:
    os.chmod(file, 0o600)
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)


def cut(file: Path, size: int) -> None:
    os.chmod(file, 0o600)
    os.truncate(file, size)


def nul(file: Path) -> None:
    file.write_bytes(b"\0" * 300)


def a_file_instead(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("a file")


def a_folder_instead(file: Path) -> None:
    file.unlink(missing_ok=True)
    (file / "in").mkdir(parents=True)


LOCKS = [
    "index.lock",
    "packed-refs.lock",
    "HEAD.lock",
    "config.lock",
    "shallow.lock",
    "gc.pid",
    "objects/maintenance.lock",
    "refs/recorder/captures/x.lock",
    "objects/info/commit-graphs/commit-graph-chain.lock",
]
LEFTOVERS = [
    "objects/pack/tmp_pack_1",
    "objects/pack/tmp_idx_2",
    "objects/pack/.tmp-9-pack-x.pack",
    "new-ref",
    "config.new",
    "objects/ab/tmp_obj_1",
    "../stat-cache.new",
    "../generation.new",
]

COSTS_NOTHING: dict[str, Callable[[Path], object]] = {
    "config of NULs": lambda store: nul(store / "config"),
    "HEAD of NULs": lambda store: nul(store / "HEAD"),
    "no HEAD": lambda store: (store / "HEAD").unlink(),
    "a folder for a config": lambda store: a_folder_instead(store / "config"),
    "no info": lambda store: shutil.rmtree(store / "info"),
    "a file for info": lambda store: a_file_instead(store / "info"),
    "no refs": lambda store: shutil.rmtree(store / "refs"),
    "a file for refs": lambda store: a_file_instead(store / "refs"),
    "refs of NULs": lambda store: [nul(ref) for ref in (store / "refs").rglob("*") if ref.is_file()],
    "a cut ref": lambda store: [cut(ref, 20) for ref in (store / "refs").rglob("*") if ref.is_file()],
    "packed refs of NULs": lambda store: (run_git(store, "pack-refs", "--all"), nul(store / "packed-refs")),
    "a folder for packed refs": lambda store: a_folder_instead(store / "packed-refs"),
    "locks": lambda store: [write(store / name) for name in LOCKS],
    "leftovers": lambda store: [write(store / name, "half") for name in LEFTOVERS],
    "no indexes": lambda store: [pack.with_suffix(".idx").unlink() for pack in packs(store)],
    "cut indexes": lambda store: [cut(pack.with_suffix(".idx"), 900) for pack in packs(store)],
    "flipped indexes": lambda store: [flip(pack.with_suffix(".idx"), 1100) for pack in packs(store)],
    "a lone index": lambda store: write(store / "objects/pack/pack-1.idx", "x"),
    "another's index": lambda store: shutil.copy(
        packs(store)[0].with_suffix(".idx"), packs(store)[1].with_suffix(".idx")
    ),
    "a generation of garbage": lambda store: nul(store.parent / "generation"),
    "a folder for a generation": lambda store: a_folder_instead(store.parent / "generation"),
    "a stat cache of garbage": lambda store: nul(store.parent / "stat-cache"),
    "a folder for a stat cache": lambda store: a_folder_instead(store.parent / "stat-cache"),
    "a damaged loose object": lambda store: write(store / "objects/ab" / ("0" * 38), "garbage"),
}


@pytest.mark.parametrize("damage", COSTS_NOTHING)
def test_what_can_be_put_right_costs_nothing(world: World, damage: str) -> None:
    """Whatever is wrong besides the objects themselves: everything is still there after mending, the next
    capture and a collection go well, and then nothing is wrong any more."""
    COSTS_NOTHING[damage](world.store)
    world.mend()
    world.check(0, 1, 2)
    assert world.examine() == set()
    write(world.root / "a", "next")
    assert [change.path for change in world.capture().delta] == [b"a"]
    with world.tree() as tree:
        tree.release(world.commits[:1])
        tree.collect(world.commits[1:])
    world.check(1, 2, 3)
    assert world.mend() == set()


@pytest.mark.parametrize("damage", COSTS_NOTHING)
def test_the_next_capture_goes_on(world: World, damage: str) -> None:
    """Nobody mends: the next capture is complete and its delta exact, and all that was captured is there."""
    COSTS_NOTHING[damage](world.store)
    write(world.root / "sub/b", "3")
    (world.root / "a").unlink()
    assert [(change.path, change.after.kind) for change in world.capture().delta] == [
        (b"a", "absent"),
        (b"sub/b", "file"),
    ]
    with world.tree() as tree:
        for number in range(4):
            assert dict(tree.walk(world.commits[number])) == world.states[number]
        tree.release(world.commits[:1])
        tree.collect(world.commits[1:])
    world.check(1, 2, 3)


LOSSES: dict[str, Callable[[Path], object]] = {
    "the store deleted": lambda store: shutil.rmtree(store),
    "a file for a store": lambda store: a_file_instead(store),
    "no objects": lambda store: shutil.rmtree(store / "objects"),
    "a file for objects": lambda store: a_file_instead(store / "objects"),
    "no packs": lambda store: shutil.rmtree(store / "objects/pack"),
    "the first pack gone": lambda store: packs(store)[0].unlink(),
    "the last pack gone": lambda store: packs(store)[-1].unlink(),
    "the first pack cut": lambda store: cut(packs(store)[0], 200),
    "the second pack cut": lambda store: cut(packs(store)[1], 500),
    "the last pack cut": lambda store: cut(packs(store)[-1], 300),
    "the last pack empty": lambda store: cut(packs(store)[-1], 0),
    "all packs cut": lambda store: [cut(pack, 250) for pack in packs(store)],
    "the first pack flipped": lambda store: flip(packs(store)[0], 100),
    "the second pack flipped": lambda store: flip(packs(store)[1], 20_000),
    "the last pack flipped": lambda store: flip(packs(store)[-1], 150),
    "all packs flipped": lambda store: [flip(pack, 60) for pack in packs(store)],
    "packs of NULs": lambda store: [nul(pack) for pack in packs(store)],
    "collected by hand without refs": lambda store: (
        shutil.rmtree(store / "refs"),
        (store / "refs").mkdir(),
        run_git(store, "gc", "-q", "--prune=now"),
    ),
}
"""Damage that may cost contents."""


@pytest.mark.parametrize("damage", LOSSES)
def test_the_capture_after_a_loss_is_whole(world: World, damage: str) -> None:
    """Where objects are gone or damaged, the next capture goes through and is complete, its delta is exact,
    from the log where the store does not know any more, and the one after it has nothing to do with it."""
    LOSSES[damage](world.store)
    write(world.root / "sub/b", "3")
    write(world.root / "sub/deep/d", "4")
    (world.root / "a").unlink()
    look = world.capture()
    delta = {change.path: (change.before, change.after.kind) for change in look.delta}
    unseen = {path for path, (before, _) in delta.items() if before == UNKNOWN}
    assert {path: delta[path] for path in delta.keys() - unseen} | {b"sub/deep/d": (ABSENT, "file")} == {
        b"a": (world.states[2][b"a"], "absent"),
        b"sub/b": (world.states[2][b"sub/b"], "file"),
        b"sub/deep/d": (ABSENT, "file"),
    }
    assert unseen <= {b"sub/deep", b"sub/deep/d"}, "what did not change since is known by its times"
    write(world.root / "sub/b", "5")
    assert [change.path for change in world.capture().delta] == [b"sub/b"]
    assert world.examine() <= {"lost", "object"}


@pytest.mark.parametrize("damage", LOSSES)
def test_what_is_lost_is_told_and_what_is_intact_stays(world: World, damage: str) -> None:
    """After mending each capture is whole, or what it lost is named, and the rest is there byte for byte; git
    reads, checks and packs the store."""
    LOSSES[damage](world.store)
    told = world.examine()
    world.mend()
    lost = {loss.commit: loss for loss in mending.losses(world.home, world.work_tree, world.commits)}
    assert told
    left = []
    for number, commit in enumerate(world.commits):
        if commit not in lost:
            left.append((number, commit, set()))
        elif not lost[commit].whole:
            rest = mending.keep_the_rest(world.home, world.work_tree, lost[commit])
            left.append((number, rest, {note.path for note in lost[commit].paths}))
    mending.let_go(world.home, world.work_tree)
    for number, commit, missing in left:
        check_rest(world, world.states[number], commit, missing)
    with world.tree() as tree:
        tree.collect([commit for _, commit, _ in left])
        tree.fsck()
    for number, commit, missing in left:
        check_rest(world, world.states[number], commit, missing)


def check_rest(world: World, was: dict[bytes, PathState], commit: str, missing: set[bytes]) -> None:
    def gone(path: bytes) -> bool:
        return any(path == one or path.startswith(one + b"/") for one in missing)

    with world.tree() as tree:
        assert dict(tree.walk(commit)) == {path: state for path, state in was.items() if not gone(path)}
        for path, state in was.items():
            stored = tree.state(commit, path)
            assert stored == (UNKNOWN if gone(path) else state)
            if stored.oid:
                assert blob_id(tree.blob(stored.oid)) == stored.oid
        assert {note.path for note in tree.notes(commit)[1]} == missing
