import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.capturing import heads
from recorder.capturing.repository import HeadMove
from recorder.states import ABSENT
from tests.capture.helpers import commit_all, look_once, make_repository, on_disk, open_tree, run_git, write

NAMES = st.sampled_from([b"a", b"b", b"a b", b"\xff", b"-x", b".gitmodules", b"A"])
PATHS = st.lists(NAMES, min_size=1, max_size=3)
CONTENTS = st.sampled_from([b"", b"x", b"y\r\n", b'[submodule "-u"]\npath = -x\nurl = -x\n'])
STEPS = st.one_of(
    st.tuples(st.just("file"), PATHS, CONTENTS, st.sampled_from([0o644, 0o755, 0o600, 0o4750])),
    st.tuples(st.just("link"), PATHS, st.sampled_from([b"a", b"..", b"/etc", b"nowhere"])),
    st.tuples(st.just("dir"), PATHS, st.sampled_from([0o755, 0o700, 0o1777])),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("commit")),
)


def apply(root: Path, step: tuple) -> None:  # type: ignore[type-arg]
    """One edit; what cannot be done where it is, is not."""
    if step[0] == "commit":
        with contextlib.suppress(subprocess.CalledProcessError):  # git refuses a link named .gitmodules
            run_git(root, "add", "-A")
        return
    target = os.fsencode(root) + b"/" + b"/".join(step[1])
    above = os.fsencode(root)
    for name in step[1][:-1]:
        above += b"/" + name
        if os.path.islink(above) or os.path.isfile(above):
            os.unlink(above)
        if not os.path.isdir(above):
            os.mkdir(above)
    if os.path.lexists(target):
        if os.path.isdir(target) and not os.path.islink(target):
            if step[0] == "dir":
                os.chmod(target, step[2])
                return
            shutil.rmtree(target)
        else:
            os.unlink(target)
    if step[0] == "file":
        write(target, step[2])
        os.chmod(target, step[3])
    elif step[0] == "link":
        os.symlink(step[2], target)
    elif step[0] == "dir":
        os.mkdir(target)
        os.chmod(target, step[2])


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(STEPS, max_size=6), min_size=2, max_size=3), st.booleans())
def test_captures_hold_what_is_on_disk_and_differ_where_it_does(histories: list, plain: bool) -> None:  # type: ignore[type-arg]
    """On random trees and edits: a capture is the disk, a second one writes nothing and the delta is the real
    difference, by an independent reading of the disk; the store is sound."""
    with tempfile.TemporaryDirectory() as scratch:
        tmp = Path(scratch)
        root = tmp / "w"
        if plain:
            root.mkdir()
        else:
            make_repository(root)
        with open_tree(tmp, root) as tree:
            previous, before, first, start = None, {}, None, {}
            for steps in histories:
                for step in steps:
                    if not (plain and step[0] == "commit"):
                        apply(root, step)
                look = tree.capture(previous=previous)
                now = on_disk(root)
                assert dict(tree.walk(look.commit)) == now
                assert tree.states(look.commit, list(now)) == now
                if previous is not None:
                    expected = {
                        path: (before.get(path, ABSENT), now.get(path, ABSENT))
                        for path in before.keys() | now.keys()
                        if before.get(path) != now.get(path)
                    }
                    assert {c.path: (c.before, c.after) for c in look.delta} == expected
                again = tree.capture(previous=look.commit)
                assert (again.commit, again.written, again.delta) == (look.commit, 0, ())
                previous, before = look.commit, now
                first, start = (first, start) if first else (look.commit, now)
            assert first is not None and previous is not None
            whole = {c.path: (c.before, c.after) for c in tree.diff(first, previous)}
            assert whole == {
                path: (start.get(path, ABSENT), before.get(path, ABSENT))
                for path in start.keys() | before.keys()
                if start.get(path) != before.get(path)
            }
            tree.fsck()


@pytest.mark.parametrize("options", [("--object-format=sha256",), ()])
def test_changes_that_a_checkout_brought_are_gits(tmp_path: Path, options: tuple[str, ...]) -> None:
    """What HEAD's move brought and took is marked; what a person changed beside it is not."""
    root = make_repository(tmp_path / "w", *options)
    write(root / "f", "1")
    write(root / "stays", "s")
    commit_all(root)
    run_git(root, "checkout", "-q", "-b", "other")
    write(root / "f", "2")
    write(root / "added", "a")
    commit_all(root)
    run_git(root, "checkout", "-q", "main")
    tree, first = look_once(tmp_path, root)
    run_git(root, "checkout", "-q", "other")
    write(root / "stays", "edited")
    second = tree.capture(previous=first.commit)
    assert {c.path: c.by_git for c in second.delta} == {b"f": True, b"added": True, b"stays": False}
    run_git(root, "reset", "-q", "--hard", "main")
    third = tree.capture(previous=second.commit)
    assert {c.path: c.by_git for c in third.delta} == {b"f": True, b"added": True, b"stays": False}


def test_what_was_edited_and_then_committed_is_not_gits(tmp_path: Path) -> None:
    """A commit only records an edit, also when a checkout follows; a conflict's result is nobody's blob."""
    root = make_repository(tmp_path / "w")
    write(root / "f", "1")
    write(root / "g", "1")
    commit_all(root)
    run_git(root, "checkout", "-q", "-b", "other")
    write(root / "g", "2")
    commit_all(root)
    run_git(root, "checkout", "-q", "main")
    tree, first = look_once(tmp_path, root)
    write(root / "f", "edited by the agent")
    commit_all(root)
    second = tree.capture(previous=first.commit)
    assert {c.path: c.by_git for c in second.delta} == {b"f": False}
    write(root / "f", "again")
    commit_all(root)
    run_git(root, "merge", "-q", "-m", "m", "other")
    third = tree.capture(previous=second.commit)
    assert {c.path: c.by_git for c in third.delta} == {b"f": False, b"g": True}


def test_a_broken_way_of_head_is_none() -> None:
    """Moves that do not join end to end prove nothing of what came between."""
    moves = [HeadMove("a", "b", "checkout"), HeadMove("x", "c", "reset"), HeadMove("c", "d", "merge m")]
    assert heads.way_to(moves, "x", "d") == moves[1:]
    assert heads.way_to(moves, "a", "d") == []
    assert heads.way_to(moves, "a", "b") == []


def test_without_a_reflog_nothing_is_gits(tmp_path: Path) -> None:
    """How HEAD moved must be known."""
    root = make_repository(tmp_path / "w")
    write(root / "f", "1")
    commit_all(root)
    write(root / "f", "2")
    later = commit_all(root)
    run_git(root, "checkout", "-q", "HEAD~")
    tree, first = look_once(tmp_path, root)
    (root / ".git/logs/HEAD").unlink()
    run_git(root, "-c", "core.logAllRefUpdates=false", "checkout", "-q", later)
    second = tree.capture(previous=first.commit)
    assert {c.path: c.by_git for c in second.delta} == {b"f": False}


def test_an_operation_in_progress_and_a_moved_head_alone(tmp_path: Path) -> None:
    """A rebase is told; an empty commit is another position and no change."""
    root = make_repository(tmp_path / "w")
    write(root / "f", "1\n")
    commit_all(root)
    tree, first = look_once(tmp_path, root)
    commit_all(root, "empty")
    second = tree.capture(previous=first.commit)
    assert second.delta == ()
    assert first.git is not None and second.git is not None and first.git.head != second.git.head
    assert second.written == 1
    run_git(root, "checkout", "-q", "-b", "topic", "HEAD~")
    write(root / "f", "topic\n")
    commit_all(root)
    run_git(root, "checkout", "-q", "main")
    write(root / "f", "main\n")
    commit_all(root)
    with pytest.raises(Exception, match="rebase"):
        run_git(root, "rebase", "topic")
    third = tree.capture(previous=second.commit)
    assert third.git is not None
    assert (third.git.operation, third.git.branch) == ("rebase", None)
