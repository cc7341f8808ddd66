"""What only somebody without root's rights meets: folders and files that may not be written."""

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
    build,
    file,
    folder,
    link,
    plain,
    private,
    read,
    steps,
)

NOBODY = 65534
SHUT: Tree = {
    b"shut": folder(0o555),
    b"shut/f": file(b"1", 0o444),
    b"shut/gone": file(b"2"),
    b"deep": folder(0o500),
    b"deep/e": folder(0o500),
    b"deep/e/f": file(b"3", 0o400),
    b"twin-a": file(b"4", 0o444, "t"),
    b"twin-b": file(b"4", 0o444, "t"),
}
OTHER: Tree = {
    b"shut": folder(0o500),
    b"shut/f": file(b"one", 0o400),
    b"shut/new": folder(0o555),
    b"shut/new/l": link(b"x"),
    b"twin-a": file(b"four", 0o400, "t"),
    b"twin-b": file(b"four", 0o400, "t"),
    b"made": folder(0o555),
    b"made/f": file(b"5", 0o444),
}


def as_nobody(act: Callable[[], None]) -> None:
    """Run in a child without rights of its own; what it asserts must hold."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            act()
            status = 0
        except (AssertionError, OSError) as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A folder that somebody without rights can reach and owns."""
    root = tmp_path_factory.mktemp("nobody")
    reached = root.parent
    if os.geteuid() == 0:
        while (
            reached != reached.parent and reached.stat().st_uid == 0 and not reached.stat().st_mode & 0o1000
        ):
            reached.chmod(reached.stat().st_mode | 0o011)
            reached = reached.parent
        os.chown(root, NOBODY, NOBODY)
    return os.fsencode(root.resolve())


def test_shut_folders_are_opened_and_shut_again(own: bytes, no_sync: None) -> None:
    """Folders that a step gives or takes and that their owner may not write: the plan comes onto the disk,
    exactly, and is rolled back exactly, from every failed effect too."""

    def act() -> None:
        build(own, SHUT)
        first = read(own)
        planned, store = steps(SHUT, OTHER), Store(SHUT, OTHER)

        def fail() -> None:
            raise OSError(5, "Input/output error")

        at = 0
        while True:
            hook = Counter(at, fail)
            report = apply(own, planned, TOKEN, store, before_effect=hook)
            if len(hook.names) <= at:
                break
            assert report.rolled_back, (at, report)
            assert read(own) == first, at
            at += 1
        assert report.failed == ()
        assert roll_back(own, planned, TOKEN, store) == ()
        assert read(own) == first
        assert apply(own, planned, TOKEN, store).failed == ()
        assert finish(own, planned, TOKEN) == ()
        assert plain(read(own)) == plain(OTHER)

    as_nobody(act)


def test_a_folder_of_others_is_got_around(own: bytes) -> None:
    """A file in a folder that the plan leaves shut is written in place; one that would have to be made or
    deleted there fails the plan, with the reason, and all is as before."""

    def act() -> None:
        before = {b"d": folder(0o555), b"d/f": file(b"1"), b"d/g": file(b"2"), b"x": file(b"3")}
        build(own, before)
        after = before | {b"d/f": file(b"new", 0o600), b"x": file(b"4")}
        planned, store = steps(before, after), Store(before, after)
        report = apply(own, planned, TOKEN, store)
        assert report.failed == ()
        assert len(private(own)) == 2
        assert roll_back(own, planned, TOKEN, store) == ()
        assert read(own) == before
        assert apply(own, planned, TOKEN, store).failed == ()
        assert finish(own, planned, TOKEN) == ()
        assert read(own) == after
        for impossible in ({b"d/new": file(b"1")}, {b"d/g": None}):
            wanted = {path: node for path, node in (after | impossible).items() if node is not None}
            report = apply(own, steps(after, wanted), TOKEN, Store(after, wanted))
            assert [note.why for note in report.failed] == ["permission denied"]
            assert report.rolled_back
            assert read(own) == after

    as_nobody(act)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of others")
def test_a_file_of_another_owner_keeps_him(own: bytes) -> None:
    """A file that belongs to somebody else and may be written is written in place: its owner stays."""
    build(own, {b"f": file(b"1", 0o666)})
    os.chown(own + b"/f", 1234, 1234)
    before, after = {b"f": file(b"1", 0o666)}, {b"f": file(b"2", 0o666)}

    def act() -> None:
        report = apply(own, steps(before, after), TOKEN, Store(before, after))
        assert report.failed == (), report
        assert finish(own, steps(before, after), TOKEN) == ()

    as_nobody(act)

    assert (os.stat(own + b"/f").st_uid, read(own)) == (1234, after)
