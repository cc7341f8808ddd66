"""A kill at any effect of apply, roll back and finish leaves what can be made whole again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import partial

import pytest

from recorder.applying import apply
from recorder.applying import folder as folders
from tests.apply.trees import (
    TOKEN,
    Counter,
    Store,
    Tree,
    build,
    file,
    folder,
    killed,
    link,
    plain,
    read,
    steps,
)

BEFORE: Tree = {
    b"changed": file(b"old\n", 0o640),
    b"deleted": file(b"gone soon\n", 0o600),
    b"mode": file(b"same\n", 0o644),
    b"kept": file(b"not of the plan\n"),
    b"twin-a": file(b"0123456789" * 2, 0o4755, "t"),
    b"twin-b": file(b"0123456789" * 2, 0o4755, "t"),
    b"link": link(b"changed"),
    b"file-to-link": file(b"was a file"),
    b"file-to-folder": file(b"was a file too"),
    b"folder-to-file": folder(0o750),
    b"folder-to-file/in": file(b"inside"),
    b"gone": folder(0o555),
    b"gone/deep": folder(0o700),
    b"gone/deep/f": file(b"1"),
    b"gone/g": link(b"nowhere"),
    b"shut": folder(0o755),
    b"shut/f": file(b"2", 0o444),
}
AFTER: Tree = {
    b"changed": file(b"new and longer\n", 0o600),
    b"created": file(b"", 0o711),
    b"mode": file(b"same\n", 0o755),
    b"kept": file(b"not of the plan\n"),
    b"twin-a": file(b"abcdefghijklmnopqrstuvwxyz", 0o644, "t"),
    b"twin-b": file(b"abcdefghijklmnopqrstuvwxyz", 0o644, "t"),
    b"link": link(b"created"),
    b"file-to-link": link(b"/nowhere"),
    b"file-to-folder": folder(0o555),
    b"file-to-folder/new": file(b"3"),
    b"folder-to-file": file(b"was a folder"),
    b"shut": folder(0o500),
    b"shut/f": file(b"4", 0o444),
    b"made": folder(0o711),
    b"made/empty": folder(0o755),
    b"made/l": link(b"empty"),
}
STEPS = steps(BEFORE, AFTER)
STORE = Store(BEFORE, AFTER)


@pytest.fixture(params=["calls", "no calls"])
def fresh(
    root: bytes, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, no_sync: None
) -> Iterator[bytes]:
    """The tree before, with every way to rename; writes in place are broken into several."""
    if request.param == "no calls":
        request.getfixturevalue("no_rename_calls")
    monkeypatch.setattr(folders, "CHUNK", 7)
    build(root, BEFORE)
    yield root
    start_again(root, {})


def start_again(root: bytes, tree: Tree) -> None:
    for path, node in read(root).items():
        if node.kind == "dir":
            os.chmod(os.path.join(root, path), 0o755)
    shutil.rmtree(root)
    os.mkdir(root)
    build(root, tree)


def run_apply(root: bytes, hook: Counter) -> apply.ApplyReport:
    return apply.apply(root, STEPS, TOKEN, STORE, before_effect=hook)


def run_roll_back(root: bytes, hook: Counter) -> object:
    return apply.roll_back(root, STEPS, TOKEN, STORE, before_effect=hook)


def run_finish(root: bytes, hook: Counter) -> object:
    return apply.finish(root, STEPS, TOKEN, before_effect=hook)


def test_apply_gives_what_is_planned(fresh: bytes) -> None:
    """The mixed plan comes onto the disk exactly, links between files included; finish leaves no other."""
    report = run_apply(fresh, Counter())

    assert report.failed == ()
    assert set(report.done) == {step.path for step in STEPS}
    assert run_finish(fresh, Counter()) == ()
    assert read(fresh) == {path: n._replace(twin=n.twin and "twin-a") for path, n in AFTER.items()}


def test_killed_apply(fresh: bytes) -> None:
    """After a kill at every single effect of apply, another process gets the tree from before back."""
    before = read(fresh)
    at = 0
    while killed(at, partial(run_apply, fresh)):
        assert run_roll_back(fresh, Counter()) == (), at
        assert read(fresh) == before, at
        at += 1
    assert at > 40


def test_killed_roll_back(fresh: bytes) -> None:
    """Rolling back, killed at every single effect, is ended by the next one: from the end of apply."""
    before = read(fresh)
    at = 0
    run_apply(fresh, Counter())
    while killed(at, partial(run_roll_back, fresh)):
        assert run_roll_back(fresh, Counter()) == (), at
        assert read(fresh) == before, at
        run_apply(fresh, Counter())
        at += 1
    assert at > 40


def test_killed_apply_and_roll_back(fresh: bytes) -> None:
    """Both killed, and the roll back more than once: still the tree from before."""
    before = read(fresh)
    at = 0
    while killed(at, partial(run_apply, fresh)):
        for again in (at % 5, at % 3):
            killed(again, partial(run_roll_back, fresh))
        assert run_roll_back(fresh, Counter()) == (), at
        assert read(fresh) == before, at
        at += 2


def test_killed_finish(fresh: bytes) -> None:
    """After a kill at every single effect of finish, the next one ends it."""
    run_apply(fresh, Counter())
    count = 0
    while killed(count, partial(run_finish, fresh)):
        assert run_finish(fresh, Counter()) == (), count
        assert plain(read(fresh)) == plain(AFTER), count
        start_again(fresh, BEFORE)
        run_apply(fresh, Counter())
        count += 1
    assert count > 20


@pytest.mark.parametrize("number", [28, 13])
def test_failed_effects(fresh: bytes, number: int) -> None:
    """A failure of any single effect (no space, input/output, not permitted) puts everything back at once,
    or is got around."""
    before = read(fresh)

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    at = 0
    while True:
        hook = Counter(at, fail)
        report = run_apply(fresh, hook)
        if len(hook.names) <= at:
            break
        if report.failed:
            assert (report.rolled_back, report.unrecovered, report.done) == (True, (), ()), at
            assert report.failed[0].why == os.strerror(number).lower() or number == 13, at
            assert read(fresh) == before, at
        else:
            assert run_finish(fresh, Counter()) == (), at
            assert plain(read(fresh)) == plain(AFTER), at
            start_again(fresh, BEFORE)
        at += 1
    assert at > 80
