"""A damaged store: what is told of it, what is put right, and what the next capture makes of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from recorder.capture import Look, Policy, Tree
from recorder.capturing import leftovers, mending
from recorder.capturing.packs import Entry, Salvage
from recorder.capturing.past import Moment
from recorder.capturing.store import Store, object_id
from recorder.errors import StoreFailure
from recorder.home import open_home
from recorder.states import ABSENT, UNKNOWN, PathState
from tests.capture.helpers import (
    blob_id,
    commit_all,
    everything,
    make_repository,
    on_disk,
    resolved,
    run_git,
    write,
)
from tests.rights import BOUND_BY_MODES


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

    def check_all_but(self, lost: Collection[str]) -> None:
        with self.tree() as tree:
            for number, commit in enumerate(self.commits):
                if commit not in lost:
                    stored = dict(tree.walk(commit))
                    assert stored == self.states[number]
                    assert all(tree.holds(state.oid) for state in stored.values() if state.oid)

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
    "packs with a flipped end": lambda store: [flip(pack, -1) for pack in packs(store)],
    "packs with a flipped head": lambda store: [flip(pack, 2) for pack in packs(store)],
    "packs with a flipped count": lambda store: [flip(pack, 9) for pack in packs(store)],
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
    if "flipped" not in damage:  # what only a reading shows is found where it is read
        with world.tree() as tree:
            assert all(tree.holds(state.oid) for state in world.states[-1].values() if state.oid)
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


@contextlib.contextmanager
def git_at_work(store: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A living git in the store that waits for its input."""
    command = ["git", f"--git-dir={store}", "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_living_git_keeps_its_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for, then reported with its number; captures need no lock of git's and go on."""
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.3)
    write(world.store / "packed-refs.lock")
    with git_at_work(world.store) as process:
        with world.tree() as tree, pytest.raises(StoreFailure, match=str(process.pid)):
            tree.release(world.commits[:1])
        assert (world.store / "packed-refs.lock").exists()
        write(world.root / "a", "4")
        world.capture()
    with world.tree() as tree:
        tree.release(world.commits[:1])
    assert not (world.store / "packed-refs.lock").exists()


def test_a_git_that_outlived_its_recorder_is_waited_for(world: World) -> None:
    """Whoever was killed while git packed the store left a mark: the next capture begins when git is done,
    and takes away at once what it left."""
    write(world.store.parent / "collecting")
    write(world.store / "objects/pack/.tmp-1-pack-x.pack", "half")
    with git_at_work(world.store) as process:
        ended: list[float] = []

        def end() -> None:
            ended.append(time.monotonic())
            process.kill()

        timer = threading.Timer(0.4, end)
        timer.start()
        world.capture()
        assert ended, "the capture did not wait"
    assert not (world.store.parent / "collecting").exists()
    assert leftovers.half_written(world.store) == []


def test_old_leftovers_are_swept_and_young_ones_may_be_somebodys(world: World) -> None:
    """Without a mark only what was not touched for hours is taken for a leftover."""
    young, old = (world.store / f"objects/pack/tmp_pack_{name}" for name in ("young", "old"))
    for path in (young, old):
        write(path, "half")
    os.utime(old, (time.time() - 7 * 3600,) * 2)
    world.capture()
    assert young.exists() and not old.exists()


def test_a_store_is_not_packed_where_there_is_no_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs twice its size: it says so, with both numbers, and nothing is lost; with room it goes on."""
    usage = shutil.disk_usage(world.store)
    with world.tree() as tree:
        assert tree.release(world.commits[:1])
        used = tree.bytes_used()
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2 * used - 1))
        with pytest.raises(StoreFailure, match="twice") as refused:
            tree.collect(world.commits[1:])
        assert refused.value.code == "no_room"
        assert tree.release(world.commits[:1]), "there is still something to give back"
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=2 * tree.bytes_used()))
        tree.collect(world.commits[1:])
        assert not tree.release(world.commits[:1])
    world.check(1, 2)


def test_a_collection_keeps_captures_whose_refs_are_lost(world: World) -> None:
    """Also when git's own hand has not collected yet: they get their refs again before anything goes."""
    shutil.rmtree(world.store / "refs")
    with world.tree() as tree:
        tree.collect(world.commits)
    world.check(0, 1, 2)


def test_lost_contents_are_found_where_they_still_stand(world: World) -> None:
    """In the work tree at their path, or in the project's own repository, which is only read."""
    write(world.root / "committed", "c" * 300)
    commit_all(world.root)
    write(world.root / "uncommitted", "u" * 300)
    world.capture()
    (world.root / "committed").unlink()
    blobs = [world.states[-1][name].oid for name in (b"committed", b"uncommitted")]
    pack = packs(world.store)[-1]
    kept = [record for record in contents(pack) if blob_id(record[1]) not in blobs]
    put_together(world, pack, kept)
    before = everything(world.root)
    assert "lost" in world.mend()
    assert everything(world.root) == before
    assert mending.losses(world.home, world.work_tree, world.commits) == ()
    world.check(0, 1, 2, 3)


def test_what_lies_in_a_pack_that_is_cut_off_is_stored_again(world: World) -> None:
    """Nobody reads what did not change, but nobody believes in it either: the next capture has it."""
    content = world.states[0][b"sub/deep/c"].oid
    (entry,) = [one for one in entries(packs(world.store)[0]) if one.kind == b"blob"][2:]
    cut(packs(world.store)[0], entry.data + 4)
    write(world.root / "a", "next")
    look = world.capture()
    assert [change.path for change in look.delta] == [b"a"]
    with world.tree() as tree:
        assert blob_id(tree.blob(content)) == content


@pytest.mark.parametrize("with_index", [True, False])
def test_of_a_damaged_pack_only_what_is_damaged_is_lost(tmp_path: Path, with_index: bool) -> None:
    """Each file's content in turn: all others are saved, before it in the pack and behind it."""
    world = World(tmp_path)
    names = [b"f%d" % number for number in range(6)]
    for name in names:
        write(os.fsencode(world.root) + b"/" + name, os.urandom(300))
    world.capture()
    for name in names:
        os.unlink(os.fsencode(world.root) + b"/" + name)
    (pack,) = packs(world.store)
    whole, index = pack.read_bytes(), pack.with_suffix(".idx").read_bytes()
    for entry in [one for one in entries(pack) if one.kind == b"blob" and one.size == 300]:
        for old in (world.store / "objects/pack").glob("pack-*"):
            old.unlink()
        pack.write_bytes(whole[: entry.data + 20] + b"damage" + whole[entry.data + 26 :])
        if with_index:
            pack.with_suffix(".idx").write_bytes(index)
        world.mend()
        (loss,) = mending.losses(world.home, world.work_tree, world.commits)
        assert len(loss.paths) == 1 and not loss.whole
        lost = loss.paths[0].path
        rest = mending.keep_the_rest(world.home, world.work_tree, loss)
        check_rest(world, world.states[0], rest, {lost})
        names.remove(lost)
    assert names == []


def entries(pack: Path) -> list[Entry]:
    salvage = Salvage(pack)
    found = list(salvage.entries.values())
    salvage.close()
    return found


def contents(pack: Path) -> list[tuple[bytes, bytes]]:
    salvage = Salvage(pack)
    read = [salvage.content(entry, lambda _: None) for entry in salvage.entries.values()]
    salvage.close()
    return [one for one in read if one is not None]


def put_together(world: World, pack: Path, records: list[tuple[bytes, bytes]]) -> None:
    """The same store with only these objects in the place of a pack."""
    for part in (".pack", ".idx"):
        pack.with_suffix(part).unlink()
    Store(world.store).write_pack([(object_id(*record), *record) for record in records])


def test_objects_are_saved_out_of_a_pack_of_differences(world: World) -> None:
    """git's own packs hold differences: those whose base is intact are saved too."""
    for number in range(12):
        text = b"".join(b"line %d of many in a text that hardly changes\n" % line for line in range(400))
        write(world.root / "text", text.replace(b"line %d " % (number * 30), b"changed "))
        world.capture()
    with world.tree() as tree:
        tree.collect(world.commits)
    (pack,) = packs(world.store)
    assert b"chain length = 1:" in run_git(world.store, "verify-pack", "-v", str(pack))
    flip(pack, pack.stat().st_size // 2)
    world.mend()
    lost = {loss.commit: loss for loss in mending.losses(world.home, world.work_tree, world.commits)}
    assert len(lost) < len(world.commits)
    world.check_all_but(lost)


def test_git_killed_at_its_work(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However far git came: nothing is lost, and the next collection ends it and leaves nothing behind."""
    for number in range(4):
        write(world.root / f"large{number}", os.urandom(400_000))
        world.capture()
    stub = tmp_path / "bin/git"
    write(stub, GIT_THAT_IS_KILLED)
    stub.chmod(0o755)
    path = os.environ["PATH"]
    for hundredths in range(12):
        monkeypatch.setenv("PATH", f"{stub.parent}:{path}")
        monkeypatch.setenv("KILLED_AFTER", f"0.{hundredths:02}")
        with world.tree() as tree, contextlib.suppress(StoreFailure):
            tree.collect(world.commits)
        monkeypatch.setenv("PATH", path)
        for number, commit in enumerate(world.commits):
            with world.tree() as tree:
                assert dict(tree.walk(commit)) == world.states[number]
    with world.tree() as tree:
        tree.collect(world.commits)
    assert leftovers.half_written(world.store) == []
    assert world.examine() == set()
    world.check(*range(len(world.commits)))


GIT_THAT_IS_KILLED = """#!/bin/sh
PATH=${PATH#*:}
case " $* " in
*" repack "*) exec timeout -s KILL "$KILLED_AFTER" git "$@" ;;
*) exec git "$@" ;;
esac
"""


def test_permissions_are_put_back(world: World) -> None:
    """As a user who may not write: folders of the store that were closed are opened again."""
    script = """
import os, sys
from pathlib import Path
sys.path.insert(0, os.getcwd())
from tests.capture.helpers import *
tmp = Path(sys.argv[1])
store = next((tmp / "home/trees").glob("*/store.git"))
for folder in [store.parent, store, store / "objects/pack", store / "refs/recorder/captures"]:
    os.chmod(folder, 0o500)
for pack in (store / "objects/pack").iterdir():
    os.chmod(pack, 0)
write(tmp / "w/a", "after")
with open_tree(tmp, tmp / "w") as tree:
    look = tree.capture(previous=sys.argv[2])
    assert [change.path for change in look.delta] == [b"a"], look
    assert dict(tree.walk(look.commit)) == on_disk(tmp / "w")
    tree.fsck()
"""
    done = subprocess.run(
        [*BOUND_BY_MODES, sys.executable, "-c", script, world.tmp_path, world.commits[-1]],
        env={"PATH": os.environ["PATH"], "HOME": str(world.tmp_path)},
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_lock_of_a_killed_recorder_is_free(world: World) -> None:
    """Its file stays and says nothing: the system let go of it with its process."""
    child = os.fork()
    if child == 0:
        with world.home.lock("tree-x", timeout=0):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with world.home.lock("tree-x", timeout=0):
        pass
