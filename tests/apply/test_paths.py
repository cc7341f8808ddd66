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
        b"d/.GIT/hooks/x",
        b".recorder-mine",
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


def test_files_outside_the_tree(root: bytes) -> None:
    """An absolute path is written at its real place, in the folder that a link on the way leads to, and
    returns; the link itself stays."""
    outside = os.path.dirname(root) + b"/outside"
    os.mkdir(outside)
    os.symlink(outside, outside + b"-link")
    build(outside, {b"f": file(b"old", 0o600), b"g": file(b"old")})
    store = Store({b"f": file(b"new"), b"g": file(b"old")})
    planned = [
        FileStep(outside + b"-link/f", state(file(b"old", 0o600)), state(file(b"new", 0o640))),
        FileStep(outside + b"/g", state(file(b"old")), ABSENT),
        FileStep(outside + b"-link/made/n", ABSENT, state(file(b"new"))),
    ]
    after = {b"f": file(b"new", 0o640), b"made": folder(), b"made/n": file(b"new")}

    assert apply(root, planned, TOKEN, store).failed == ()
    assert roll_back(root, planned, TOKEN, store) == ()
    assert read(outside) == {b"f": file(b"old", 0o600), b"g": file(b"old")}
    assert apply(root, planned, TOKEN, store).failed == ()
    assert finish(root, planned, TOKEN) == ()
    assert read(outside) == after
    assert (os.path.islink(outside + b"-link"), os.listdir(root)) == (True, [])


def test_a_link_outside_into_a_git_folder(root: bytes) -> None:
    """An absolute path whose real folder lies in a git folder is refused too."""
    outside = os.path.dirname(root) + b"/outside"
    os.makedirs(outside + b"/.git/hooks")
    os.symlink(outside + b"/.git/hooks", outside + b"/hooks")

    report = apply(
        root, [FileStep(outside + b"/hooks/x", ABSENT, state(file(b"1")))], TOKEN, Store({b"": file(b"1")})
    )

    assert "git" in report.failed[0].why
    assert os.listdir(outside + b"/.git/hooks") == []


def test_special_files_are_not_opened(root: bytes) -> None:
    """A pipe where a file should stand is found without waiting for its other end."""
    os.mkfifo(root + b"/f")

    report = apply(root, [FileStep(b"f", state(file(b"1")), ABSENT)], TOKEN, Store())

    assert (paths(report.failed), report.rolled_back) == ({b"f"}, True)
