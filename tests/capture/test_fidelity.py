import os
import socket
import subprocess
import time
import unicodedata
from pathlib import Path

import pytest

from recorder.states import ABSENT, SKIPPED, UNKNOWN, PathState
from tests.capture.helpers import (
    blob_id,
    commit_all,
    everything,
    look_once,
    make_repository,
    on_disk,
    open_tree,
    run_git,
    write,
)

ODD_NAMES = [
    b"new\nline",
    b"tab\t",
    b"'quotes\"",
    b"-leading",
    b"--force",
    b":(glob)**",
    b":x",
    b"!bang",
    b"#hash",
    b"a*b?[c]",
    b"trailing ",
    b" leading",
    b"back\\slash",
    b"\xff\xfe not utf-8",
    unicodedata.normalize("NFC", "é").encode(),
    unicodedata.normalize("NFD", "é").encode(),
    b"x" * 255,
    b"con.",
    b"...",
    b"\x01\x7f",
]


@pytest.mark.parametrize("kind", ["repository", "folder"])
def test_any_name_and_any_content_is_captured_as_it_is(tmp_path: Path, kind: str) -> None:
    """Names of any bytes, tracked and untracked, and contents of any bytes are in the capture."""
    root = tmp_path / "w"
    root.mkdir()
    if kind == "repository":
        make_repository(root)
    for index, name in enumerate(ODD_NAMES):
        folder = os.fsencode(root) + b"/" + name
        os.mkdir(folder)
        write(folder + b"/" + name, bytes([index, 0, 13, 10]) + b"\r\n\0" + name)
    if kind == "repository":
        run_git(root, "add", "-A", "--", "b*", "x*", ":(literal)-leading")
    tree, look = look_once(tmp_path, root)

    assert dict(tree.walk(look.commit)) == on_disk(root)
    assert look.unknown == ()
    assert look.files == len(ODD_NAMES)
    first = ODD_NAMES[0] + b"/" + ODD_NAMES[0]
    assert tree.blob(tree.state(look.commit, first).oid) == b"\0\0\r\n\r\n\0" + ODD_NAMES[0]
    tree.fsck()


def test_kinds_and_modes(tmp_path: Path) -> None:
    """Links are links whatever they point at, empty folders and full modes are kept."""
    root = make_repository(tmp_path / "w")
    write(root / "plain", "x")
    write(root / "empty")
    for name, target in [
        ("dangling", "nowhere"),
        ("absolute", "/etc"),
        ("loop", "loop"),
        ("folder", "sub"),
        ("up", ".."),
    ]:
        os.symlink(target, root / name)
    write(root / "sub/in", "y")
    os.link(root / "sub/in", root / "hard")
    (root / "hollow/inner").mkdir(parents=True)
    for name, mode in [("a", 0o600), ("b", 0o4711), ("c", 0o000), ("d", 0o777), ("e", 0o755)]:
        write(root / name, name)
        os.chmod(root / name, mode)
    os.chmod(root / "sub", 0o1770)
    os.chmod(root / "hollow/inner", 0o700)
    tree, look = look_once(tmp_path, root)

    assert dict(tree.walk(look.commit)) == on_disk(root)
    assert tree.state(look.commit, b"hollow/inner") == PathState("dir", 0o700)
    assert tree.state(look.commit, b"up/w/plain") == ABSENT
    assert tree.blob(tree.state(look.commit, b"absolute").oid) == b"/etc"
    assert tree.state(look.commit, b"b").mode == 0o4711
    tree.fsck()


def test_sockets_pipes_and_devices_are_named_as_skipped(tmp_path: Path) -> None:
    """What has no content to capture is skipped with the reason, never waited for."""
    root = make_repository(tmp_path / "w")
    os.mkfifo(root / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(root)
    try:
        listener.bind("socket")
    finally:
        os.chdir(here)
        listener.close()
    tree, look = look_once(tmp_path, root)

    skipped, unknown = tree.notes(look.commit)
    assert [(note.path, note.why) for note in skipped] == [(b"pipe", "a named pipe"), (b"socket", "a socket")]
    assert (unknown, look.skipped) == ([], 2)
    assert tree.state(look.commit, b"pipe") == SKIPPED
    assert tree.current(b"pipe") == SKIPPED


def test_swaps_and_renames_are_changes_of_each_path(tmp_path: Path) -> None:
    """File, folder and link may take each other's place; every path says what it was and is."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    write(root / "b/x", "2")
    write(root / "Case", "3")
    os.symlink("a", root / "c")
    tree, first = look_once(tmp_path, root)
    (root / "a").unlink()
    write(root / "a/inner", "1")
    (root / "b/x").rename(root / "moved")
    (root / "b").rmdir()
    os.symlink("moved", root / "b")
    (root / "c").unlink()
    write(root / "c", "plain")
    (root / "Case").rename(root / "case")
    second = tree.capture(previous=first.commit)

    kinds = {change.path: (change.before.kind, change.after.kind) for change in second.delta}
    assert kinds == {
        b"Case": ("file", "absent"),
        b"a": ("file", "dir"),
        b"a/inner": ("absent", "file"),
        b"b": ("dir", "link"),
        b"b/x": ("file", "absent"),
        b"c": ("link", "file"),
        b"case": ("absent", "file"),
        b"moved": ("absent", "file"),
    }
    assert all(change.changed_at > 0 for change in second.delta)


def test_bytes_survive_every_conversion_a_project_asks_git_for(tmp_path: Path) -> None:
    """autocrlf, text, eol, ident, encodings and filters of the project change no captured byte."""
    root = make_repository(tmp_path / "w")
    for key, value in [
        ("core.autocrlf", "true"),
        ("filter.lfs.clean", "false"),
        ("filter.lfs.required", "true"),
    ]:
        run_git(root, "config", key, value)
    attributes = "* text=auto eol=crlf ident\n*.utf working-tree-encoding=UTF-16\n*.bin filter=lfs\n"
    write(root / ".gitattributes", attributes)
    contents = {
        "a.txt": b"a\r\nb\n$Id$\n",
        "b.utf": "hé\n".encode("utf-16"),
        "c.bin": b"\0big",
        "d": b"no end",
    }
    for name, content in contents.items():
        write(root / name, content)
    tree, look = look_once(tmp_path, root)

    for name, content in contents.items():
        assert tree.blob(tree.state(look.commit, name.encode()).oid) == content
    store = next((tmp_path / "home/trees").glob("*/store.git"))
    assert run_git(store, "cat-file", "blob", f"{look.commit}:files/a.txt") == contents["a.txt"]


def test_very_deep_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many levels are captured with few open folders; below the limit it is skipped, and said."""
    monkeypatch.setattr("recorder.capturing.choice.MAX_DEPTH", 120)
    root = make_repository(tmp_path / "w")
    for level in range(1, 124):
        write(root / "/".join(["d"] * level) / "f", str(level))
    write(root / "d/d/e/g", "beside")
    opened = len(os.listdir("/proc/self/fd"))
    tree, look = look_once(tmp_path, root)

    assert tree.blob(tree.state(look.commit, b"/".join([b"d"] * 120 + [b"f"])).oid) == b"120"
    assert tree.state(look.commit, b"d/d/e/g").kind == "file"
    assert [note.why for note in tree.notes(look.commit)[0]] == ["nested deeper than 120 folders"]
    tree.fsck()
    tree.close()
    assert len(os.listdir("/proc/self/fd")) <= opened


def test_a_path_longer_than_the_system_takes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """What git cannot be asked about for its length is unknown, and does not spoil the rest."""
    root = make_repository(tmp_path / "w")
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", root], check=True))
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(25):
        os.mkdir("n" * 200, dir_fd=descriptor)
        inner = os.open("n" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    _, look = look_once(tmp_path, root)

    assert [note.why for note in look.unknown] == [
        "its path is too long for git to say whether it is ignored"
    ]
    assert look.files >= 18


def test_a_large_file_is_streamed_and_stored_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file above the limit for memory is stored in pieces, once, and read back byte for byte."""
    monkeypatch.setattr("recorder.capturing.filling.LARGE", 100_000)
    monkeypatch.setattr("recorder.capturing.batch._CHUNK", 7_000)
    root = make_repository(tmp_path / "w")
    content = os.urandom(300_001)
    write(root / "big", content)
    tree, look = look_once(tmp_path, root)
    write(root / "copy", content)
    second = tree.capture(previous=look.commit)

    assert tree.blob(tree.state(look.commit, b"big").oid) == content
    assert tree.state(second.commit, b"copy") == tree.state(second.commit, b"big")
    assert second.written == 3
    tree.fsck()


def test_nothing_changed_writes_nothing(tmp_path: Path) -> None:
    """A capture of an unchanged tree gives the same commit and writes no object, file or ref."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "x")
    write(root / "sub/b", "y")
    tree, first = look_once(tmp_path, root)
    store = next((tmp_path / "home/trees").glob("*/store.git"))
    before = everything(store)
    second = tree.capture(previous=first.commit)
    os.utime(root / "a")
    third = tree.capture(previous=second.commit)

    assert first.written == 7
    assert (second.written, third.written) == (0, 0)
    assert first.commit == second.commit == third.commit
    assert (second.delta, third.delta) == ((), ())
    assert everything(store) == before


def test_a_capture_touches_nothing_of_the_users(tmp_path: Path) -> None:
    """Names, bytes, status and times in work tree and repository are the same before and after."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "x")
    write(root / ".gitignore", "*.o\n")
    write(root / "x.o")
    make_repository(root / "nested")
    write(root / "nested/f", "y")
    commit_all(root / "nested")
    write(root / "b", "staged")
    run_git(root, "add", "b")
    time.sleep(0.01)
    write(root / "b", "dirty")
    run_git(root, "config", "core.fsmonitor", "touch " + str(tmp_path / "ran"))
    run_git(root, "config", "core.untrackedCache", "true")
    run_git(root, "config", "core.hooksPath", str(tmp_path))
    before = everything(root)
    tree = open_tree(tmp_path, root)
    first = tree.capture(previous=None, named=[os.fsencode(root / "x.o")])
    write(root / "a", "z")
    before |= {os.fsencode(root / "a"): everything(root)[os.fsencode(root / "a")]}
    tree.capture(previous=first.commit, reference_at=time.time_ns())
    tree.look(previous=first.commit)
    tree.current(b"a")

    assert everything(root) == before
    assert not (tmp_path / "ran").exists()


def test_looking_stores_nothing(tmp_path: Path) -> None:
    """A dry look gives what a capture would, and leaves the store as it is."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "x")
    tree, first = look_once(tmp_path, root)
    store = next((tmp_path / "home/trees").glob("*/store.git"))
    before = everything(store)
    write(root / "a", "other")
    write(root / "new/b", "b")
    os.chmod(root / "new", 0o700)
    os.mkfifo(root / "pipe")
    look = tree.look(previous=first.commit)

    assert [change.path for change in look.delta] == [b"a", b"new", b"new/b"]
    assert (look.commit, look.written) == ("", 0)
    assert everything(store) == before
    captured = tree.capture(previous=first.commit)
    assert captured.delta == look.delta


def test_what_stands_there_now(tmp_path: Path) -> None:
    """The present state of a path is read from disk, through no link, inside and outside."""
    root = make_repository(tmp_path / "w")
    write(root / "sub/a", "x")
    os.symlink("sub", root / "link")
    write(tmp_path / "out", "o")
    tree = open_tree(tmp_path, root)

    assert tree.current(b"sub/a") == PathState("file", 0o644, blob_id(b"x"))
    assert tree.current(os.fsencode(root / "sub")) == PathState("dir", 0o755)
    assert tree.current(b"link") == PathState("link", 0, blob_id(b"sub"))
    assert tree.current(b"link/a") == ABSENT
    assert tree.current(b"sub/none") == ABSENT
    assert tree.current(os.fsencode(tmp_path / "out")) == PathState("file", 0o644, blob_id(b"o"))
    assert UNKNOWN.known is False
