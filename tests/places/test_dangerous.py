"""Places that are too big, too strange or not there to be captured whole: refused, or captured per file, with
the reason shown, and never a hang."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from recorder.home import open_home
from recorder.worktree import resolve
from tests.capture.helpers import commit_all, everything, look_once, make_repository, resolved, write
from tests.flow.within import Within
from tests.places.journey import Place, furnish, record, same, state, there_and_back


def per_file(within: Within, folder: Path, *, cwd: Path | None = None) -> str:
    """A session there: the file that it names goes there and back, the rest is not looked at. Returns why."""
    write(folder / "theirs.txt", "not the session's\n")
    agent = within.agent("pi", cwd or folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("named.txt", "first\n"))
        watcher.prompt(agent, "again", lambda one: one.write("named.txt", "second\n"))
    two, _ = within.json("checkpoints", agent.session, cwd=folder)
    assert two["state"] == "partial", two
    write(folder / "theirs.txt", "changed by them\n")
    done = within.json("rewind", "2", "--session", agent.session, cwd=folder)
    assert done["files"]["write"] == ["named.txt"], done
    assert (folder / "named.txt").read_text() == "first\n"
    assert (folder / "theirs.txt").read_text() == "changed by them\n"
    within.json("rewind", "--undo", cwd=folder)
    assert (folder / "named.txt").read_text() == "second\n"
    return str(two["why_not"])


@pytest.mark.parametrize("way", ["straight", "link", "repository", "below"])
def test_the_users_home(way: str, within: Within, clean_environment: Path, tmp_path: Path) -> None:
    """Per file, also as a repository and through a link; a folder in it is itself the tree, and whole."""
    folder = clean_environment
    if way == "repository":
        make_repository(folder)
    (tmp_path / "way").symlink_to(folder)
    cwd = tmp_path / "way" if way == "link" else folder
    if way == "below":
        make_repository(folder)
        folder = cwd = folder / "work"
        furnish(folder)
        there_and_back(within, Place(folder, folder))
        return
    assert "home folder" in per_file(within, folder, cwd=cwd)


def test_around_and_inside_the_recorders_home(within: Within) -> None:
    """A folder that contains the recorder's home is per file; what lies within it is never captured, which
    the rewind says."""
    assert "contains the recorder's own home" in per_file(within, within.base)
    inner = within.home / "strange"
    inner.mkdir()
    agent = within.agent("pi", inner)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("named.txt", "by name\n"))
    [one] = within.json("checkpoints", agent.session, cwd=inner)
    assert "in the recorder's own home" in one["why_not"]
    done = within.json("rewind", "1", "--session", agent.session, cwd=inner, check=6)
    assert done["files"]["unrecovered"] == [str(inner / "named.txt")]


def test_the_recorders_home_in_a_repository(
    within: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Below the top the home is left out of the tree; the session's folder, where it holds none, is whole."""
    root = make_repository(tmp_path / "place" / "w")
    within.home = root / "state" / "recorder"
    monkeypatch.setenv("RECORDER_HOME", str(within.home))
    (root / "src").mkdir()
    furnish(root / "src")
    commit_all(root)
    place = Place(root / "src", root / "src")
    found = resolve(str(root / "src"), open_home(within.home), tmp_path)
    assert (found.kind, found.path) == ("folder", os.fsencode(root / "src"))
    there_and_back(within, place)


def test_the_root_of_the_file_system(within: Within, tmp_path: Path) -> None:
    """Per file: nothing but what a tool names is looked at."""
    named = tmp_path / "named.txt"
    agent = within.agent("pi", Path("/"))
    with within.watching() as watcher:
        for content in ("first\n", "second\n"):
            watcher.prompt(agent, "write", lambda one, content=content: one.write(str(named)[1:], content))
    two, _ = within.json("checkpoints", agent.session, cwd=Path("/"))
    assert "the root of the file system" in two["why_not"]
    within.json("rewind", "2", "--session", agent.session, cwd=Path("/"))
    assert named.read_text() == "first\n"


@pytest.mark.parametrize(
    "folder", ["/proc", "/proc/self", "/proc/self/task", "/sys", "/sys/kernel", "/dev/pts"]
)
def test_what_the_system_makes_up(folder: str, tmp_path: Path) -> None:
    """Its file systems are captured per file, with their type as the reason, in no time."""
    if not os.path.ismount(folder) and not folder.startswith(("/proc/", "/sys/")):
        pytest.skip(f"no {folder} here")
    found = resolved(tmp_path, Path(folder))
    assert found.kind == "per-file" and "the system itself makes up" in (found.why or "")
    _, look = look_once(tmp_path, Path(folder))
    assert look.files == 0


def test_a_system_inside(tmp_path: Path, mounted: Callable[..., Path]) -> None:
    """Such a mount in a tree is left out with the reason, and the rest is whole."""
    root = make_repository(tmp_path / "w")
    write(root / "etc" / "conf", "c")
    mounted("-t", "proc", "proc", at=root / "proc")
    tree, look = look_once(tmp_path, root)
    assert {note.path: note.why for note in tree.notes(look.commit)[0]} == {
        b"proc": "it lies in a file system that the system itself makes up (proc)"
    }
    assert look.unknown == () and look.files == 1


def test_other_file_systems_inside(within: Within, tmp_path: Path, mounted: Callable[..., Path]) -> None:
    """A mount and a folder that is bound in are files like all others; the tree bound into itself is not."""
    root = make_repository(tmp_path / "place" / "w")
    furnish(root)
    commit_all(root)
    write(mounted("-t", "tmpfs", "tmpfs", at=root / "mounted") / "file", "m")
    write(tmp_path / "elsewhere" / "file", "e")
    mounted("--bind", str(tmp_path / "elsewhere"), at=root / "bound")
    mounted("--bind", str(root), at=root / "kept" / "loop")
    place = Place(root, root)

    def act(where: Path) -> None:
        for name in ("mounted/file", "bound/file"):
            (where / name).write_text("changed\n")
            (where / name).with_name("made").write_text("made\n")

    there_and_back(within, place, act)
    tree, look = look_once(tmp_path, root)
    assert {note.path for note in tree.notes(look.commit)[0]} == {b"kept/loop"}


def test_a_tree_that_cannot_be_written(within: Within, tmp_path: Path, mounted: Callable[..., Path]) -> None:
    """On a read-only mount all is captured; a rewind of it fails with the reason and leaves all as it was."""
    root = make_repository(tmp_path / "place" / "w")
    furnish(root)
    commit_all(root)
    place = Place(root, root)
    agent = within.agent("pi", root)
    record(within, place, agent)
    mounted("--bind", str(root), at=root)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(root)], check=True)
    end = state(place)
    answer = within.run("rewind", "1", "--session", agent.session, "--files", "--json", cwd=root, check=None)
    assert answer.code in (1, 4) and "ead-only" in answer.out.decode() + answer.err, answer
    same(end, state(place))


def test_a_folder_full_of_what_is_no_file(within: Within, tmp_path: Path) -> None:
    """Pipes and sockets by the hundred: named as left out, never waited for, never touched."""
    root = tmp_path / "place" / "w"
    furnish(root)
    for number in range(300):
        os.mkfifo(root / f"pipe{number}")
        (root / f"circle{number}").symlink_to(f"circle{number}")
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(root)
        try:
            listening.bind("socket")
        finally:
            os.chdir("/")
    place = Place(root, root)
    agent = within.agent("pi", root)
    before = everything(root)
    record(within, place, agent)
    shown = within.json("show", "1", "--session", agent.session, cwd=root)
    assert {one["why"] for one in shown["skipped"]} == {"a named pipe", "a socket"}
    assert len(shown["skipped"]) == 301
    within.json("rewind", "1", "--session", agent.session, cwd=root)
    after = everything(root)
    assert after.keys() == before.keys()
    same(
        {path: seen for path, seen in before.items() if b"pipe" in path},
        {p: s for p, s in after.items() if b"pipe" in p},
    )


# ---- how many there are


def test_a_plain_folder_with_very_many_files(tmp_path: Path) -> None:
    """It is per file, and says why; the same many in ignored folders do not count."""
    many = tmp_path / "many"
    fill(many / "files", 60_000)
    found = resolve(str(many), open_home(tmp_path / "home"), tmp_path / "nobody")
    assert found.kind == "per-file" and "holds more than 50,000 files" in (found.why or "")
    write(many / ".gitignore", "files/\n")
    assert resolve(str(many), open_home(tmp_path / "other"), tmp_path / "nobody").kind == "folder"


def test_a_repository_with_very_many_files(
    within: Within, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Per file and says why; ignored files do not count, and what was captured whole once stays so."""
    monkeypatch.setattr("recorder.worktree.MAX_REPOSITORY_FILES", 20)
    small, large = make_repository(tmp_path / "small"), make_repository(tmp_path / "large")
    write(small / ".gitignore", "out/\n")
    for number in range(30):
        write(small / "out" / str(number))
        write(large / str(number))
    assert "holds more than 20 files" in per_file(within, large)
    place = Place(small, small)
    furnish(small)
    there_and_back(within, place)
    for number in range(30):
        write(small / str(number))
    found = resolve(str(small), open_home(within.home), tmp_path)
    assert (found.kind, found.why) == ("repository", None)


def test_a_plain_folder_with_very_many_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders without an end and without a file in them are counted too."""
    monkeypatch.setattr("recorder.worktree.MAX_FOLDER_FILES", 100)
    for number in range(120):
        (tmp_path / "w" / f"{number}" / "x").mkdir(parents=True)
    assert resolved(tmp_path, tmp_path / "w").kind == "per-file"


def fill(folder: Path, count: int) -> None:
    """Many names quickly: hard links of one file."""
    folder.mkdir(parents=True)
    (folder / "0").write_text("x\n")
    descriptor = os.open(folder, os.O_RDONLY)
    for number in range(1, count):
        os.link("0", str(number), src_dir_fd=descriptor, dst_dir_fd=descriptor)
    os.close(descriptor)


# ---- roots that are replaced


def replace_by_file(root: Path) -> None:
    root.write_text("a file\n")


def replace_by_link(root: Path) -> None:
    root.symlink_to(root.with_name("away"))


def replace_by_folder(root: Path) -> None:
    root.mkdir()
    furnish(root)


def leave(root: Path) -> None:
    """Moved away, and nothing in its place."""


@pytest.mark.parametrize("replace", [replace_by_file, replace_by_link, replace_by_folder, leave])
def test_a_root_that_is_replaced(replace: Callable[[Path], None], within: Within, tmp_path: Path) -> None:
    """Neither what stands in its place nor what was moved away is written; captures are lost, and say why."""
    root = make_repository(tmp_path / "place" / "w")
    furnish(root)
    commit_all(root)
    place = Place(tmp_path / "place", root)
    agent = within.agent("pi", root)
    record(within, place, agent)
    root.rename(root.with_name("away"))
    replace(root)
    before = everything(tmp_path / "place")
    with within.watching() as watcher:
        watcher.prompt(agent, "again")
    states = {one["number"]: one for one in within.json("checkpoints", agent.session, cwd=tmp_path)}
    assert states[2]["state"] == "lost" and states[2]["why_not"], states
    refused = within.run("rewind", "1", "--session", agent.session, "--files", cwd=tmp_path, check=4)
    assert len(refused.err.splitlines()) == 1
    same(before, everything(tmp_path / "place"))
