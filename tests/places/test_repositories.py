"""Every state and layout that git gives a repository: taken there and back, with not a byte of it changed."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capture.helpers import commit_all, make_repository, run_git
from tests.flow.within import Within
from tests.places.journey import Place, furnish, there_and_back

Builder = Callable[[Path], Place]


def furnished(root: Path, *options: str) -> Path:
    make_repository(root, *options)
    furnish(root)
    return root


def committed(root: Path, *options: str) -> Path:
    furnished(root, *options)
    commit_all(root, "base")
    return root


def stopping(root: Path, *words: str) -> None:
    """A git command that stops half-way, as it is meant to here."""
    with contextlib.suppress(subprocess.CalledProcessError):
        run_git(root, *words)


def forked(root: Path) -> Path:
    """Two branches, `main` checked out, whose last commits clash in `clash.txt`."""
    committed(root)
    (root / "clash.txt").write_text("base\n")
    commit_all(root)
    run_git(root, "checkout", "-q", "-b", "other")
    for number in range(2):
        (root / "clash.txt").write_text(f"theirs {number}\n")
        commit_all(root, f"theirs {number}")
    run_git(root, "checkout", "-q", "main")
    (root / "clash.txt").write_text("ours\n")
    commit_all(root, "ours")
    return root


def plain(base: Path) -> Place:
    (base / "w").mkdir()
    furnish(base / "w")
    return Place(base, base / "w")


def unborn(base: Path) -> Place:
    return Place(base, furnished(base / "w"))


def dirty(base: Path) -> Place:
    root = committed(base / "w")
    (root / "changed.txt").write_text("staged\n")
    run_git(root, "add", "changed.txt")
    (root / "changed.txt").write_text("and not staged\n")
    run_git(root, "rm", "-q", "--cached", "gone.txt")
    (root / "untracked").write_text("u\n")
    run_git(root, "stash", "push", "-q", "run.sh", "changed.txt")
    (root / "intended").write_text("i\n")
    run_git(root, "add", "-N", "intended")
    run_git(root, "update-index", "--assume-unchanged", "moved.txt")
    run_git(root, "update-index", "--skip-worktree", "swap")
    return Place(base, root)


def merging(base: Path) -> Place:
    root = forked(base / "w")
    stopping(root, "merge", "other")
    assert (root / ".git/MERGE_HEAD").exists()
    return Place(base, root)


def rebasing(backend: str, base: Path) -> Place:
    root = forked(base / "w")
    stopping(root, "rebase", f"--{backend}", "other")
    assert (root / f".git/rebase-{backend}").exists()
    return Place(base, root)


def rebasing_merge(base: Path) -> Place:
    return rebasing("merge", base)


def rebasing_apply(base: Path) -> Place:
    return rebasing("apply", base)


def picking(base: Path) -> Place:
    root = forked(base / "w")
    stopping(root, "cherry-pick", "other~1", "other")
    assert (root / ".git/CHERRY_PICK_HEAD").exists()
    return Place(base, root)


def reverting(base: Path) -> Place:
    root = forked(base / "w")
    run_git(root, "checkout", "-q", "other")
    stopping(root, "revert", "--no-edit", "HEAD~1")
    assert (root / ".git/REVERT_HEAD").exists()
    return Place(base, root)


def bisecting(base: Path) -> Place:
    root = forked(base / "w")
    run_git(root, "checkout", "-q", "other")
    run_git(root, "bisect", "start", "HEAD", "HEAD~2")
    return Place(base, root)


def applying_mail(base: Path) -> Place:
    root = forked(base / "w")
    (base / "patch").write_bytes(run_git(root, "format-patch", "--stdout", "-1", "other"))
    stopping(root, "am", str(base / "patch"))
    assert (root / ".git/rebase-apply/applying").exists()
    return Place(base, root)


def sha256(base: Path) -> Place:
    return Place(base, committed(base / "w", "--object-format=sha256"))


def reftable(base: Path) -> Place:
    try:
        return Place(base, committed(base / "w", "--ref-format=reftable"))
    except subprocess.CalledProcessError:
        pytest.skip("this git knows no reftable")


def configured(base: Path, *settings: str) -> Place:
    root = committed(base / "w")
    for setting in settings:
        run_git(root, "config", *setting.split("="))
    (root / "changed.txt").write_text("dirty\n")
    run_git(root, "status")
    return Place(base, root)


def split_index(base: Path) -> Place:
    place = configured(base, "core.splitIndex=true")
    run_git(place.root, "update-index", "--split-index")
    return place


def index_4(base: Path) -> Place:
    place = configured(base)
    run_git(place.root, "update-index", "--index-version", "4")
    return place


def untracked_cache(base: Path) -> Place:
    place = configured(base, "core.untrackedCache=true")
    run_git(place.root, "update-index", "--force-untracked-cache")
    return place


def monitored(base: Path) -> Place:
    monitor = base / "monitor"
    monitor.write_text(f"#!/bin/sh\necho called >> {base}/marked\n")
    monitor.chmod(0o755)
    place = configured(base, f"core.fsmonitor={monitor}")
    (base / "marked").unlink(missing_ok=True)
    return place


def sparse(base: Path, *options: str) -> Place:
    root = committed(base / "w")
    for name in ("in/x", "out/y"):
        (root / name).parent.mkdir()
        (root / name).write_text(name)
    commit_all(root)
    run_git(
        root, "sparse-checkout", "set", *options, *(("in", "kept") if "--cone" in options else ("/*", "!out"))
    )
    assert not (root / "out").exists()
    return Place(base, root)


def sparse_cone(base: Path) -> Place:
    return sparse(base, "--cone")


def sparse_patterns(base: Path) -> Place:
    return sparse(base, "--no-cone")


def sparse_index(base: Path) -> Place:
    return sparse(base, "--cone", "--sparse-index")


def cloned(base: Path, *options: str) -> Place:
    origin = forked(base / "origin")
    run_git(origin, "config", "uploadpack.allowFilter", "true")
    run_git(base, "clone", "-q", *options, f"file://{origin}", str(base / "w"))
    shutil.rmtree(origin)
    return Place(base, base / "w")


def shallow(base: Path) -> Place:
    return cloned(base, "--depth=1")


def partial(base: Path) -> Place:
    """Its missing contents cannot be fetched: the origin is gone."""
    return cloned(base, "--filter=blob:none", "--no-local")


def bare_with_a_work_tree(base: Path) -> Place:
    """Git finds it from the git folder alone: what lies in the work tree is a plain folder."""
    furnish(base / "w")
    run_git(base, "init", "-q", "--bare", str(base / "store"))
    run_git(base / "store", "config", "core.bare", "false")
    run_git(base / "store", "config", "core.worktree", str(base / "w"))
    run_git(base / "store", "add", "-A")
    run_git(base / "store", "commit", "-q", "-m", "x")
    return Place(base, base / "w", guarded=(base / "store",))


def git_dir_elsewhere(base: Path) -> Place:
    root = committed(base / "w")
    run_git(root, "init", "-q", "--separate-git-dir", str(base / "store"))
    assert (root / ".git").is_file()
    return Place(base, root, guarded=(base / "store",))


def git_dir_linked(base: Path) -> Place:
    root = committed(base / "w")
    (root / ".git").rename(base / "store")
    (root / ".git").symlink_to(base / "store")
    return Place(base, root, guarded=(base / "store",))


def linked_beside(base: Path) -> Place:
    root = committed(base / "w")
    run_git(root, "worktree", "add", "-q", str(base / "side"))
    return Place(base, base / "side")


def linked_inside(base: Path) -> Place:
    root = committed(base / "w")
    run_git(root, "worktree", "add", "-q", str(root / "trees" / "side"))
    (root / "trees/side/dirty").write_text("d\n")
    return Place(base, root)


def the_inner_one(base: Path) -> Place:
    place = linked_inside(base)
    return place._replace(root=place.root / "trees" / "side")


def submodules(base: Path) -> Place:
    library = committed(base / "library")
    root = committed(base / "w")
    run_git(root, "submodule", "--quiet", "add", str(library), "new")
    run_git(base, "clone", "-q", str(library), str(root / "old"))
    run_git(root, "submodule", "--quiet", "add", str(library), "old")
    commit_all(root)
    assert (root / "new/.git").is_file() and (root / "old/.git").is_dir()
    return Place(base, root)


def in_a_submodule(base: Path) -> Place:
    place = submodules(base)
    return place._replace(root=place.root / "new")


def nested(base: Path) -> Place:
    root = committed(base / "w")
    furnished(root / "unborn")
    committed(root / "deep" / "nested")
    return Place(base, root)


def subfolder(base: Path) -> Place:
    root = committed(base / "w")
    (root / "sub" / "folder").mkdir(parents=True)
    return Place(base, root, root / "sub" / "folder")


def through_a_link(base: Path) -> Place:
    root = committed(base / "w")
    (base / "way").symlink_to(root / "kept")
    return Place(base, root, base / "way")


PLACES: tuple[Builder, ...] = (
    plain, unborn, dirty, merging, rebasing_merge, rebasing_apply, picking, reverting, bisecting,
    applying_mail, sha256, reftable, split_index, index_4, untracked_cache, monitored, sparse_cone,
    sparse_patterns, sparse_index, shallow, partial, bare_with_a_work_tree, git_dir_elsewhere,
    git_dir_linked, linked_beside, linked_inside, the_inner_one, submodules, in_a_submodule, nested,
    subfolder, through_a_link,
)  # fmt: skip


@pytest.mark.parametrize("build", PLACES, ids=lambda build: build.__name__)
def test_there_and_back(build: Builder, within: Within, tmp_path: Path) -> None:
    """Rewind and undo give both states back; the repository and all linked ones stay byte for byte."""
    base = tmp_path / "place"
    base.mkdir()
    place = build(base)
    there_and_back(within, place)
    assert not (base / "marked").exists()
