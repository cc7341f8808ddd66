"""Any tree becomes any other one, and comes back."""

from __future__ import annotations

import os
import shutil
import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.applying import renames
from recorder.applying.apply import apply, finish, roll_back
from tests.apply.trees import (
    TOKEN,
    Counter,
    Node,
    Store,
    Tree,
    build,
    file,
    folder,
    link,
    plain,
    read,
    steps,
)

NAMES = st.sampled_from([b"a", b"b", b"\xff", b"n\n"])
FILES = st.builds(
    file, st.sampled_from([b"", b"1", b"two", b"x" * 70_000]), st.sampled_from([0o644, 0o600, 0o4755])
)
LINKS = st.builds(link, st.sampled_from([b"a", b"../b", b"/nowhere"]))
MODES = st.sampled_from([0o755, 0o700, 0o555])
FOLDERS = st.deferred(
    lambda: st.dictionaries(NAMES, st.one_of(FILES, LINKS, st.tuples(MODES, FOLDERS)), max_size=3)
)


def flat(entries: dict[bytes, object], above: bytes = b"") -> Tree:
    tree: Tree = {}
    for name, entry in entries.items():
        path = above + name
        if isinstance(entry, Node):
            tree[path] = entry
        else:
            mode, within = entry  # type: ignore[misc]
            tree |= {path: folder(mode), **flat(within, path + b"/")}
    return tree


TREES = FOLDERS.map(flat)


@st.composite
def linked(draw: st.DrawFn) -> Tree:
    """A tree in which files that are alike may be one."""
    tree = draw(TREES)
    for path, node in tree.items():
        if node.kind == "file" and draw(st.booleans()):
            tree[path] = node._replace(twin=f"{node.mode} {len(node.content)}")
    return tree


@settings(max_examples=120, deadline=None)
@given(linked(), TREES, st.booleans(), st.integers(0, 400))
def test_there_and_back(before: Tree, after: Tree, calls: bool, fail_at: int) -> None:
    """From a random tree to another: exact after finish; exactly the first, links included, after roll
    back; and either of them when any effect fails on the way."""

    def refuse(*_: object) -> None:
        raise renames.Unsupported

    def fail() -> None:
        raise OSError(28, "No space left on device")

    native, sync = renames._call, os.fsync
    root = os.fsencode(tempfile.mkdtemp())
    try:
        renames._call, os.fsync = (native if calls else refuse), lambda _: None
        build(root, before)
        first = read(root)
        planned, store = steps(before, after), Store(before, after)
        assert apply(root, planned, TOKEN, store).failed == ()
        assert roll_back(root, planned, TOKEN, store) == ()
        assert read(root) == first
        report = apply(root, planned, TOKEN, store, before_effect=Counter(fail_at, fail))
        if report.failed:
            assert report.rolled_back
            assert read(root) == first
            assert apply(root, planned, TOKEN, store).failed == ()
        assert finish(root, planned, TOKEN) == ()
        assert plain(read(root)) == plain(after)
    finally:
        renames._call, os.fsync = native, sync
        shutil.rmtree(root)
