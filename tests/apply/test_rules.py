"""What apply keeps and what it refuses, one rule at a time."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from recorder.applying.apply import apply, finish, roll_back
from recorder.errors import Failed
from recorder.events import FileStep
from recorder.states import ABSENT, PathState
from tests.apply.trees import (
    TOKEN,
    Counter,
    Node,
    Store,
    Tree,
    at_effect,
    build,
    content,
    file,
    folder,
    link,
    oid,
    paths,
    private,
    read,
    state,
    steps,
)


def bring(root: bytes, before: Tree, after: Tree) -> None:
    """Apply and finish, both without a word."""
    report = apply(root, steps(before, after), TOKEN, Store(before, after))
    assert (report.failed, report.kept) == ((), ())
    assert finish(root, steps(before, after), TOKEN) == ()


@pytest.mark.parametrize("mode", [0o600, 0o750, 0o4755, 0o2711, 0o444])
def test_full_modes(root: bytes, mode: int) -> None:
    """Every permission bit arrives: on a file written over, on one made, on one with only a new mode."""
    before = {b"over": file(b"1"), b"only": file(b"same")}
    after = {b"over": file(b"2", mode), b"only": file(b"same", mode), b"made": file(b"3", mode)}
    build(root, before)

    bring(root, before, after)

    assert read(root) == after


def test_a_mode_alone_rewrites_nothing(root: bytes) -> None:
    """With only a new mode the file stays the same file with its time of change."""
    before, after = {b"f": file(b"x", 0o644)}, {b"f": file(b"x", 0o755)}
    build(root, before)
    os.utime(root + b"/f", ns=(10**18, 10**18))
    inode = os.stat(root + b"/f").st_ino

    bring(root, before, after)

    status = os.stat(root + b"/f")
    assert (status.st_ino, status.st_mtime_ns, status.st_mode & 0o7777) == (inode, 10**18, 0o755)


def test_untouched_files_keep_everything(root: bytes) -> None:
    """Files that the plan does not change keep inode, mode and both times; so do files after a roll back."""
    before = {b"kept": file(b"x", 0o640), b"f": file(b"1"), b"d": folder(), b"d/kept": file(b"y")}
    after = {**before, b"f": file(b"2"), b"d/new": file(b"3")}
    build(root, before)
    for path in before:
        os.utime(root + b"/" + path, ns=(10**18, 10**18))

    def facts(path: bytes) -> tuple[int, int, int]:
        status = os.stat(root + b"/" + path)
        return status.st_ino, status.st_mtime_ns, status.st_mode

    kept = {path: facts(path) for path in (b"kept", b"d/kept", b"f")}
    planned = steps(before, after)
    assert apply(root, planned, TOKEN, Store(before, after)).failed == ()
    assert {path: facts(path) for path in (b"kept", b"d/kept")} == {
        path: kept[path] for path in (b"kept", b"d/kept")
    }
    assert roll_back(root, planned, TOKEN, Store(before, after)) == ()
    assert {path: facts(path) for path in kept} == kept


def test_a_step_that_changes_nothing_does_nothing(root: bytes) -> None:
    """Where before is after, there is no effect on the disk at all."""
    before = {b"f": file(b"1")}
    build(root, before)
    hook = Counter()

    step = FileStep(b"f", state(before[b"f"]), state(before[b"f"]))
    report = apply(root, [step], TOKEN, Store(before), before_effect=hook)

    assert (report.failed, hook.names) == ((), [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_stay(root: bytes) -> None:
    """A file, a link and a folder that are written over still belong to whom they belonged."""
    before: Tree = {b"f": file(b"1", 0o4711), b"l": link(b"a"), b"s": file(b"x")}
    after: Tree = {b"f": file(b"2", 0o4711), b"l": link(b"b"), b"s": folder(0o700)}
    build(root, before)
    for path in before:
        os.chown(root + b"/" + path, 1234, 2345, follow_symlinks=False)
    os.chmod(root + b"/f", 0o4711)

    bring(root, before, after)

    assert read(root) == after
    for path in before:
        status = os.lstat(root + b"/" + path)
        assert (status.st_uid, status.st_gid) == (1234, 2345), path


def test_extended_attributes_stay(root: bytes) -> None:
    """Extended attributes of a file that is written over are on the new one."""
    before, after = {b"f": file(b"1", 0o444)}, {b"f": file(b"2", 0o440)}
    build(root, before)
    try:
        os.setxattr(root + b"/f", "user.colour", b"red\0blue")
    except (OSError, AttributeError):
        pytest.skip("the file system of the temporary folder has no extended attributes")

    bring(root, before, after)

    assert os.getxattr(root + b"/f", "user.colour") == b"red\0blue"
    assert read(root) == after


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives programs capabilities")
def test_capabilities_stay(root: bytes) -> None:
    """A program that is written over, beside or in place, may afterwards what it could before."""
    capability = (0x02000001).to_bytes(4, "little") + (1 << 10).to_bytes(4, "little") + b"\0" * 12
    before = {b"f": file(b"1", 0o755), b"a": file(b"1", 0o4755, "a"), b"b": file(b"1", 0o4755, "a")}
    after = {path: node._replace(content=b"2") for path, node in before.items()}
    build(root, before)
    for path in (b"f", b"a"):
        try:
            os.setxattr(root + b"/" + path, "security.capability", capability)
        except OSError:
            pytest.skip("the file system of the temporary folder has no capabilities")

    bring(root, before, after)

    assert read(root) == after
    for path in (b"f", b"a"):
        assert os.getxattr(root + b"/" + path, "security.capability") == capability


def test_an_acl_stays_and_none_is_inherited(root: bytes) -> None:
    """The access list of a file that is written over stays; one without gets none from its folder."""
    header, none = b"\2\0\0\0", b"\xff\xff\xff\xff"

    def entry(tag: int, bits: int, who: bytes = none) -> bytes:
        return tag.to_bytes(2, "little") + bits.to_bytes(2, "little") + who

    named = entry(2, 6, (1234).to_bytes(4, "little"))
    acl = header + entry(1, 6) + named + entry(4, 4) + entry(16, 6) + entry(32, 4)
    before, after = {b"f": file(b"1", 0o664), b"g": file(b"1")}, {b"f": file(b"2", 0o664), b"g": file(b"2")}
    build(root, before)
    try:
        os.setxattr(root + b"/f", "system.posix_acl_access", acl)
        os.setxattr(root, "system.posix_acl_default", acl)
    except (OSError, AttributeError):
        pytest.skip("the file system of the temporary folder has no access lists")

    bring(root, before, after)

    assert os.getxattr(root + b"/f", "system.posix_acl_access") == acl
    assert "system.posix_acl_access" not in os.listxattr(root + b"/g")
    assert read(root) == after


def test_hard_links_stay_linked(root: bytes) -> None:
    """Links to one file that the plan gives the same stay links to the very same file."""
    before = {path: file(b"old", 0o644, "a") for path in (b"a", b"b")}
    after = {path: file(b"newer", 0o600, "a") for path in (b"a", b"b")}
    build(root, before)
    inode = os.stat(root + b"/a").st_ino
    planned, store = steps(before, after), Store(before, after)

    report = apply(root, planned, TOKEN, store)

    assert (report.failed, set(report.done)) == ((), {b"a", b"b"})
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(root) == before
    bring(root, before, after)
    assert read(root) == after
    assert os.stat(root + b"/a").st_ino == inode


@pytest.mark.parametrize("after", [file(b"new"), file(b"old", 0o755)], ids=["content", "mode"])
def test_links_that_the_plan_does_not_name_keep_theirs(root: bytes, after: Node) -> None:
    """A link elsewhere, as package managers make them to their caches, is not changed; roll back makes
    them one file again."""
    before = {path: file(b"old", 0o644, "a") for path in (b"a", b"cache")}
    build(root, before)
    planned, store = steps({b"a": before[b"a"]}, {b"a": after}), Store(before, {b"a": after})

    assert apply(root, planned, TOKEN, store).failed == ()
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(root) == before
    assert apply(root, planned, TOKEN, store).failed == ()
    assert finish(root, planned, TOKEN) == ()
    assert read(root) == {b"a": after, b"cache": file(b"old")}


def test_hard_links_that_are_to_differ_are_parted(root: bytes) -> None:
    """Where the plan wants other contents, modes or kinds for links to one file, each gets its own;
    roll back makes them links again."""
    names = (b"a", b"b", b"c", b"d", b"e")
    before = {name: file(b"old", 0o644, "t") for name in names}
    after: Tree = {b"a": file(b"1"), b"b": file(b"2"), b"c": file(b"old", 0o755), b"d": link(b"old")}
    build(root, before)
    linked = read(root)
    planned = steps(before, after)

    assert apply(root, planned, TOKEN, Store(before, after)).failed == ()
    assert {path: node for path, node in read(root).items() if b".recorder" not in path} == after
    assert roll_back(root, planned, TOKEN, Store(before, after)) == ()
    assert read(root) == linked


def test_old_bytes_must_be_at_hand_to_write_in_place(root: bytes) -> None:
    """A hard-linked file whose old bytes the store lacks is not written over."""
    before = {b"a": file(b"old", 0o644, "t"), b"b": file(b"old", 0o644, "t")}
    after = {b"a": file(b"new"), b"b": file(b"new")}
    build(root, before)
    was = read(root)

    report = apply(root, steps(before, after), TOKEN, Store(after))

    assert report.rolled_back
    assert "no blob" in report.failed[0].why
    assert read(root) == was


def test_content_that_is_not_what_was_stored_is_refused(root: bytes) -> None:
    """A store that answers with other bytes changes nothing."""
    before, after = {b"f": file(b"old")}, {b"f": file(b"new")}
    build(root, before)
    store = Store(before, after)
    store.contents[oid(b"new")] = b"rotten"

    report = apply(root, steps(before, after), TOKEN, store)

    assert (report.done, report.rolled_back, paths(report.failed)) == ((), True, {b"f"})
    assert read(root) == before


def test_missing_folders_are_made_and_go_again(root: bytes) -> None:
    """Folders above a file that the plan does not name are made with 0755, and rolled back with it."""
    planned = [FileStep(b"a/b/c", ABSENT, state(file(b"1")))]
    store = Store({b"c": file(b"1")})
    made = {b"a": folder(), b"a/b": folder(), b"a/b/c": file(b"1")}

    apply(root, planned, TOKEN, store)
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(root) == {}
    apply(root, planned, TOKEN, store)
    assert finish(root, planned, TOKEN) == ()
    assert read(root) == made


def test_a_folder_with_other_files_stays(root: bytes) -> None:
    """A folder that is to go and holds files of others stays with them and with its mode, and is named."""
    before: Tree = {b"d": folder(0o500), b"d/e": folder(), b"d/e/f": file(b"1"), b"g": folder()}
    others: Tree = {b"d/e/ignored": file(b"mine")}
    build(root, before | others)

    report = apply(root, steps(before, {}), TOKEN, Store(before))

    assert report.failed == ()
    assert paths(report.kept) == {b"d", b"d/e"}
    assert set(report.done) == {b"d/e/f", b"g"}
    assert finish(root, steps(before, {}), TOKEN) == ()
    assert read(root) == {b"d": folder(0o500), b"d/e": folder()} | others


def test_a_folder_with_other_files_is_not_replaced(root: bytes) -> None:
    """Where a file is to stand instead, the other files in the folder make the whole apply fail."""
    before: Tree = {b"d": folder(), b"d/f": file(b"1"), b"x": file(b"1")}
    after: Tree = {b"d": file(b"2"), b"x": file(b"2")}
    build(root, before | {b"d/ignored": file(b"mine")})

    report = apply(root, steps(before, after), TOKEN, Store(before, after))

    assert (report.done, report.rolled_back, paths(report.failed)) == ((), True, {b"d"})
    assert read(root) == before | {b"d/ignored": file(b"mine")}


@pytest.mark.parametrize(
    "surprise",
    [None, file(b"other"), file(b"1", 0o600), link(b"1"), folder()],
    ids=["gone", "content", "mode", "link", "folder"],
)
def test_what_is_not_as_planned_is_found_before_anything(root: bytes, surprise: Node | None) -> None:
    """A path that differs from the plan in existence, content, mode or kind fails it; nothing is touched."""
    before, after = {b"f": file(b"1"), b"g": file(b"1")}, {b"f": file(b"2"), b"g": file(b"2")}
    stands = {b"g": file(b"1")} | ({b"f": surprise} if surprise else {})
    build(root, stands)
    hook = Counter()

    report = apply(root, steps(before, after), TOKEN, Store(before, after), before_effect=hook)

    assert paths(report.failed) == {b"f"}
    assert (report.rolled_back, hook.names) == (True, [])
    assert read(root) == stands


def test_writes_come_before_deletions(root: bytes) -> None:
    """When a file cannot be written, nothing was deleted yet; all that cannot be are named."""
    before: Tree = {b"n": file(b"new file"), b"m": file(b"1"), b"o": file(b"1")}
    after: Tree = {b"m": file(b"2"), b"o": file(b"3")}
    build(root, before)
    hook = Counter()

    report = apply(root, steps(before, after), TOKEN, Store(before), before_effect=hook)

    assert paths(report.failed) == {b"m", b"o"}
    assert (report.rolled_back, hook.names) == (True, [])
    assert read(root) == before


@pytest.fixture
def immutable(root: bytes) -> Iterator[Callable[[bytes], None]]:
    """Make a path immutable, where that can be done; it is undone afterwards."""
    done = []

    def set_flag(path: bytes) -> None:
        call = subprocess.run(["chattr", "+i", path], capture_output=True, check=False)
        if call.returncode:
            pytest.skip("files cannot be made immutable here")
        done.append(path)

    try:
        set_flag.__name__ = "immutable"
        yield set_flag
    except FileNotFoundError:
        pytest.skip("there is no chattr here")
    finally:
        for path in done:
            subprocess.run(["chattr", "-i", path], check=True)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_immutable(root: bytes, immutable: Callable[[bytes], None], kind: str) -> None:
    """An immutable file, and one to be deleted from an immutable folder, fail the plan; all is as before."""
    before = {b"a": file(b"1"), b"d": folder(), b"d/f": file(b"1"), b"z": file(b"1")}
    after = {b"a": file(b"2"), b"d": folder(), b"new": file(b"3")} | (
        {b"d/f": file(b"2")} if kind == "file" else {}
    )
    build(root, before)
    immutable(root + (b"/d/f" if kind == "file" else b"/d"))

    report = apply(root, steps(before, after), TOKEN, Store(before, after))

    assert (report.rolled_back, report.unrecovered) == (True, ())
    assert [(note.path, note.why) for note in report.failed] == [(b"d/f", "operation not permitted")]
    assert read(root) == before


def test_immutable_folder_is_got_around(root: bytes, immutable: Callable[[bytes], None]) -> None:
    """A file in a folder that cannot be written is written in place and rolled back so."""
    before = {b"d": folder(), b"d/f": file(b"old"), b"d/m": file(b"x", 0o644)}
    after = {b"d": folder(), b"d/f": file(b"newer", 0o600), b"d/m": file(b"x", 0o755)}
    build(root, before)
    inode = os.stat(root + b"/d/f").st_ino
    immutable(root + b"/d")
    planned, store = steps(before, after), Store(before, after)

    assert apply(root, planned, TOKEN, store).failed == ()
    assert len(private(root)) == 2
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(root) == before
    assert apply(root, planned, TOKEN, store).failed == ()
    assert finish(root, planned, TOKEN) == ()
    assert read(root) == after
    assert os.stat(root + b"/d/f").st_ino == inode


def test_a_mounted_file_is_written_in_place(root: bytes) -> None:
    """A file that is a mount point cannot be exchanged, and gets its content through the mount."""
    before, after = {b"f": file(b"old")}, {b"f": file(b"new")}
    planned, store = steps(before, after), Store(before, after)
    build(root, before)
    with open(root + b"/../source", "wb") as stream:
        stream.write(b"old")
    if subprocess.run(
        ["mount", "--bind", root + b"/../source", root + b"/f"], capture_output=True
    ).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert apply(root, planned, TOKEN, store).failed == ()
        assert content(root + b"/../source") == b"new"
        assert roll_back(root, planned, TOKEN, store) == ()
        assert content(root + b"/../source") == b"old"
    finally:
        subprocess.run(["umount", root + b"/f"], check=True)
    assert read(root) == before


def test_no_space_and_busy_roll_back(root: bytes) -> None:
    """A disk that is full half-way and a busy name put everything back and say why."""
    before, after = {b"f": file(b"1"), b"g": file(b"1")}, {b"f": file(b"2"), b"h": file(b"3")}
    build(root, before)
    for name, number in (("before write", errno.ENOSPC), ("before move", errno.EBUSY)):

        def fail(number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        hook = at_effect(name, fail, nth=1)
        report = apply(root, steps(before, after), TOKEN, Store(before, after), before_effect=hook)
        assert [note.why for note in report.failed] == [os.strerror(number).lower()]
        assert report.rolled_back
        assert read(root) == before


def test_a_vanished_folder(root: bytes) -> None:
    """A folder that vanishes under way fails the plan; what was in it is named as not brought back."""
    before = {b"d": folder(), b"d/f": file(b"1"), b"e": file(b"1")}
    after = {b"d": folder(), b"d/f": file(b"2"), b"e": file(b"2")}
    build(root, before)
    planned = sorted(steps(before, after), key=lambda step: step.path, reverse=True)
    hook = at_effect("after exchange", lambda: os.rename(root + b"/d", root + b"/../moved"))

    report = apply(root, planned, TOKEN, Store(before, after), before_effect=hook)

    assert (paths(report.failed), paths(report.unrecovered), report.rolled_back) == (
        {b"d/f"},
        {b"d/f"},
        False,
    )
    assert read(root) == {b"e": file(b"1")}


def test_everything_is_durable(root: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """New content is synced before it takes its place, every folder after the last effect in it; in roll
    back too."""
    before = {b"d": folder(), b"d/f": file(b"1"), b"e": folder(), b"e/g": file(b"2"), b"h": file(b"3")}
    after = {b"d": folder(), b"d/f": file(b"new"), b"e": folder(), b"h": file(b"3", 0o600)}
    build(root, before)
    folders = {os.stat(path).st_ino for path in (root, root + b"/d", root + b"/e")}
    happened: list[object] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: happened.append(os.fstat(descriptor).st_ino))
    planned, store = steps(before, after), Store(before, after)

    def synced_last() -> set[object]:
        last = max(index for index, what in enumerate(happened) if isinstance(what, str))
        return set(happened[last:])

    apply(root, planned, TOKEN, store, before_effect=happened.append)
    assert os.stat(root + b"/d/f").st_ino in happened[: happened.index("before exchange")]
    assert os.stat(root + b"/h").st_ino in happened
    assert folders <= synced_last()
    happened.clear()
    roll_back(root, planned, TOKEN, store, before_effect=happened.append)
    assert folders <= synced_last()


def test_a_token_that_is_none(root: bytes) -> None:
    """A token that could lead elsewhere is refused before anything is looked at."""
    for token in ("../../../x", "", "a/bcdefgh"):
        with pytest.raises(Failed):
            apply(root, [FileStep(b"f", ABSENT, PathState("dir", 0o755))], token, Store())
