import itertools
import os
import shutil
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest

from recorder.capturing import store as store_module
from recorder.capturing import trees
from recorder.capturing.found import Folder, Found
from recorder.capturing.looking import Leaf
from recorder.capturing.manifest import Facts
from recorder.capturing.store import Store, object_id
from recorder.errors import IntegrityFailure, NotFound, StoreFailure
from tests.capture.helpers import (
    blob_id,
    everything,
    look_once,
    make_repository,
    on_disk,
    open_tree,
    run_git,
    write,
)
from tests.rights import BOUND_BY_MODES


def the_store(tmp_path: Path) -> Path:
    return next((tmp_path / "home/trees").glob("*/store.git"))


def test_the_store_reads_like_any_repository(tmp_path: Path) -> None:
    """git's own tools list, show and check captures; each is reachable from its ref and has no parent."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    tree, first = look_once(tmp_path, root)
    write(root / "a", "2")
    os.chmod(root / "a", 0o750)
    second = tree.capture(previous=first.commit)
    store = the_store(tmp_path)
    assert run_git(store, "ls-tree", f"{second.commit}:files").startswith(b"100755 blob")

    refs = run_git(store, "for-each-ref", "--format=%(refname) %(objectname)").decode().split("\n")
    assert set(refs[:-1]) == {f"refs/recorder/captures/{c} {c}" for c in (first.commit, second.commit)}
    assert run_git(store, "log", "--format=%P%s", second.commit) == b"capture\n"
    assert b"-1\n" in run_git(store, "diff", "--text", first.commit, second.commit, "--", "files").replace(
        b"\\ No newline at end of file\n", b""
    )
    tree.fsck()
    assert run_git(store, "fsck", "--full", "--strict") == b""


def test_the_store_is_private(tmp_path: Path) -> None:
    """Nobody but the owner can read what was captured, whatever the umask."""
    old = os.umask(0)
    try:
        root = make_repository(tmp_path / "w")
        write(root / "secret", "s")
        tree, _ = look_once(tmp_path, root)
        tree.close()
    finally:
        os.umask(old)
    for folder, _, files in os.walk(tmp_path / "home/trees"):
        assert os.stat(folder).st_mode & 0o077 == 0, folder
        for file in files:
            assert os.stat(os.path.join(folder, file)).st_mode & 0o077 == 0, file


def test_captures_survive_garbage_collection_and_released_ones_go(tmp_path: Path) -> None:
    """git's own collection takes nothing that a ref holds; after a release and a collection the bytes are
    gone, and everything still on disk is captured again in full."""
    root = make_repository(tmp_path / "w")
    write(root / "a", os.urandom(50_000))
    write(root / "b", "kept")
    tree, first = look_once(tmp_path, root)
    state = tree.state(first.commit, b"a")
    write(root / "a", "small")
    second = tree.capture(previous=first.commit)
    run_git(the_store(tmp_path), "gc", "-q", "--prune=now")
    assert len(tree.blob(state.oid)) == 50_000
    used = tree.bytes_used()
    tree.release([first.commit])
    tree.collect()
    assert tree.bytes_used() < used - 40_000
    with pytest.raises(NotFound):
        tree.blob(state.oid)
    assert tree.state(first.commit, b"a").kind == "unknown"
    assert dict(tree.walk(second.commit)) == on_disk(root)
    tree.release([second.commit])
    tree.collect()
    third = tree.capture(previous=second.commit)
    assert third.delta == ()
    assert dict(tree.walk(third.commit)) == on_disk(root)
    tree.fsck()


def test_a_capture_does_not_believe_in_objects_that_another_process_pruned(tmp_path: Path) -> None:
    """With the stat cache full and the objects gone, everything is read again and the store is whole."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    write(root / "sub/b", "2")
    tree, first = look_once(tmp_path, root)
    time.sleep(1.1)
    tree.capture(previous=first.commit)
    tree.close()
    other = open_tree(tmp_path, root)
    other.release([first.commit])
    other.collect()
    again = tree.capture(previous=first.commit)
    assert again.written == 7
    assert dict(tree.walk(again.commit)) == on_disk(root)
    tree.fsck()


def test_the_stat_cache_is_never_trusted_when_damaged(tmp_path: Path) -> None:
    """A flipped bit, a cut or a foreign file only cost time."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    write(root / "b", "2")
    tree, first = look_once(tmp_path, root)
    time.sleep(1.1)
    tree.capture(previous=first.commit)
    tree.close()
    cache = the_store(tmp_path).parent / "stat-cache"
    good = cache.read_bytes()
    a, b = bytes.fromhex(blob_id(b"1")), bytes.fromhex(blob_id(b"2"))
    swapped = good.replace(a, b)
    assert swapped != good
    for damage in [b"", good[:-1], swapped, good[:60] + bytes([good[60] ^ 1]) + good[61:], os.urandom(500)]:
        cache.write_bytes(damage)
        with open_tree(tmp_path, root) as tree:
            look = tree.capture(previous=first.commit)
            assert (look.commit, look.written) == (first.commit, 0)


def test_unchanged_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the stat cache is sure of is not opened, also by a new process; a racy entry is."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    tree, first = look_once(tmp_path, root)
    read: list[bytes] = []
    from recorder.capturing import looking

    real = looking._read_whole
    monkeypatch.setattr(looking, "_read_whole", lambda *args: read.append(b"x") or real(*args))
    tree.capture(previous=first.commit)
    assert len(read) == 1
    time.sleep(1.05)
    tree.capture(previous=first.commit)
    tree.close()
    read.clear()
    with open_tree(tmp_path, root) as tree:
        tree.capture(previous=first.commit)
        assert read == []
        status = os.stat(root / "a")
        write(root / "a", "2")
        os.utime(root / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert [c.path for c in tree.capture(previous=first.commit).delta] == [b"a"]


def test_a_store_puts_back_what_is_missing_of_it(tmp_path: Path) -> None:
    """A damaged config, missing folders and leftovers of killed processes stop no capture of this tree or
    another."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    tree, first = look_once(tmp_path, root)
    tree.close()
    store = the_store(tmp_path)
    (store / "config").write_bytes(b"\0" * 400)
    (store / "HEAD").unlink()
    shutil.rmtree(store / "info")
    write(store / "objects/pack/tmp_pack_99", "half")
    write(store / "new-ref", "half")
    write(store / "index.lock", "")
    write(root / "a", "2")
    with open_tree(tmp_path, root) as tree:
        second = tree.capture(previous=first.commit)
        assert [change.path for change in second.delta] == [b"a"]
        tree.fsck()


def test_a_lost_refs_folder_is_made_again(tmp_path: Path) -> None:
    """Without its refs the next capture is whole and has one."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    tree, first = look_once(tmp_path, root)
    tree.close()
    shutil.rmtree(the_store(tmp_path) / "refs")
    with open_tree(tmp_path, root) as tree:
        second = tree.capture(previous=first.commit)
        assert (second.commit, second.written) == (first.commit, 0)
        assert run_git(the_store(tmp_path), "for-each-ref", "--format=%(objectname)").split() == [
            first.commit.encode()
        ]


def test_a_damaged_object_is_told(tmp_path: Path) -> None:
    """Stored bytes that are not what was stored are never given out."""
    root = make_repository(tmp_path / "w")
    write(root / "a", os.urandom(5000))
    tree, first = look_once(tmp_path, root)
    oid = tree.state(first.commit, b"a").oid
    tree.close()
    pack = next((the_store(tmp_path) / "objects/pack").glob("*.pack"))
    content = bytearray(pack.read_bytes())
    content[1000] ^= 0xFF
    pack.write_bytes(content)
    with pytest.raises(IntegrityFailure), open_tree(tmp_path, root) as tree:
        tree.blob(oid)


def test_an_object_under_a_wrong_name_is_told(tmp_path: Path) -> None:
    """Sound bytes that are not those asked for are not given out either."""
    tree, _ = look_once(tmp_path, make_repository(tmp_path / "w"))
    oid = "ab" + "0" * 38
    write(the_store(tmp_path) / "objects/ab" / oid[2:], zlib.compress(b"blob 1\0x"))
    with pytest.raises(IntegrityFailure, match="not what was stored"):
        tree.blob(oid)


def test_a_capture_is_the_same_in_whatever_order_it_was_found() -> None:
    """The order in which a file system lists names leaves no mark."""
    leaves = {b"a": Leaf("file", 0o600, b"1" * 20), b"b": Leaf("file", 0o640, b"2" * 20)}
    leaves |= {b"c": Leaf("skipped", why="y"), b"d": Leaf("skipped", why="x"), b"e": Leaf("skipped", why="x")}
    commits = {
        trees.write(Found(Folder(b"", 0o755, 0, 0, dict(order))), Facts("folder"), object_id)
        for order in itertools.permutations(leaves.items())
    }
    assert len(commits) == 1


def test_a_store_that_cannot_be_written_loses_the_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk is a StoreFailure; no ref is left, and the next capture is complete."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    tree, first = look_once(tmp_path, root)
    write(root / "a", "2")

    def full(file: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module, "flush", full)
    with pytest.raises(StoreFailure, match="No space left"):
        tree.capture(previous=first.commit)
    monkeypatch.undo()
    assert run_git(the_store(tmp_path), "for-each-ref").count(b"\n") == 1
    second = tree.capture(previous=first.commit)
    assert [change.path for change in second.delta] == [b"a"]
    tree.fsck()


def test_a_large_first_capture_is_written_in_several_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New objects are held up to a limit only."""
    monkeypatch.setattr("recorder.capturing.batch._PENDING", 10_000)
    root = make_repository(tmp_path / "w")
    for index in range(10):
        write(root / f"f{index}", os.urandom(4_000))
    tree, look = look_once(tmp_path, root)
    assert len(list((the_store(tmp_path) / "objects/pack").glob("*.pack"))) > 2
    assert dict(tree.walk(look.commit)) == on_disk(root)
    tree.fsck()


def test_two_processes_use_one_store(tmp_path: Path) -> None:
    """What another process stored is seen, and nothing is stored twice."""
    root = make_repository(tmp_path / "w")
    write(root / "a", "1")
    here, first = look_once(tmp_path, root)
    there = open_tree(tmp_path, root)
    write(root / "a", "2")
    second = there.capture(previous=first.commit)
    assert here.blob(here.state(second.commit, b"a").oid) == b"2"
    third = here.capture(previous=second.commit)
    assert (third.commit, third.written) == (second.commit, 0)


def test_a_hostile_environment_reaches_nothing(tmp_path: Path) -> None:
    """With every `GIT_*` variable at a decoy repository and a global configuration full of traps, the
    capture is right, the decoy is untouched and no trap went off."""
    decoy = make_repository(tmp_path / "decoy")
    write(decoy / "d", "decoy")
    run_git(decoy, "add", "d")
    root = make_repository(tmp_path / "w")
    write(root / "text", "a\r\nb\n")
    write(root / "mine.skip", "x")
    user = tmp_path / "user"
    trap = tmp_path / "trap"
    write(tmp_path / "hooks/post-index-change", f"#!/bin/sh\ntouch {trap}\n")
    write(tmp_path / "hooks/reference-transaction", f"#!/bin/sh\ntouch {trap}\n")
    for hook in (tmp_path / "hooks").iterdir():
        hook.chmod(0o755)
    write(user / "skip", "*.skip\n")
    write(
        user / ".gitconfig",
        f"[core]\n autocrlf = true\n hooksPath = {tmp_path}/hooks\n excludesFile = {user}/skip\n"
        f" fsmonitor = touch {trap}\n[commit]\n gpgSign = true\n[gpg]\n program = touch {trap}\n"
        f"[alias]\n check-ignore = !touch {trap}\n[init]\n templateDir = {tmp_path}/hooks\n"
        "[fetch]\n fsckObjects = true\n[safe]\n directory = /nowhere\n[diff]\n external = false\n",
    )
    places = {
        "GIT_DIR": decoy / ".git",
        "GIT_WORK_TREE": decoy,
        "GIT_INDEX_FILE": decoy / ".git/index",
        "GIT_OBJECT_DIRECTORY": decoy / ".git/objects",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": decoy / ".git/objects",
        "GIT_COMMON_DIR": decoy / ".git",
        "GIT_CONFIG_GLOBAL": user / ".gitconfig",
        "GIT_CONFIG_SYSTEM": user / ".gitconfig",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.hooksPath",
        "GIT_CONFIG_VALUE_0": tmp_path / "hooks",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
        "GIT_NAMESPACE": "decoy",
        "GIT_PREFIX": "sub/",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_TRACE": trap,
        "GIT_EXTERNAL_DIFF": f"touch {trap}",
        "GIT_TEMPLATE_DIR": tmp_path / "hooks",
        "GIT_EXEC_PATH": "/nowhere",
        "GIT_PYTHON_GIT_EXECUTABLE": "/bin/false",
        "GIT_PYTHON_TRACE": "full",
        "HOME": user,
        "XDG_CONFIG_HOME": user / ".config",
        "LC_ALL": "de_DE.UTF-8",
        "LANGUAGE": "de",
    }
    script = """
import sys
from pathlib import Path
from tests.capture.helpers import *
tmp = Path(sys.argv[1])
tree = open_tree(tmp, tmp / "w")
first = tree.capture(previous=None)
write(tmp / "w/text", "c\\r\\n")
second = tree.capture(previous=first.commit)
assert tree.blob(tree.state(second.commit, b"text").oid) == b"c\\r\\n"
assert [n.path for n in tree.notes(second.commit)[0]] == [b"mine.skip"], tree.notes(second.commit)
assert [c.path for c in second.delta] == [b"text"]
tree.release([first.commit]); tree.collect(); tree.fsck()
"""
    before = everything(decoy), everything(root / ".git")
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        env={"PATH": os.environ["PATH"]} | {name: str(value) for name, value in places.items()},
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (done.stdout, done.stderr) == (b"", b"")
    assert (everything(decoy), everything(root / ".git")) == before
    assert not trap.exists()


def test_unreadable_files_and_folders_spoil_nothing(tmp_path: Path) -> None:
    """As a user who may not read them: the file and the folder are unknown with the reason, also what was
    known below; the rest is captured, and the next capture heals."""
    root = make_repository(tmp_path / "w")
    for name in ["open", "shut", "closed/in", "new/in"]:
        write(root / name, name)
    script = """
import os, sys, signal
from pathlib import Path
sys.path.insert(0, os.getcwd())
from tests.capture.helpers import *
tmp = Path(sys.argv[1])
import recorder.git, recorder.capture, dulwich.object_store, git
root = tmp / "w"
tree = open_tree(tmp, root)
first = tree.capture(previous=None)
os.chmod(root / "shut", 0)
os.chmod(root / "closed", 0)
write(root / "open", "changed")
second = tree.capture(previous=first.commit)
assert [(n.path, n.why) for n in second.unknown] == [
    (b"closed", "cannot be read: Permission denied"), (b"shut", "cannot be read: Permission denied")], second
assert {c.path: c.after.kind for c in second.delta} == {
    b"open": "file", b"shut": "unknown", b"closed": "unknown", b"closed/in": "unknown"}, second.delta
assert tree.state(second.commit, b"closed/in").kind == "unknown"
assert tree.current(b"shut").kind == "unknown"
os.chmod(root / "shut", 0o644)
os.chmod(root / "closed", 0o755)
third = tree.capture(previous=second.commit)
assert third.unknown == ()
assert dict(tree.walk(third.commit)) == on_disk(root)
os.chmod(root, 0)
try:
    tree.capture(previous=third.commit)
except recorder.errors.StoreFailure as error:
    assert "cannot be listed" in error.message
else:
    raise AssertionError
os.chmod(root, 0o755)
"""
    done = subprocess.run(
        [*BOUND_BY_MODES, sys.executable, "-c", script, tmp_path],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_store_in_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """One sentence, not a traceback."""
    write(tmp_path / "file")
    with pytest.raises(StoreFailure, match="cannot be created"):
        Store(tmp_path / "file" / "store.git").prepare()
