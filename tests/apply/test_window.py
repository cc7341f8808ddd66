"""A save that somebody makes while a rewind works is never lost."""

from __future__ import annotations

import os
from collections.abc import Callable

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
    killed,
    link,
    paths,
    private,
    read,
    steps,
)

BEFORE: Tree = {b"a": file(b"1"), b"d": folder(), b"f": file(b"old"), b"gone": file(b"2"), b"l": link(b"a")}
AFTER: Tree = {b"a": file(b"one"), b"d": folder(), b"f": file(b"new"), b"l": link(b"d"), b"made": file(b"3")}
STEPS = steps(BEFORE, AFTER)
STORE = Store(BEFORE, AFTER)
SAVE = b"somebody's own words"


def save_whole(path: bytes) -> None:
    """As editors do it: written beside and renamed over."""
    with open(path + b"~", "wb") as stream:
        stream.write(SAVE)
    os.chmod(path + b"~", 0o644)
    os.rename(path + b"~", path)


def save_over(path: bytes) -> None:
    """As shells do it: opened, truncated, written."""
    with open(path, "wb") as stream:
        stream.write(SAVE)
    os.chmod(path, 0o644)


@pytest.fixture(params=["calls", "no calls"])
def fresh(root: bytes, request: pytest.FixtureRequest, no_sync: None) -> bytes:
    if request.param == "no calls":
        request.getfixturevalue("no_rename_calls")
    build(root, BEFORE)
    return root


def contents(root: bytes) -> set[bytes]:
    return {node.content for node in read(root).values()}


@pytest.mark.parametrize(
    ("path", "save"),
    [
        (b"f", save_whole),
        (b"f", save_over),
        (b"gone", save_whole),
        (b"gone", save_over),
        (b"made", save_whole),
        (b"made", save_over),
        (b"l", save_whole),
    ],
)
def test_a_save_at_any_moment_stays(fresh: bytes, path: bytes, save: Callable[[bytes], None]) -> None:
    """A save at any effect, to a path written over, deleted or made: it is on the disk afterwards, and
    either the plan failed and the rest is as before, or it came after and the plan stands."""
    at = 0
    while True:
        hook = Counter(at, lambda: save(fresh + b"/" + path))
        report = apply(fresh, STEPS, TOKEN, STORE, before_effect=hook)
        if len(hook.names) <= at:
            break
        assert SAVE in contents(fresh), at
        if report.failed:
            stands = {p: n for p, n in read(fresh).items() if b".recorder" not in p}
            left = {note.path for note in report.unrecovered}
            assert left <= {path}, at
            assert stands == BEFORE | {path: file(SAVE)}, at
        else:
            finish(fresh, STEPS, TOKEN)
            assert SAVE in contents(fresh), at
        for name in os.listdir(fresh):
            if name != b"d":
                os.unlink(fresh + b"/" + name)
        os.rmdir(fresh + b"/d")
        build(fresh, BEFORE)
        at += 1
    assert at > 20


@pytest.mark.parametrize(
    ("path", "effect", "nth", "why"),
    [
        (b"f", "before exchange", 0, "it was changed by somebody else meanwhile"),
        (b"gone", "before move", 0, "it was changed by somebody else meanwhile"),
        (b"made", "before move", 1, "file exists"),
    ],
)
def test_a_save_before_the_exchange_is_reported(
    fresh: bytes, path: bytes, effect: str, nth: int, why: str
) -> None:
    """The path is named with the reason, and all is as before but for the save."""
    only = tuple(step for step in STEPS if step.path == path)
    hook = at_effect(effect, lambda: save_whole(fresh + b"/" + path), nth=nth)

    report = apply(fresh, only, TOKEN, STORE, before_effect=hook)

    assert [(note.path, note.why) for note in report.failed] == [(path, why)]
    assert (report.rolled_back, report.unrecovered) == (True, ())
    assert read(fresh) == BEFORE | {path: file(SAVE)}


def test_a_save_into_a_displaced_file_stays(fresh: bytes) -> None:
    """A process that had the file open before and writes after the exchange keeps its bytes: finish
    leaves them and says where."""
    with open(fresh + b"/f", "r+b") as editor:
        assert apply(fresh, STEPS, TOKEN, STORE).failed == ()
        editor.write(SAVE)
    notes = finish(fresh, STEPS, TOKEN)

    assert paths(notes) == {b"f"}
    assert ".recorder-" in notes[0].why
    assert len(private(fresh)) == 1
    assert SAVE in contents(fresh)
    assert finish(fresh, STEPS, TOKEN) == notes


def test_a_save_into_a_displaced_folder_returns(root: bytes) -> None:
    """A process that works in a deleted folder and saves there has its file at its place after finish."""
    before = {b"d": folder(0o750), b"d/f": file(b"1")}
    build(root, before)
    working = os.open(root + b"/d", os.O_DIRECTORY)
    apply(root, steps(before, {}), TOKEN, Store(before))
    assert b"d" not in read(root)
    os.close(os.open(b"saved", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=working))
    os.close(working)

    notes = finish(root, steps(before, {}), TOKEN)

    assert paths(notes) == {b"d"}
    assert read(root) == {b"d": folder(0o750), b"d/saved": file(b"")}
    assert finish(root, steps(before, {}), TOKEN) == ()


@pytest.mark.parametrize("path", [b"f", b"made", b"l", b"gone"])
def test_a_save_after_a_crash_stays(fresh: bytes, path: bytes) -> None:
    """What somebody saved between the crash and the recovery is left, named where it stands in the way,
    and named again by the next recovery."""
    apply(fresh, STEPS, TOKEN, STORE)
    save_whole(fresh + b"/" + path)

    notes = roll_back(fresh, STEPS, TOKEN, STORE)

    assert paths(notes) == {path}
    assert read(fresh)[path] == file(SAVE)
    kept = {p: n for p, n in read(fresh).items() if b".recorder" not in p}
    assert kept == BEFORE | {path: file(SAVE)}
    if path in BEFORE:
        assert BEFORE[path].content in contents(fresh)
    hook = Counter()
    assert roll_back(fresh, STEPS, TOKEN, STORE, before_effect=hook) == notes
    assert hook.names == []


def test_a_save_while_recovery_works_stays(fresh: bytes) -> None:
    """What somebody saves at the very moment of an exchange back is put back in its turn, and named."""
    apply(fresh, STEPS, TOKEN, STORE)
    only = tuple(step for step in STEPS if step.path == b"f")
    hook = at_effect("before exchange", lambda: save_whole(fresh + b"/f"))

    notes = roll_back(fresh, only, TOKEN, STORE, before_effect=hook)

    assert paths(notes) == {b"f"}
    assert read(fresh)[b"f"] == file(SAVE)
    assert b"old" in contents(fresh)


def test_what_somebody_makes_after_a_killed_recovery_stays(fresh: bytes) -> None:
    """A file that a killed recovery has taken away, and somebody then makes in the same words, is theirs."""
    only = tuple(step for step in STEPS if step.path == b"made")
    at = 0
    apply(fresh, only, TOKEN, STORE)
    while killed(at, lambda hook: roll_back(fresh, only, TOKEN, STORE, before_effect=hook)):
        mine = not os.path.exists(fresh + b"/made")
        if mine:
            build(fresh, {b"made": AFTER[b"made"]})
        assert roll_back(fresh, only, TOKEN, STORE) == (), at
        assert os.path.exists(fresh + b"/made") == mine, at
        if mine:
            os.unlink(fresh + b"/made")
        apply(fresh, only, TOKEN, STORE)
        at += 1
    assert at > 2


def test_what_was_never_begun_is_not_touched(fresh: bytes) -> None:
    """A plan that was killed before its first effect leaves alone what somebody then did, even the very
    same that was planned."""
    save_whole(fresh + b"/f")
    with open(fresh + b"/made", "wb") as stream:
        stream.write(b"3")
    os.unlink(fresh + b"/gone")
    os.chmod(fresh + b"/made", 0o644)
    stands = read(fresh)
    hook = Counter()

    assert roll_back(fresh, STEPS, TOKEN, STORE, before_effect=hook) == ()
    assert (read(fresh), hook.names) == (stands, [])


def test_a_file_deleted_after_a_crash_returns(fresh: bytes) -> None:
    """Where somebody deleted what was put in place, what stood there before returns: nothing is lost."""
    apply(fresh, STEPS, TOKEN, STORE)
    os.unlink(fresh + b"/f")
    os.unlink(fresh + b"/made")

    assert roll_back(fresh, STEPS, TOKEN, STORE) == ()
    assert read(fresh) == BEFORE


def test_a_hard_linked_file_written_to_at_the_same_moment(root: bytes) -> None:
    """A write by another process between ours to a file in place is found and its bytes stay."""
    before = {b"a": file(b"old", 0o644, "t"), b"b": file(b"old", 0o644, "t"), b"f": file(b"1")}
    after = {b"a": file(b"new", 0o644), b"b": file(b"new", 0o644), b"f": file(b"2")}
    build(root, before)
    hook = at_effect("after truncate", lambda: save_over(root + b"/b"))

    report = apply(root, steps(before, after), TOKEN, Store(before, after), before_effect=hook)

    assert "same moment" in report.failed[0].why
    assert (report.rolled_back, len(report.unrecovered)) == (False, 1)
    assert content(root + b"/a") == content(root + b"/b") == SAVE
    assert content(root + b"/f") == b"1"


def test_a_file_in_a_made_folder_keeps_it(root: bytes) -> None:
    """A folder that the plan made, and into which somebody saved, is not removed by roll back."""
    planned = steps({}, {b"d": folder(), b"d/e": folder()})
    apply(root, planned, TOKEN, Store())
    save_whole(root + b"/d/e/theirs")

    notes = roll_back(root, planned, TOKEN, Store())

    assert paths(notes) == {b"d", b"d/e"}
    assert read(root)[b"d/e/theirs"] == file(SAVE)
    assert roll_back(root, planned, TOKEN, Store()) == notes
