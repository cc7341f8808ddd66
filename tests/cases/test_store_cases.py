"""The store and its locks: processes that are killed, wait, collect or find another's files broken."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from projections import prune
from recorder.events import Captured
from tests.capture.helpers import commit_all, everything, make_repository, run_git
from tests.cases.stage import Stage, played, saves, store_of
from tests.faults import killed
from tests.flow.conftest import ENTRY, Recorder, snapshot
from tests.flow.within import whole


def dead_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_case_75_locks_of_the_dead_stop_nothing(place: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock files of git and of the recorder, half-written packs and refs, as processes leave them that were
    killed: capture, rewind and prune go on at once."""
    start = snapshot(place.folder)
    played(place, runs=1)
    leave_locks(place)
    played(place, runs=4)
    assert {one["state"] for one in place.json("checkpoints", "latest")} == {"complete"}
    for session in [one["id"] for one in place.json("sessions")]:
        place.rewind("1", "--session", session)
    assert snapshot(place.folder) == start
    leave_locks(place)
    monkeypatch.setenv("RECORDER_MAX_CHECKPOINTS", "1")
    monkeypatch.setattr(prune, "SAFETY_DAYS", 0)
    kept = list_refs(place)
    assert len(place.json("prune")["retired"]) == 3 and len(list_refs(place)) < len(kept)


def list_refs(place: Stage) -> list[bytes]:
    return run_git(store_of(place), "for-each-ref").splitlines()


def leave_locks(place: Stage) -> None:
    store = store_of(place)
    refs = [f"{path.relative_to(store)}.lock" for path in store.glob("refs/recorder/captures/*")]
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock", "gc.pid", "new-ref", *refs):
        (store / name).write_text(f"{dead_pid()} localhost")
    for name in ("tmp_pack_1", "tmp_idx_1", "pack-0000000000000000000000000000000000000000.pack"):
        (store / "objects" / "pack" / name).write_bytes(b"PACK\0\0")
    for path in (place.within.home / "locks").iterdir():
        path.write_text(str(dead_pid()))


def test_case_75_the_living_are_waited_for(plain: Stage) -> None:
    """Another process holds the project's lock: a rewind waits until it lets go, then does its work."""
    played(plain, runs=1)
    [tree] = (plain.within.home / "trees").iterdir()
    hold = (
        "import sys\nfrom pathlib import Path\nfrom recorder.home import open_home\n"
        f"with open_home(Path({str(plain.within.home)!r})).lock({'tree-' + tree.name!r}):\n"
        "    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold], cwd=ENTRY.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin and holder.stdout and holder.stdout.readline() == b"held\n"
    released: list[float] = []
    timer = threading.Timer(0.3, lambda: (released.append(time.monotonic()), holder.stdin.close()))
    timer.start()
    assert plain.rewind("1")["status"] == "done"
    assert released and released[0] <= time.monotonic()
    timer.join()
    holder.wait()
    assert not (plain.folder / "new-1").exists()


def test_case_79_a_capture_that_is_killed_leaves_the_project_alone(stage: Stage) -> None:
    """With a nested repository in it, killed at one effect after another: nothing in the project is renamed,
    written or touched, and the next capture is whole."""
    nested = make_repository(stage.folder / "nested")
    saves("f", "1\n")(nested)
    commit_all(nested)
    before = everything(stage.folder)
    agent = stage.agent()
    agent.give("killed")

    effects = itertools.count(0, 13)
    while killed(next(effects), lambda: stage.within.run("watch", "--once", cwd=stage.folder)):
        assert everything(stage.folder) == before
    assert everything(stage.folder) == before and next(effects) > 100
    stage.play(agent, (stage.write("nested/f", "2\n"),))
    assert stage.json("checkpoints")[0]["state"] == "complete"
    stage.rewind("2")
    assert (nested / "f").read_text() == "1\n"


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_case_66_a_new_process_knows_all_that_the_old_one_did(kind: str, tmp_path: Path) -> None:
    """Two runs are recorded, the recorder is killed, and another process goes back."""
    recorder, folder = Recorder(tmp_path / "recorder"), tmp_path / "project"
    folder.mkdir()
    with recorder.watching() as watcher:
        agent = recorder.pi(folder) if kind == "pi" else recorder.claude(folder)
        for number in (1, 2):
            agent.give(f"prompt {number}")
            recorder.wait_for(folder, agent.session, number, settled=False)
            agent.write("f", f"{number}")
            agent.done()
            recorder.wait_for(folder, agent.session, number)
        watcher.send_signal(signal.SIGKILL)
        watcher.wait()
    recorder.json("rewind", "2", "--files", cwd=folder)
    assert (folder / "f").read_text() == "1"
    recorder.json("rewind", "1", "--files", cwd=folder)
    assert not (folder / "f").exists()


@pytest.mark.parametrize("ruin", [b"\0" * 200, b"", b"[core]\n\tbare = maybe\n"])
def test_case_77_one_broken_store_is_one_broken_store(ruin: bytes, plain: Stage, tmp_path: Path) -> None:
    """A file of the store is null bytes, empty or nonsense: another project is as ever, and this one works
    again at the next capture, with what was captured before."""
    start = snapshot(plain.folder)
    played(plain)
    other = plain._replace(folder=tmp_path / "other")
    saves("notes.md", "mine\n")(other.folder)
    for name in ("config", "HEAD", "info/attributes"):
        (store_of(plain) / name).write_bytes(ruin)
    played(other)
    assert {one["state"] for one in other.json("checkpoints")} == {"complete"}
    other.rewind("1")
    assert snapshot(other.folder) == {"notes.md": ("file", 0o644, b"mine\n")}
    plain.play(plain.agent(), (plain.write("third", "1\n"),))
    assert plain.json("checkpoints", "latest")[0]["state"] == "complete"
    plain.rewind("1", "--session", plain.json("sessions")[-1]["id"], check=None)
    assert {**snapshot(plain.folder), "third": None} == {**start, "third": None}


def test_case_80_what_a_killed_housekeeping_leaves_goes_with_the_next(plain: Stage) -> None:
    """Half-written packs of a killed git do not pile up: prune takes them away, and what is kept is whole."""
    played(plain)
    packs, filler = store_of(plain) / "objects" / "pack", os.urandom(1 << 20)
    for name in ("tmp_pack_XYZ123", "tmp_idx_XYZ123", ".tmp-99-pack-abc.pack"):
        (packs / name).write_bytes(filler)
        os.utime(packs / name, (1, 1))
    store = store_of(plain).parent
    plain.within.run("prune", cwd=plain.folder, check=None)
    played(plain)
    os.environ["RECORDER_MAX_CHECKPOINTS"] = "1"
    try:
        plain.json("prune")
    finally:
        del os.environ["RECORDER_MAX_CHECKPOINTS"]
    assert not [path for path in packs.iterdir() if "tmp" in path.name]
    assert sum(path.stat().st_size for path in store.rglob("*") if path.is_file()) < 1 << 20
    plain.rewind("2", "--session", "latest")


def test_case_83_gits_own_collection_takes_nothing_that_lives(plain: Stage) -> None:
    """`git gc --prune=now` and a full repack in the store: every checkpoint is there, and goes back."""
    start = snapshot(plain.folder)
    played(plain, runs=3)
    for words in (("gc", "--prune=now", "--quiet"), ("repack", "-adfq"), ("prune", "--expire=now")):
        run_git(store_of(plain), *words)
    for number in ("3", "2", "1"):
        assert plain.rewind(number)["status"] == "done"
        assert not (plain.folder / f"new-{number}").exists()
    assert snapshot(plain.folder) == start
    with plain.within.recording() as recording:
        commits = [one.fact.commit for one in whole(recording) if isinstance(one.fact, Captured)]
    kept = {ref.split()[0].decode() for ref in list_refs(plain)}
    assert set(commits) <= kept
