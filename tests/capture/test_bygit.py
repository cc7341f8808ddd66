"""What git brings and takes is git's, by whatever way: real repositories of both formats."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recorder.capture import Look, Tree
from tests.capture.helpers import commit_all, make_repository, open_tree, run_git, write

FORMATS = pytest.mark.parametrize("options", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"])


class Project:
    """A repository and its captures: `main` has `f` and `g`, `other` another `f` and a folder of its own."""

    def __init__(self, tmp_path: Path, *options: str) -> None:
        self.root = make_repository(tmp_path / "w", *options)
        self.write(f="1\n", g="1\n")
        self.base = commit_all(self.root)
        self.git("checkout", "-q", "-b", "other")
        self.write(f="other\n", **{"new/h": "h\n"})
        commit_all(self.root)
        self.git("checkout", "-q", "main")
        self.tree: Tree = open_tree(tmp_path, self.root)
        self.last: Look = self.tree.capture(previous=None)

    def git(self, *words: str, fails: bool = False) -> None:
        try:
            run_git(self.root, *words)
        except subprocess.CalledProcessError:
            assert fails, words

    def write(self, **contents: str) -> None:
        for name, content in contents.items():
            write(self.root / name, content)

    def gits(self) -> dict[str, bool]:
        """By path what changed since this was last asked, and whether git brought it."""
        self.last = self.tree.capture(previous=self.last.commit)
        return {one.path.decode(): one.by_git for one in self.last.delta}


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Project]:
    found = Project(tmp_path, *getattr(request, "param", ()))
    yield found
    found.tree.close()


BOTH = pytest.mark.parametrize(
    "project", [(), ("--object-format=sha256",)], ids=["sha1", "sha256"], indirect=True
)


@BOTH
@pytest.mark.parametrize("packed", [False, True])
def test_a_stash_and_its_return(project: Project, packed: bool) -> None:
    """Working edits that a stash takes away and a pop brings back are git's, staged and untracked ones too;
    what was edited meanwhile is not."""
    project.write(f="edited\n", g="staged\n", fresh="new\n")
    project.git("add", "g")
    assert project.gits() == {"f": False, "g": False, "fresh": False}
    project.git("stash", "push", "-q", "-u")
    project.write(mine="mine\n")
    if packed:
        project.git("pack-refs", "--all")
    assert project.gits() == {"f": True, "g": True, "fresh": True, "mine": False}
    project.git("stash", "pop", "-q")
    project.write(mine="again\n")
    assert project.gits() == {"f": True, "g": True, "fresh": True, "mine": False}
    project.git("add", "g")
    project.write(g="more than staged\n")
    assert project.gits() == {"g": False}
    project.git("stash", "push", "-q", "--keep-index")
    assert project.gits() == {"f": True, "g": True}
    assert (project.root / "g").read_text() == "staged\n"


@BOTH
def test_what_is_edited_after_a_stash_came_back_is_not_gits(project: Project) -> None:
    """One path of the stash was changed again, another came from HEAD of elsewhere: only contents count."""
    project.write(f="edited\n", g="edited\n")
    project.git("stash", "push", "-q")
    assert project.gits() == {}
    project.git("stash", "pop", "-q")
    project.write(f="edited again\n")
    assert project.gits() == {"f": False, "g": True}
    project.git("stash", "push", "-q")
    project.write(f="written by hand\n")
    assert project.gits() == {"f": False, "g": True}


@BOTH
def test_a_stash_that_is_applied_and_stays(project: Project) -> None:
    """Known by its whole work that comes at once; one file of it written by hand is not git's, and dropping
    a stash changes no file."""
    project.write(f="edited\n", g="edited\n")
    project.gits()
    project.git("stash", "push", "-q")
    assert project.gits() == {"f": True, "g": True}
    project.write(f="edited\n")
    assert project.gits() == {"f": False}
    project.git("checkout", "--", "f")
    assert project.gits() == {"f": False}
    project.git("stash", "apply", "-q")
    assert project.gits() == {"f": True, "g": True}
    project.git("stash", "drop", "-q")
    project.write(g="more\n")
    assert project.gits() == {"g": False}


def test_several_stashes_at_once(project: Project) -> None:
    """Each takes its own; the older one comes back after the newer one was dropped."""
    project.write(f="edited\n", g="edited\n")
    project.gits()
    project.git("stash", "push", "-q", "f")
    project.git("stash", "push", "-q", "g")
    assert project.gits() == {"f": True, "g": True}
    project.git("stash", "drop", "-q")
    assert project.gits() == {}
    project.git("stash", "pop", "-q")
    assert project.gits() == {"f": True}


@BOTH
def test_what_a_rebase_sets_aside_on_its_way(project: Project) -> None:
    """Autostash: the edit goes while the rebase waits at a conflict, and comes back at its end."""
    project.write(f="main\n")
    commit_all(project.root)
    project.gits()
    project.write(g="edited\n")
    assert project.gits() == {"g": False}
    project.git("rebase", "-q", "--autostash", "other", fails=True)
    assert project.gits() == {"f": False, "g": True, "new": True, "new/h": True}
    project.write(f="resolved\n")
    project.git("add", "f")
    project.git("-c", "core.editor=true", "rebase", "--continue")
    assert project.gits() == {"f": False, "g": True}


@BOTH
def test_a_branch_and_back_with_a_commit_on_the_way(project: Project) -> None:
    """HEAD is where it was; the edit lies in a commit and git put the old content back."""
    project.write(f="edited\n")
    assert project.gits() == {"f": False}
    project.git("checkout", "-q", "-b", "topic")
    commit_all(project.root)
    project.git("checkout", "-q", "main")
    project.write(g="edited\n")
    assert project.gits() == {"f": True, "g": False}
    project.git("checkout", "-q", "topic", fails=True)
    assert project.gits() == {"f": True}


def test_what_head_did_before_the_look_before_proves_nothing(project: Project) -> None:
    """The reflog tells of a way there and back; that was earlier, and now a person did the same by hand."""
    project.git("checkout", "-q", "other")
    project.git("checkout", "-q", "main")
    assert project.gits() == {}
    project.write(f="other\n")
    assert project.gits() == {"f": False}
    project.write(f="1\n")
    assert project.gits() == {"f": False}


@BOTH
def test_edited_committed_and_moved_on_in_one_interval(project: Project) -> None:
    """What stands there in the end is another branch's; what only a commit recorded is not."""
    project.write(f="edited\n", g="edited\n")
    commit_all(project.root)
    project.git("checkout", "-q", "other")
    assert project.gits() == {"f": True, "new": True, "new/h": True}
    project.git("checkout", "-q", "main")
    project.write(f="once more\n")
    commit_all(project.root)
    assert project.gits() == {"f": False, "g": True, "new": True, "new/h": True}


@BOTH
def test_reset_hard(project: Project) -> None:
    """Back to an earlier commit it is git's; edits that it throws away are lost work, and stay their
    maker's to bring back."""
    project.write(f="2\n")
    commit_all(project.root)
    project.gits()
    project.git("reset", "-q", "--hard", "HEAD~")
    assert project.gits() == {"f": True}
    project.write(f="edited\n")
    project.gits()
    project.git("reset", "-q", "--hard")
    assert project.gits() == {"f": False}


def rebase(project: Project) -> None:
    project.git("rebase", "-q", "other")


def pull_rebase(project: Project) -> None:
    project.git("pull", "-q", "--rebase", ".", "other")


def merge(project: Project) -> None:
    project.git("merge", "-q", "-m", "m", "other")


def pull(project: Project) -> None:
    project.git("pull", "-q", "--no-rebase", "--no-edit", ".", "other")


def cherry_pick(project: Project) -> None:
    project.git("cherry-pick", "other")


WAYS: tuple[Callable[[Project], None], ...] = (rebase, pull_rebase, merge, pull, cherry_pick)


@BOTH
@pytest.mark.parametrize("way", WAYS, ids=[way.__name__ for way in WAYS])
def test_ways_that_bring_commits_together(project: Project, way: Callable[[Project], None]) -> None:
    """Of several commits: what the other branch has comes by git, what was committed here stays whose it is,
    and an amended commit only records."""
    for name in ("one", "two", "three"):
        project.write(**{name: f"{name}\n"})
        commit_all(project.root, name)
    assert project.gits() == {"one": False, "two": False, "three": False}
    way(project)
    project.write(two="amended\n")
    project.git("add", "-A")
    project.git("commit", "-q", "--amend", "--no-edit")
    assert project.gits() == {"f": True, "new": True, "new/h": True, "two": False}


@BOTH
def test_a_merge_that_waits_for_somebody(project: Project) -> None:
    """What it brought in at once is git's, what stands in conflict nobody's; given up, git takes it out
    again; resolved and committed in one go, only the resolved path is somebody's."""
    project.write(f="main\n")
    commit_all(project.root)
    project.gits()
    project.git("merge", "-q", "other", fails=True)
    assert project.gits() == {"f": False, "new": True, "new/h": True}
    project.git("merge", "--abort")
    assert project.gits() == {"f": False, "new": True, "new/h": True}
    project.git("merge", "-q", "other", fails=True)
    project.write(f="resolved\n")
    commit_all(project.root)
    assert project.gits() == {"f": False, "new": True, "new/h": True}


@BOTH
def test_a_conflict_resolved_in_a_rebase(project: Project) -> None:
    """What was resolved by hand is not git's, though a rebase recorded it."""
    project.write(f="main\n", here="here\n")
    commit_all(project.root)
    project.gits()
    project.git("rebase", "-q", "other", fails=True)
    project.write(f="resolved\n")
    project.git("add", "f")
    project.git("-c", "core.editor=true", "rebase", "--continue")
    assert project.gits() == {"f": False, "new": True, "new/h": True}


@BOTH
def test_a_linked_work_tree(project: Project, tmp_path: Path) -> None:
    """Its HEAD and reflog are its own, the stash is all of theirs: what happens in the other tree marks
    nothing here."""
    linked = tmp_path / "linked"
    project.git("worktree", "add", "-q", "--detach", str(linked), "main")
    with open_tree(tmp_path, linked) as tree:
        first = tree.capture(previous=None)
        run_git(linked, "checkout", "-q", "--detach", "other")
        second = tree.capture(previous=first.commit)
        assert {one.path: one.by_git for one in second.delta} == {b"f": True, b"new": True, b"new/h": True}
        write(linked / "g", "edited\n")
        third = tree.capture(previous=second.commit)
        run_git(linked, "stash", "push", "-q")
        fourth = tree.capture(previous=third.commit)
        assert {one.path: one.by_git for one in fourth.delta} == {b"g": True}
    project.write(g="mine\n")
    assert project.gits() == {"g": False}


def test_permissions_and_folders(project: Project) -> None:
    """A program that git made one is git's, one that a person made is not, though its content came by git;
    a folder is git's only with all that is in it."""
    project.git("checkout", "-q", "other")
    project.git("update-index", "--chmod=+x", "g")
    project.git("commit", "-q", "-m", "x")
    project.git("reset", "-q", "--hard")
    project.git("checkout", "-q", "main")
    project.gits()
    project.git("checkout", "-q", "other")
    (project.root / "f").chmod(0o755)
    project.write(**{"new/mine": "mine\n"})
    assert project.gits() == {"f": False, "g": True, "new": False, "new/h": True, "new/mine": False}
    project.git("checkout", "-q", "-f", "main")
    assert project.gits() == {"f": False, "g": True, "new/h": True}


def test_an_old_capture_knows_no_stash(project: Project) -> None:
    """A position that an earlier version noted has no stash and no length of the reflog: contents decide."""
    from recorder.capturing import bygit, repository
    from recorder.states import GitPosition

    project.write(f="edited\n")
    project.gits()
    found = repository.at(str(project.root).encode())
    assert found is not None
    then = GitPosition(project.last.git.head, project.last.git.branch) if project.last.git else None
    project.git("stash", "push", "-q")
    look = project.tree.capture(previous=project.last.commit)
    bare = [change.__class__(change.path, change.before, change.after) for change in look.delta]
    assert [one.by_git for one in bygit.mark(bare, found, then, look.git, project.tree.blob)] == [True]
