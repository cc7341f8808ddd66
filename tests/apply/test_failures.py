"""A rewind that fails half-way, for real reasons on real file systems: all is as before, each path is named;
and nothing outside the tree changes, however folders and links are swapped meanwhile."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from recorder.applying.apply import apply, finish, roll_back
from tests.apply.trees import (
    TOKEN,
    Counter,
    Store,
    Tree,
    at_effect,
    build,
    content,
    file,
    folder,
    link,
    paths,
    read,
    steps,
)


@contextlib.contextmanager
def mounted(place: bytes, *options: str) -> Iterator[None]:
    os.makedirs(place, exist_ok=True)
    call = subprocess.run(["mount", *options, place], capture_output=True, check=False)
    if call.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("what", ["bytes", "names"])
def test_a_full_disk(root: bytes, what: str) -> None:
    """Where there is no room for what is to be written, or for one more name, all is as before; with room
    again the same plan goes through."""
    small = root + b"/small"
    size = "size=300k" if what == "bytes" else "nr_inodes=12"
    with mounted(small, "-t", "tmpfs", "-o", size, "tmpfs"):
        before: Tree = {b"d": folder(0o750)} | {b"d/%d" % n: file(b"old" * n) for n in range(5)}
        after = before | {b"d/%d" % n: file(os.urandom(90_000), 0o600) for n in range(5)}
        after |= {b"new": folder(), b"new/l": link(b"x")} | {b"new/%d" % n: file(b"") for n in range(5)}
        build(small, before)
        planned, store = steps(before, after), Store(before, after)

        report = apply(small, planned, TOKEN, store)

        assert {note.why for note in report.failed} == {"no space left on device"}
        assert paths(report.failed) <= after.keys()
        assert (report.rolled_back, report.unrecovered) == (True, ())
        assert read(small) == before
        subprocess.run(["mount", "-o", "remount,size=9m,nr_inodes=99", small], check=True)
        assert apply(small, planned, TOKEN, store).failed == ()
        assert finish(small, planned, TOKEN) == ()
        assert read(small) == after


def test_a_disk_that_takes_no_more_when_all_is_written(root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems only say at the sync that there is no room: nothing has taken its place by then, the
    path is named, and all is as before."""
    before: Tree = {b"d": folder(), b"d/f": file(b"1"), b"g": file(b"1")}
    after: Tree = {b"d": folder(), b"d/f": file(b"new"), b"g": file(b"2"), b"made": file(b"new")}
    build(root, before)
    real = os.fsync

    def full(descriptor: int) -> None:
        if os.fstat(descriptor).st_size == 3:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    hook = Counter()
    report = apply(root, steps(before, after), TOKEN, Store(before, after), before_effect=hook)

    assert paths(report.failed) == {b"d/f", b"made"}
    assert {note.why for note in report.failed} == {"it cannot be brought onto the disk: disk quota exceeded"}
    assert (report.rolled_back, report.unrecovered, read(root)) == (True, (), before)
    assert "before exchange" not in hook.names


def test_a_part_that_became_read_only(root: bytes) -> None:
    """A folder that is mounted to be read only is got around by nothing: its paths are named, and the rest
    is as before."""
    before: Tree = {b"ro": folder(), b"ro/f": file(b"1"), b"ro/g": file(b"1"), b"f": file(b"1")}
    after: Tree = {b"ro": folder(), b"ro/f": file(b"2"), b"ro/new": file(b"2"), b"f": file(b"2")}
    build(root, before)
    planned, store = steps(before, after), Store(before, after)
    with mounted(root + b"/ro", "--bind", os.fsdecode(root + b"/ro")):
        subprocess.run(["mount", "-o", "remount,bind,ro", root + b"/ro"], check=True)
        report = apply(root, planned, TOKEN, store)
    assert {note.why for note in report.failed} == {"read-only file system"}
    assert paths(report.failed) <= {b"ro/f", b"ro/new", b"ro/g"}
    assert (report.rolled_back, report.unrecovered, read(root)) == (True, (), before)


@pytest.mark.parametrize("linked", [False, True], ids=["alone", "linked"])
def test_a_program_that_runs(root: bytes, linked: bool) -> None:
    """A running program is written beside and exchanged, and goes on with its own bytes; one that would have
    to be written in place, for its links, is busy: named, and all is as before."""
    shutil.copy(shutil.which("sleep") or "/bin/sleep", root + b"/p")
    program = content(root + b"/p")
    twin = "p" if linked else ""
    before: Tree = {b"p": file(program, 0o755, twin)} | ({b"q": file(program, 0o755, twin)} if linked else {})
    after: Tree = {path: file(b"#!/bin/sh\n", 0o755, twin) for path in before}
    if linked:
        os.link(root + b"/p", root + b"/q")
    os.chmod(root + b"/p", 0o755)
    planned, store = steps(before, after), Store(before, after)
    running = subprocess.Popen([root + b"/p", "60"])
    try:
        report = apply(root, planned, TOKEN, store)
        if linked:
            assert [note.why for note in report.failed] == ["text file busy"]
            assert (report.rolled_back, read(root)) == (True, before)
        else:
            assert report.failed == ()
            assert finish(root, planned, TOKEN) == ()
            assert read(root) == after
        assert running.poll() is None
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize("made", ["folder", "link", "file", "nothing"])
@pytest.mark.parametrize("effect", ["before create", "after move", "before exchange", "after exchange"])
def test_a_folder_that_gives_way(root: bytes, effect: str, made: str) -> None:
    """A folder is moved away at some moment, and something else stands in its place, or nothing: its paths
    are named, nothing of the new thing is touched, and the rest is as before."""
    before: Tree = {
        b"a": file(b"1"),
        b"d": folder(),
        b"d/f": file(b"1"),
        b"d/g": file(b"1"),
        b"z": file(b"1"),
    }
    after: Tree = {path: file(b"2") if node.kind == "file" else node for path, node in before.items()}
    build(root, before)
    outside = os.path.dirname(root) + b"/outside"
    os.mkdir(outside)
    build(outside, {b"f": file(b"1"), b"g": file(b"1")})

    def swap() -> None:
        os.rename(root + b"/d", os.path.dirname(root) + b"/moved")
        if made == "folder":
            os.mkdir(root + b"/d")
            build(root + b"/d", {b"f": file(b"theirs")})
        elif made == "link":
            os.symlink(outside, root + b"/d")
        elif made == "file":
            build(root, {b"d": file(b"theirs")})

    planned, store = steps(before, after), Store(before, after)
    report = apply(root, planned, TOKEN, store, before_effect=at_effect(effect, swap))

    assert report.failed
    assert paths(report.failed) <= {b"d/f", b"d/g"}
    assert paths(report.unrecovered) <= {b"d/f", b"d/g"}
    assert read(outside) == {b"f": file(b"1"), b"g": file(b"1")}
    stands = read(root)
    assert (stands[b"a"], stands[b"z"]) == (file(b"1"), file(b"1"))
    if made == "folder":
        assert stands[b"d/f"] == file(b"theirs")


def test_somebody_who_swaps_all_the_time(root: bytes, no_sync: None) -> None:
    """While rewinds go there and back, somebody hostile swaps a folder, one above it and a file for links
    to the same things outside, again and again: nothing outside ever changes, by whatever step."""
    before: Tree = {b"d": folder(), b"d/e": folder()}
    before |= {b"d/e/%d" % n: file(b"1", 0o644, "t" if n > 5 else "") for n in range(8)}
    after = {path: node._replace(content=b"2") for path, node in before.items() if path != b"d/e/0"}
    after |= {b"d/e/made": file(b"3"), b"d/e/in": folder(), b"d/e/in/f": file(b"4")}
    after[b"d"] = after[b"d/e"] = folder()
    outside = os.path.dirname(root) + b"/outside"
    os.mkdir(outside)
    build(outside, before)
    there, store = facts(outside), Store(before, after)
    ways = (steps(before, after), steps(after, before))
    outcomes = {True: 0, False: 0}
    end = time.monotonic() + 4
    while time.monotonic() < end:
        place = b"%s/%d" % (root, sum(outcomes.values()))
        os.mkdir(place)
        build(place, before)
        with swapping(place, outside):
            for planned in ways:
                report = apply(place, planned, TOKEN, store)
                outcomes[bool(report.failed)] += 1
                if report.failed:
                    roll_back(place, planned, TOKEN, store)
                finish(place, planned, TOKEN)
        assert facts(outside) == there
    assert outcomes[True] > 10, outcomes


@contextlib.contextmanager
def swapping(root: bytes, outside: bytes) -> Iterator[None]:
    """Somebody who swaps things below `root` for links to the same below `outside`, and back."""
    over = threading.Event()

    def swap() -> None:
        for name in itertools.cycle((b"/d", b"/d/e", b"/d/e/1")):
            with contextlib.suppress(OSError):
                os.rename(root + name, root + b"/away")
                os.symlink(outside + name, root + name)
                time.sleep(random.random() / 1000)
                os.unlink(root + name)
                os.rename(root + b"/away", root + name)
            time.sleep(random.random() / 300)
            if over.is_set():
                return

    hostile = threading.Thread(target=swap)
    hostile.start()
    try:
        yield
    finally:
        over.set()
        hostile.join()


def facts(root: bytes) -> dict[bytes, tuple[object, ...]]:
    """Everything that a write, a rename or a new mode would show in, of each path."""
    found = {}
    for place, folders, names in os.walk(root):
        for name in folders + names:
            status = os.lstat(os.path.join(place, name))
            found[os.path.join(place, name)] = (
                status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns, status.st_size,
            )  # fmt: skip
    return found
