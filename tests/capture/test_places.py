import os
import time
from pathlib import Path

import pytest

from recorder.capturing.scan import Scan
from recorder.errors import NotFound, Refused
from recorder.home import open_home
from recorder.states import ABSENT, SKIPPED
from recorder.worktree import resolve, still_there
from tests.capture.helpers import (
    blob_id,
    commit_all,
    everything,
    look_once,
    make_repository,
    on_disk,
    open_tree,
    resolved,
    run_git,
    write,
)


def test_nested_repositories_and_submodules_are_plain_files(tmp_path: Path) -> None:
    """Their files are captured by their own rules, their `.git` is left alone, none becomes a link."""
    library = make_repository(tmp_path / "library")
    write(library / "lib", "l")
    commit_all(library)
    root = make_repository(tmp_path / "w")
    write(root / ".gitignore", "*.o\n")
    run_git(root, "submodule", "add", "-q", str(library), "module")
    nested = make_repository(root / "nested")
    write(nested / ".gitignore", "build\n!*.o\n")
    for name in ["f", "x.o", "build/y", "inner/z"]:
        write(nested / name, name)
    make_repository(root / "unborn")
    write(root / "unborn/u", "u")
    before = everything(root)
    tree, look = look_once(tmp_path, root)

    paths = {path for path, state in tree.walk(look.commit) if state.kind == "file"}
    assert {b"module/lib", b"nested/f", b"nested/x.o", b"nested/inner/z", b"unborn/u"} <= paths
    assert tree.state(look.commit, b"nested/build/y") == SKIPPED
    assert tree.state(look.commit, b"nested/.git/HEAD") == SKIPPED
    notes = {note.path for note in tree.notes(look.commit)[0]}
    assert {b"module/.git", b"nested/.git", b"unborn/.git"} <= notes and b".git" not in notes
    assert everything(root) == before
    write(nested / "f", "changed")
    commit_all(nested)
    second = tree.capture(previous=look.commit)
    assert [change.path for change in second.delta] == [b"nested/f"]
    tree.fsck()


def test_a_nested_repository_with_too_many_files_is_per_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is skipped with the reason; one that was captured while it was small keeps what was captured."""
    monkeypatch.setattr("recorder.capturing.scan.MAX_NESTED_FILES", 5)
    root = make_repository(tmp_path / "w")
    for folder, count in [("large", 8), ("grows", 4)]:
        make_repository(root / folder)
        for index in range(count):
            write(root / folder / f"s{index}" / "f", folder)
    tree, first = look_once(tmp_path, root)
    assert sorted((n.path, n.why) for n in tree.notes(first.commit)[0]) == [
        (b"grows/.git", "a repository's own, never captured and never touched"),
        (b"large", "a nested repository with more than 5 files: per file"),
    ]
    assert (tree.state(first.commit, b"large/s1/f"), first.files) == (SKIPPED, 4)
    with pytest.raises(NotFound):
        tree.blob(blob_id(b"large"))
    for index in range(4, 12):
        write(root / "grows" / f"s{index}" / "f", "y")
    write(root / "grows/s0/f", "changed")
    second = tree.capture(previous=first.commit)
    assert tree.state(second.commit, b"grows/s3/f").kind == "file"
    assert 4 <= second.files < 12
    changed = [change for change in second.delta if change.before.present]
    assert [change.path for change in changed] == [b"grows/s0/f"]
    assert all(change.after.kind != "absent" for change in second.delta)


def test_linked_work_trees_have_a_store_of_their_own(tmp_path: Path) -> None:
    """A linked work tree inside is left out, is a tree of its own, and knows its own branch."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    commit_all(root)
    run_git(root, "worktree", "add", "-q", "-b", "side", str(root / "inside"))
    run_git(root, "worktree", "add", "-q", "-b", "far", str(tmp_path / "beside"))
    tree, look = look_once(tmp_path, root)
    assert tree.state(look.commit, b"inside/a") == SKIPPED
    assert "linked work tree" in tree.notes(look.commit)[0][0].why
    for folder, branch in [(root / "inside", "side"), (tmp_path / "beside", "far")]:
        found = resolved(tmp_path, folder)
        assert (found.path, found.kind) == (os.fsencode(folder), "repository")
        other, its = look_once(tmp_path, folder)
        assert its.git is not None and its.git.branch == f"refs/heads/{branch}"
        assert its.git.head is not None and len(its.git.head) == 40
        assert dict(other.walk(its.commit)) == on_disk(folder)


def test_a_nested_folder_with_a_store_of_its_own_is_left_to_it(tmp_path: Path) -> None:
    """Once a folder inside is recorded by itself, the outer tree skips it, and says so."""
    outer = tmp_path / "w"
    write(outer / "a", "1")
    write(outer / "inner/b", "2")
    tree, first = look_once(tmp_path, outer)
    look_once(tmp_path, outer / "inner")
    second = tree.capture(previous=first.commit)
    assert [(c.path, c.after) for c in second.delta] == [(b"inner", SKIPPED), (b"inner/b", SKIPPED)]
    assert tree.notes(second.commit)[0][0].why == "a work tree that is recorded by itself"


@pytest.mark.parametrize("options", [("--object-format=sha256",), ()])
def test_repositories_of_every_state(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Without a commit, with a dirty index, in a conflicted merge, detached, in SHA-256: the files are
    captured and the position is told."""
    root = make_repository(tmp_path / "w", *options)
    tree, look = look_once(tmp_path, root)
    assert look.git is not None and (look.git.head, look.git.branch) == (None, "refs/heads/main")
    write(root / "f", "base\n")
    commit_all(root)
    run_git(root, "checkout", "-q", "-b", "other")
    write(root / "f", "theirs\n")
    theirs = commit_all(root)
    run_git(root, "checkout", "-q", "main")
    write(root / "f", "ours\n")
    commit_all(root)
    with pytest.raises(Exception, match="merge"):
        run_git(root, "merge", "other")
    write(root / "staged", "x")
    run_git(root, "add", "staged")
    look = tree.capture(previous=look.commit)
    assert look.git is not None and look.git.operation == "merge"
    assert b"<<<<<<<" in tree.blob(tree.state(look.commit, b"f").oid)
    assert tree.state(look.commit, b"staged").kind == "file"
    run_git(root, "merge", "--abort")
    run_git(root, "checkout", "-q", "--detach", "other")
    run_git(root, "pack-refs", "--all")
    look = tree.capture(previous=look.commit)
    assert look.git is not None and (look.git.head, look.git.branch) == (theirs, None)
    run_git(root, "checkout", "-q", "other")
    look = tree.capture(previous=look.commit)
    assert look.git is not None and (look.git.head, look.git.branch) == (theirs, "refs/heads/other")
    tree.fsck()


def test_sparse_checkouts_capture_what_is_there(tmp_path: Path) -> None:
    """What a sparse checkout left out is absent, what is there is captured."""
    root = make_repository(tmp_path / "w")
    write(root / "a/x", "1")
    write(root / "b/y", "2")
    commit_all(root)
    run_git(root, "sparse-checkout", "set", "--sparse-index", "a")
    tree, look = look_once(tmp_path, root)
    assert dict(tree.walk(look.commit)) == on_disk(root)
    assert tree.state(look.commit, b"b/y") == ABSENT
    assert look.unknown == ()


def test_files_that_tools_named_are_kept_at_their_real_place(tmp_path: Path) -> None:
    """Ignored files and files outside are kept once named, through links at their real place, and followed
    from then on; too large ones are skipped."""
    root = make_repository(tmp_path / "w")
    write(root / ".gitignore", "cache/\n")
    write(root / "cache/state", "1")
    write(tmp_path / "elsewhere/conf", "2")
    write(tmp_path / "elsewhere/huge", b"h" * (8 * 1024 * 1024 + 1))
    os.symlink(tmp_path / "elsewhere", root / "link")
    outside = os.fsencode(tmp_path / "elsewhere/conf")
    names = [
        root / "cache/state",
        root / "link/conf",
        root / "link/huge",
        root / "cache/new",
        root / "tracked",
    ]
    tree = open_tree(tmp_path, root)
    first = tree.capture(previous=None, named=[os.fsencode(name) for name in names])

    assert tree.key(os.fsencode(root / "link/conf")) == outside
    assert tree.blob(tree.state(first.commit, b"cache/state").oid) == b"1"
    assert tree.blob(tree.state(first.commit, outside).oid) == b"2"
    assert tree.state(first.commit, b"cache/new") == ABSENT
    assert tree.state(first.commit, os.fsencode(tmp_path / "elsewhere/huge")) == SKIPPED
    assert tree.state(first.commit, b"/never/named") == SKIPPED
    assert tree.state(first.commit, os.fsencode(root / "cache/state")).kind == "file"
    write(root / "cache/new", "made")
    (tmp_path / "elsewhere/conf").unlink()
    second = tree.capture(previous=first.commit)
    assert [(c.path, c.before.kind, c.after.kind) for c in second.delta] == [
        (outside, "file", "absent"),
        (b"cache/new", "absent", "file"),
    ]
    assert all(change.changed_at for change in second.delta)
    assert tree.capture(previous=second.commit).written == 0
    tree.fsck()


def test_dangerous_folders_are_captured_per_file(tmp_path: Path) -> None:
    """The home folder, the root, and what holds the recorder's home take in only what tools name."""
    home = open_home(tmp_path / "u/.local/recorder")
    user = tmp_path / "u"
    write(user / "notes", "n")
    write(user / "private", "p")
    for folder, why in [
        (user, "home folder"),
        (Path("/"), "root"),
        (user / ".local", "contains the recorder"),
        (home.folder / "trees", "in the recorder's own home"),
    ]:
        found = resolve(str(folder), home, user)
        assert found.kind == "per-file"
        assert found.why is not None and why in found.why
    from recorder.capture import Policy, Tree

    with Tree(home, resolve(str(user), home, user), Policy()) as tree:
        look = tree.capture(previous=None, named=[os.fsencode(user / "notes"), os.fsencode(home.log)])
        assert dict(tree.walk(look.commit)).keys() == {b"notes"}
        assert tree.state(look.commit, b"private") == SKIPPED
        write(user / "notes", "changed")
        assert [c.path for c in tree.capture(previous=look.commit).delta] == [b"notes"]


def test_a_stray_repository_in_the_home_folder_is_not_the_work_tree(tmp_path: Path) -> None:
    """With `.git` in the home folder, a folder below is itself the tree, and plain."""
    user = make_repository(tmp_path / "u")
    (user / "project/sub").mkdir(parents=True)
    home = open_home(tmp_path / "home")
    assert resolve(str(user / "project"), home, user).kind == "folder"
    make_repository(user / "project")
    found = resolve(str(user / "project/sub"), home, user)
    assert (found.path, found.kind) == (os.fsencode(user / "project"), "repository")
    inside = resolve(str(user / "project/.git/hooks"), home, user)
    assert (inside.path, inside.kind) == (os.fsencode(user / "project/.git/hooks"), "folder")


def test_a_plain_folder_that_is_too_big_is_per_file_and_stays_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted without what is ignored; the answer of the first capture holds."""
    monkeypatch.setattr("recorder.worktree.MAX_FOLDER_FILES", 10)
    root = tmp_path / "w"
    for index in range(20):
        write(root / "node_modules" / f"m{index}", "x")
        write(tmp_path / "big" / f"f{index}", "x")
    write(root / ".gitignore", "node_modules/\n")
    assert resolved(tmp_path, tmp_path / "big").kind == "per-file"
    assert resolved(tmp_path, root).kind == "folder"
    look_once(tmp_path, root)
    for index in range(20):
        write(root / f"f{index}", "x")
    assert resolved(tmp_path, root).kind == "folder"


@pytest.mark.parametrize(
    ("cwd", "code"),
    [
        ("/no/such/folder", "gone"),
        ("relative", "not_absolute"),
        ("", "not_absolute"),
        ("C:\\Users\\x", "foreign"),
        ("vscode-remote://ssh/x", "foreign"),
        ("\\\\wsl$\\x", "foreign"),
        ("/etc/passwd", "gone"),
        ("/tmp/\0x", "gone"),
        ("/" + "n" * 300, "gone"),
    ],
)
def test_folders_that_cannot_be_captured_are_refused(tmp_path: Path, cwd: str, code: str) -> None:
    """Each with its code and one sentence."""
    with pytest.raises(Refused) as refused:
        resolve(cwd, open_home(tmp_path / "home"), tmp_path)
    assert refused.value.code == code
    assert "\n" not in refused.value.message


def test_a_replaced_root_is_refused(tmp_path: Path) -> None:
    """Another folder at the same path, or none, is not the tree that was captured."""
    root = tmp_path / "w"
    write(root / "a", "1")
    tree, first = look_once(tmp_path, root)
    found = resolved(tmp_path, root)
    root.rename(tmp_path / "old")
    with pytest.raises(Refused) as gone:
        still_there(found)
    assert gone.value.code == "gone"
    root.mkdir()
    with pytest.raises(Refused) as replaced:
        tree.capture(previous=first.commit)
    assert replaced.value.code == "replaced"
    root.rmdir()
    os.symlink(tmp_path / "old", root)
    with pytest.raises(Refused):
        tree.capture(previous=first.commit)


def test_a_root_replaced_under_the_scan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read of the one folder is not given out as the other's."""
    root = tmp_path / "w"
    write(root / "a", "1")
    tree = open_tree(tmp_path, root)
    real = Scan.run

    def replacing(self: Scan, *arguments: object) -> object:
        found = real(self, *arguments)  # type: ignore[arg-type]
        root.rename(tmp_path / "old")
        root.mkdir()
        return found

    monkeypatch.setattr(Scan, "run", replacing)
    with pytest.raises(Refused) as replaced:
        tree.capture(previous=None)
    assert replaced.value.code == "replaced"


def test_a_session_reached_through_a_link_is_the_real_tree(tmp_path: Path) -> None:
    """Two ways to one folder are one work tree, with one stream."""
    root = make_repository(tmp_path / "w")
    (root / "sub").mkdir()
    os.symlink(root / "sub", tmp_path / "way")
    assert resolved(tmp_path, tmp_path / "way") == resolved(tmp_path, root)
    assert resolved(tmp_path, root).stream == resolved(tmp_path, root / "sub").stream


def test_what_changed_after_the_prompt_is_unknown(tmp_path: Path) -> None:
    """Only paths that differ and changed later are unknown; what the log knows of them stands in."""
    root = make_repository(tmp_path / "w")
    for name in ["a", "b", "c", "same", "gone"]:
        write(root / name, "1")
    (root / "dir").mkdir()
    tree, first = look_once(tmp_path, root)
    write(root / "a", "before")
    time.sleep(0.02)
    prompt = time.time_ns()
    time.sleep(0.02)
    write(root / "b", "late")
    write(root / "c", "late too")
    write(root / "same", "1")
    (root / "gone").unlink()
    write(root / "dir/new", "n")
    os.chmod(root / "dir", 0o700)
    write(root / "made/x", "m")
    contents = {os.fsencode(root / "c"): b"what stood there"}
    second = tree.capture(previous=first.commit, reference_at=prompt, contents=contents)

    assert {note.path for note in second.unknown} == {b"b", b"gone", b"dir/new", b"made"}
    assert {note.why for note in second.unknown} == {
        "changed after the prompt was given and before it could be captured"
    }
    assert tree.blob(tree.state(second.commit, b"c").oid) == b"what stood there"
    assert tree.blob(tree.state(second.commit, b"a").oid) == b"before"
    assert tree.state(second.commit, b"same") == tree.state(first.commit, b"same")
    assert tree.state(second.commit, b"dir") == tree.state(first.commit, b"dir")
    assert tree.state(second.commit, b"made/x").kind == "unknown"
    third = tree.capture(previous=second.commit)
    assert {c.path: (c.before.kind, c.after.kind) for c in third.delta} == {
        b"b": ("unknown", "file"),
        b"c": ("file", "file"),
        b"gone": ("unknown", "absent"),
        b"dir": ("dir", "dir"),
        b"dir/new": ("unknown", "file"),
        b"made": ("unknown", "dir"),
        b"made/x": ("unknown", "file"),
    }
    assert third.unknown == ()
    tree.fsck()


def test_a_late_first_capture_knows_only_what_is_older(tmp_path: Path) -> None:
    """With nothing to compare, every file that changed later is unknown."""
    root = make_repository(tmp_path / "w")
    write(root / "old", "1")
    time.sleep(0.02)
    prompt = time.time_ns()
    time.sleep(0.02)
    write(root / "new", "2")
    tree = open_tree(tmp_path, root)
    named = [os.fsencode(tmp_path / "out"), os.fsencode(root / "new")]
    look = tree.capture(previous=None, reference_at=prompt, named=named)
    assert {note.path for note in look.unknown} == {b"new", os.fsencode(tmp_path / "out")}
    assert tree.state(look.commit, b"old").kind == "file"
    assert look.delta == ()
