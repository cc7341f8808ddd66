"""Which paths are written, and that no write ever leaves the work tree."""

from __future__ import annotations

import os

import pytest

from recorder.applying.apply import apply, finish, roll_back
from recorder.events import FileStep
from recorder.states import ABSENT
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
    paths,
    read,
    state,
    steps,
)

ODD = (
    b"new\nline",
    b"tab\t",
    b"-dash",
    b"*?[a]",
    b" space ",
    b"\xff\xfe not UTF-8",
    b"\xe0\xa4\xa4" * 85,
    b"x" * 255,
    "é".encode(),
    "e\u0301".encode(),
    b"quote'\"\\",
    b".gitignore",
)


def test_odd_names(root: bytes) -> None:
    """Names of any bytes and of 255 of them, as files, folders and links, arrive and return."""
    before: Tree = {name: file(b"1") for name in ODD}
    after: Tree = {}
    for name in ODD:
        after |= {name: folder(), name + b"/" + name: file(b"2"), name + b"/l": link(name)}
    build(root, before)
    planned, store = steps(before, after), Store(before, after)

    assert apply(root, planned, TOKEN, store).failed == ()
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(root) == before
    assert apply(root, planned, TOKEN, store).failed == ()
    assert finish(root, planned, TOKEN) == ()
    assert read(root) == after


def test_a_path_longer_than_the_kernel_takes(root: bytes) -> None:
    """A file 40 folders of 200 bytes deep, beyond PATH_MAX, is made and rolled back."""
    path = b"/".join([b"d" * 200] * 40 + [b"f"])
    planned, store = [FileStep(path, ABSENT, state(file(b"1")))], Store({b"f": file(b"1")})

    assert apply(root, planned, TOKEN, store).done == (path,)
    assert roll_back(root, planned, TOKEN, store) == ()
    assert os.listdir(root) == []


@pytest.mark.parametrize(
    "path",
    [
        b"../out",
        b"d/../../out",
        b"",
        b".",
        b"d//f",
        b"d/",
        b"nul\0",
        b".git/config",
        b"d/.git",
        b".recorder-0123456789abcdef-0123456789abcdef0123r",
        b"d/.recorder-0123456789abcdef-0123456789abcdef0123m/f",
        b"/../x",
        b"/",
    ],
)
def test_refused_paths(root: bytes, path: bytes) -> None:
    """A path out of the tree, into a git folder or onto a name of the recorder's own is never touched."""
    hook = Counter()
    planned = [FileStep(path, ABSENT, state(file(b"1"))), FileStep(b"ok", ABSENT, state(file(b"1")))]
    store = Store({b"f": file(b"1")})

    report = apply(root, planned, TOKEN, store, before_effect=hook)

    assert paths(report.failed) == {path}
    assert (hook.names, read(root)) == ([], {})
    assert roll_back(root, planned, TOKEN, store) == ()
    assert (hook.names, read(root)) == ([], {})


def test_a_link_on_the_way_is_not_followed(root: bytes) -> None:
    """A file below a link to another folder is neither written over, made nor deleted there."""
    outside = os.path.dirname(root) + b"/outside"
    os.mkdir(outside)
    there: Tree = {b"f": file(b"old"), b"g": file(b"old")}
    build(outside, there)
    os.symlink(outside, root + b"/d")
    for before, after in ((file(b"old"), file(b"new")), (None, file(b"new")), (file(b"old"), None)):
        for path in (b"d/f", b"d/new"):
            planned = [FileStep(path, state(before), state(after))]
            report = apply(root, planned, TOKEN, Store({b"f": file(b"new"), b"g": file(b"old")}))
            assert (paths(report.failed), report.rolled_back) == ({path}, True)
            assert read(outside) == there
    assert read(root) == {b"d": link(outside)}


def test_a_folder_swapped_for_a_link_meanwhile(root: bytes, no_sync: None) -> None:
    """At whatever effect a folder is swapped for a link to a place outside: nothing is written there."""
    before: Tree = {
        b"d": folder(),
        b"d/e": folder(),
        b"d/e/f": file(b"1"),
        b"d/e/g": file(b"1"),
        b"d/e/h": file(b"1", twin="t"),
        b"d/e/i": file(b"1", twin="t"),
    }
    after: Tree = {
        b"d": folder(),
        b"d/e": folder(),
        b"d/e/f": file(b"2"),
        b"d/e/h": file(b"2"),
        b"d/e/i": file(b"2"),
        b"d/e/n": file(b"3"),
    }
    planned, store = steps(before, after), Store(before, after)
    twin = os.path.dirname(root) + b"/outside"
    os.mkdir(twin)
    there = {path.removeprefix(b"d/"): node for path, node in before.items() if path != b"d"}
    build(twin, there)
    there = read(twin)
    at = 0
    while True:
        place = b"%s%d" % (root, at)
        os.mkdir(place)
        build(place, before)

        def swap(place: bytes = place) -> None:
            os.rename(place + b"/d", place + b"/moved")
            os.symlink(twin, place + b"/d")

        hook = Counter(at, swap)
        report = apply(place, planned, TOKEN, store, before_effect=hook)
        if len(hook.names) <= at:
            break
        if not report.failed:
            finish(place, planned, TOKEN)
        assert read(twin) == there, at
        at += 1
    assert at > 20


@pytest.mark.parametrize("after", [file(b"new"), file(b"old", 0o755)], ids=["content", "mode"])
def test_a_file_swapped_for_a_link_meanwhile(root: bytes, after: Node) -> None:
    """A file to be written in place that is swapped for a link to the same bytes outside is left."""
    outside = os.path.dirname(root) + b"/outside"
    before = {b"a": file(b"old", twin="t"), b"b": file(b"old", twin="t")}
    wanted = {b"a": after, b"b": after}
    build(root, before)
    build(os.path.dirname(root), {b"outside": file(b"old")})

    def swap() -> None:
        for path in (b"/a", b"/b"):
            os.unlink(root + path)
            os.symlink(outside, root + path)

    hook = at_effect("after create", swap)
    report = apply(root, steps(before, wanted), TOKEN, Store(before, wanted), before_effect=hook)

    assert len(report.failed) == 1
    assert (content(outside), os.stat(outside).st_mode & 0o777) == (b"old", 0o644)


def test_a_link_turned_into_a_folder(root: bytes) -> None:
    """A link becomes a folder with files in it, and a folder a link: what it led to is untouched."""
    before: Tree = {
        b"real": folder(),
        b"real/f": file(b"1"),
        b"d": link(b"real"),
        b"e": folder(),
        b"e/f": file(b"2"),
    }
    after: Tree = {
        b"real": folder(),
        b"real/f": file(b"1"),
        b"d": folder(),
        b"d/f": file(b"3"),
        b"e": link(b"real"),
    }
    build(root, before)
    planned, store = steps(before, after), Store(before, after)

    assert apply(root, planned, TOKEN, store).failed == ()
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(root) == before
    assert apply(root, planned, TOKEN, store).failed == ()
    assert finish(root, planned, TOKEN) == ()
    assert read(root) == after


@pytest.mark.parametrize(
    "name", [b".GIT", b".recorder-mine", b".recorder.toml", b".recorder-0123456789abcdef"]
)
def test_names_that_only_look_like_others(root: bytes, name: bytes) -> None:
    """Another spelling of `.git` where that is another name, and what only begins as a private name does, are
    files like all others."""
    before: Tree = {name: folder(), name + b"/f": file(b"1"), b"d": folder(), b"d/" + name: file(b"2")}
    after: Tree = {b"d": folder(), b"d/" + name: file(b"3")}
    build(root, before)

    assert apply(root, steps(before, after), TOKEN, Store(before, after)).failed == ()
    assert finish(root, steps(before, after), TOKEN) == ()
    assert read(root) == after


@pytest.mark.parametrize("path", [b".GIT", b".Git/config"])
def test_another_spelling_of_the_repository(root: bytes, path: bytes) -> None:
    """Where the file system takes another spelling for the repository itself, nothing of it is written."""
    before: Tree = {b".git": file(b"gitdir: x"), b"f": file(b"1")}
    build(root, before)
    os.link(root + b"/.git", root + b"/" + path.partition(b"/")[0])
    was, hook = read(root), Counter()
    here = state(before[b".git"]) if path == b".GIT" else ABSENT
    planned = [FileStep(path, here, state(file(b"2"))), FileStep(b"f", state(file(b"1")), state(file(b"2")))]

    report = apply(root, planned, TOKEN, Store({b"": file(b"2")}, before), before_effect=hook)

    assert paths(report.failed) == {path}
    assert "git" in report.failed[0].why
    assert (hook.names, read(root)) == ([], was)


def test_files_outside_the_tree(root: bytes) -> None:
    """An absolute path is written where it says, and returns."""
    outside = os.path.dirname(root) + b"/outside"
    os.mkdir(outside)
    build(outside, {b"f": file(b"old", 0o600), b"g": file(b"old")})
    store = Store({b"f": file(b"new"), b"g": file(b"old")})
    planned = [
        FileStep(outside + b"/f", state(file(b"old", 0o600)), state(file(b"new", 0o640))),
        FileStep(outside + b"/g", state(file(b"old")), ABSENT),
        FileStep(outside + b"/made/n", ABSENT, state(file(b"new"))),
    ]
    after = {b"f": file(b"new", 0o640), b"made": folder(), b"made/n": file(b"new")}

    assert apply(root, planned, TOKEN, store).failed == ()
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(outside) == {b"f": file(b"old", 0o600), b"g": file(b"old")}
    assert apply(root, planned, TOKEN, store).failed == ()
    assert finish(root, planned, TOKEN) == ()
    assert read(outside) == after
    assert os.listdir(root) == []


@pytest.mark.parametrize("before", [None, file(b"old")], ids=["made", "written"])
def test_a_link_on_the_way_outside_is_not_followed(root: bytes, before: Node | None) -> None:
    """Nor is one on the way to an absolute path: what was captured lay at its real place."""
    outside = os.path.dirname(root) + b"/outside"
    os.mkdir(outside)
    there = {b"f": file(b"old")} if before else {}
    build(outside, there)
    os.symlink(outside, outside + b"-link")
    planned = [FileStep(outside + b"-link/f", state(before), state(file(b"new")))]

    report = apply(root, planned, TOKEN, Store({b"f": file(b"new")}))

    assert paths(report.failed) == {outside + b"-link/f"}
    assert report.rolled_back
    assert (read(outside), os.path.islink(outside + b"-link")) == (there, True)


@pytest.mark.parametrize("where", ["root", "above"])
def test_a_root_that_was_swapped_for_a_link(root: bytes, where: str) -> None:
    """Where the work tree, or a folder above it, gave way to a link to another one that looks the same,
    nothing is written there; where that happens under way, the work goes on in the tree that it began in."""
    before, after = {b"f": file(b"1"), b"g": file(b"1")}, {b"f": file(b"2"), b"g": file(b"2")}
    planned, store = steps(before, after), Store(before, after)
    top = os.path.dirname(root)
    work = top + b"/above/work"
    twin = top + b"/twin"
    os.makedirs(work)
    os.makedirs(twin + b"/work")
    build(work, before)
    build(twin + b"/work", before)

    def swap() -> None:
        one, other = (work, twin + b"/work") if where == "root" else (top + b"/above", twin)
        os.rename(one, top + b"/moved")
        os.symlink(other, one)

    report = apply(work, planned, TOKEN, store, before_effect=at_effect("before exchange", swap))
    assert report.failed == ()
    assert read(twin + b"/work") == before
    moved = top + (b"/moved" if where == "root" else b"/moved/work")
    assert {path: node for path, node in read(moved).items() if b".recorder" not in path} == after
    again = apply(work, planned, TOKEN[::-1], store)
    assert paths(again.failed) == {b"f", b"g"}
    assert read(twin + b"/work") == before


def test_special_files_are_not_opened(root: bytes) -> None:
    """A pipe where a file should stand is found without waiting for its other end."""
    os.mkfifo(root + b"/f")

    report = apply(root, [FileStep(b"f", state(file(b"1")), ABSENT)], TOKEN, Store())

    assert (paths(report.failed), report.rolled_back) == ({b"f"}, True)
