"""Hooks against the daemon, whole: the agent waits for its checkpoint, and is never disturbed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from cli.daemon import running
from cli.server import address_of
from recorder.home import open_home
from tests.flow.conftest import ENTRY, Recorder, snapshot
from tests.hooks.conftest import Hooks, Told, daemons_of, ended
from tests.rights import BOUND_BY_MODES


def silent(told: Told) -> bool:
    return told.code == 0 and not told.out and not told.err


def test_the_first_hook_starts_the_daemon(hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """With nothing running, a session that keeps no log is recorded from its first hook on: each checkpoint
    has the state from before its prompt exactly, though the tools act at once, and files go back."""
    assert silent(hooks.tell("SessionStart", source="startup"))
    states = []
    for number in (1, 2, 3):
        key = f"p{number}"
        states.append(snapshot(folder))
        assert silent(hooks.prompt(key))
        with hooks.tool(key):
            (folder / "notes.md").write_text(f"{number}\n")
            (folder / f"made{number}").write_text("new")
        with hooks.tool(key, "Write", file_path=str(folder / "src" / "app.py"), content=f"{number}"):
            (folder / "src" / "app.py").write_text(f"{number}")
        assert silent(hooks.stop(key))
    hooks.tell("SessionEnd", reason="other")
    found = recorder.json("checkpoints", cwd=folder)
    assert [(one["number"], one["state"], one["source"]) for one in found] == [
        (3, "complete", "hook"),
        (2, "complete", "hook"),
        (1, "complete", "hook"),
    ]
    assert recorder.json("checkpoint", "status", cwd=folder)["how"] == "hook"
    for number in (3, 2, 1):
        recorder.run("rewind", str(number), "--files", cwd=folder)
        assert snapshot(folder) == states[number - 1]


def test_one_daemon_a_home(hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """Many first hooks at once bring up one daemon, and none of what they tell is lost."""
    others = [Hooks(recorder, folder, f"0b5e7c1e-0000-4000-8000-0000000000{n:02d}") for n in range(6)]
    threads = [threading.Thread(target=one.prompt, args=("p1",)) for one in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = recorder.json("log", "--type", "PromptAnnounced", others[0].session, cwd=folder)
    assert len(told) == 1
    status = recorder.json("daemon", "status", cwd=folder)
    assert status["running"] and set(status["sessions"]) == {one.session for one in others}
    assert not list((recorder.home / "spool").iterdir())
    assert len(daemons_of(recorder.home)) == 1


def test_start_status_stop(recorder: Recorder, folder: Path) -> None:
    """The commands say what is so: started once, running, ended; an ended one leaves no socket behind."""
    first = recorder.json("daemon", "start", cwd=folder)
    again = recorder.json("daemon", "start", cwd=folder)
    assert first["running"] and first["pid"] == again["pid"] == running(recorder.home).pid  # type: ignore[union-attr]
    assert recorder.run("watch", cwd=folder, check=4).err
    ended_now = recorder.json("daemon", "stop", cwd=folder)
    assert ended_now["running"] is False
    assert recorder.json("daemon", "status", cwd=folder) == ended_now
    assert not (recorder.home / "socket").exists()
    assert recorder.json("daemon", "stop", cwd=folder)["running"] is False


def test_a_stale_socket(hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """The socket of a daemon that was killed is replaced by the next one, which the next hook starts."""
    hooks.prompt("p1")
    os.kill(running(recorder.home).pid, signal.SIGKILL)  # type: ignore[union-attr]
    assert (recorder.home / "socket").exists()
    assert silent(hooks.prompt("p2"))
    assert len(recorder.json("log", "--type", "PromptAnnounced", cwd=folder)) == 2


def test_a_daemon_that_is_killed_while_a_hook_waits(hooks: Hooks, recorder: Recorder) -> None:
    """The hook ends without a word, long before its budget is over, and the next daemon hears of it."""
    hooks.prompt("p1")
    pid = running(recorder.home).pid  # type: ignore[union-attr]
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    told = hooks.prompt("p2")
    assert silent(told) and told.seconds < 15
    assert len(recorder.json("log", "--type", "PromptAnnounced", cwd=hooks.folder)) == 2


def test_a_daemon_that_never_answers(hooks: Hooks, recorder: Recorder) -> None:
    """The hook waits for its budget and no longer, and says nothing."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with address_of(recorder.home) as address:
        listening.bind(address)
    listening.listen()
    try:
        told = hooks.tell("UserPromptSubmit", prompt_id="p", prompt="x", budget=300)
    finally:
        listening.close()
        (recorder.home / "socket").unlink()
    assert silent(told) and 0.3 <= told.seconds < 10


def test_a_daemon_that_cannot_come_up(hooks: Hooks, recorder: Recorder) -> None:
    """Where none comes up, one hook waits for it; those after it do not wait at all."""
    (recorder.home / "version").write_text("999\n")
    assert silent(hooks.tell("UserPromptSubmit", prompt_id="p", prompt="x", budget=600))
    old = time.time() - 10
    os.utime(recorder.home / "starting", (old, old))
    told = hooks.tell("UserPromptSubmit", prompt_id="p", prompt="x", budget=60_000)
    assert silent(told) and told.seconds < 20
    assert not daemons_of(recorder.home)


@pytest.mark.parametrize("gone", ["home", "spool"])
def test_a_recorder_that_is_gone(gone: str, hooks: Hooks, recorder: Recorder, tmp_path: Path) -> None:
    """Without a home, or where nothing can be written, a hook is silent and makes nothing."""
    if gone == "home":
        recorder.home = tmp_path / "never"
    else:
        (recorder.home / "spool").write_text("in the way")
        old = time.time() - 10
        (recorder.home / "starting").touch()
        os.utime(recorder.home / "starting", (old, old))
    assert silent(hooks.tell("Stop", budget=500))
    assert not (tmp_path / "never").exists()


@pytest.mark.skipif(not BOUND_BY_MODES, reason="the superuser writes everywhere")
def test_a_home_that_cannot_be_written(hooks: Hooks, recorder: Recorder) -> None:
    """A hook is silent there too."""
    recorder.home.chmod(0o500)
    try:
        assert silent(hooks.tell("Stop", budget=500))
    finally:
        recorder.home.chmod(0o700)


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"\xff" * 100, b"[" * 200_000, b'{"hook_event_name": "Stop"}', b"x" * (3 << 20)]
)
def test_odd_payloads(payload: bytes, hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """Whatever comes on stdin, the hook is silent and the daemon goes on."""
    recorder.run("daemon", "start", cwd=folder)
    assert silent(hooks.send(payload))
    assert silent(hooks.prompt("p1"))
    assert len(recorder.json("log", "--type", "PromptAnnounced", cwd=folder)) == 1


@pytest.mark.parametrize("agent", ["claude", "somebody"])
def test_a_hook_spelled_out(agent: str, hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """`recorder hook` does the same as the client, and is silent for an agent that nobody knows."""
    payload = msgspec.json.encode(
        {"session_id": hooks.session, "hook_event_name": "UserPromptSubmit", "prompt_id": "p", "prompt": "x"}
        | {"cwd": str(folder)}
    )
    done = subprocess.run(
        [sys.executable, "-I", str(ENTRY), "hook", agent],
        input=payload, env=recorder.environment, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    recorder.run("daemon", "start", cwd=folder)
    told = recorder.run("log", "--type", "PromptAnnounced", "--json", cwd=folder, check=None)
    assert (told.code == 0 and len(told.json) == 1) is (agent == "claude")


def test_nothing_of_the_environment_is_kept(hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """A secret in the agent's environment is neither in the daemon's own nor anywhere in the home."""
    secret = "sesame-3f1c0d1e"
    recorder.environment["CLAUDE_CODE_MESSAGING_TOKEN"] = secret
    hooks.prompt("p1")
    hooks.stop("p1")
    pid = running(recorder.home).pid  # type: ignore[union-attr]
    environment = Path(f"/proc/{pid}/environ")
    assert not environment.exists() or secret.encode() not in environment.read_bytes()
    ended(recorder.home)
    for path in recorder.home.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_a_home_whose_path_is_long(recorder: Recorder, folder: Path, tmp_path: Path) -> None:
    """A path that no socket's address can hold is no obstacle."""
    recorder.home = tmp_path / ("long" * 30) / "home"
    recorder.environment["RECORDER_HOME"] = str(recorder.home)
    open_home(recorder.home)
    hooks = Hooks(recorder, folder)
    try:
        assert silent(hooks.prompt("p1"))
        assert len(recorder.json("log", "--type", "PromptAnnounced", cwd=folder)) == 1
        assert silent(hooks.prompt("p2"))
    finally:
        ended(recorder.home)


def test_another_user_is_not_heard(recorder: Recorder, folder: Path) -> None:
    """Only the home's own user is answered, even where another one can reach the socket."""
    if os.geteuid() != 0:
        pytest.skip("only the superuser can be another user")
    recorder.run("daemon", "start", cwd=folder)
    for path in (recorder.home, *recorder.home.parents):
        if path.stat().st_uid == 0 and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    (recorder.home / "socket").chmod(0o666)
    probe = (
        "import os,socket,sys;os.setgid(65534);os.setuid(65534);s=socket.socket(socket.AF_UNIX);"
        "s.settimeout(10);s.connect(sys.argv[1]);s.sendall(b'recorder 1 claude 1 2 2\\n{}');"
        "sys.stdout.write(repr(s.recv(10)))"
    )
    try:
        asked = subprocess.run(
            [sys.executable, "-c", probe, str(recorder.home / "socket")],
            capture_output=True,
            text=True,
            cwd="/",
        )
    finally:
        ended(recorder.home)
    assert asked.stdout in ("b''", "") and "ok" not in asked.stdout


def test_what_is_heard_late_claims_nothing(hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """Prompts whose hooks lay in the spool while their tools wrote are not told as files stand afterwards:
    what changed since a hook asked is unknown in its checkpoint, and a rewind says so."""
    hooks.tell("SessionStart", source="startup")
    hooks.prompt("p1")
    with hooks.tool("p1"):
        (folder / "notes.md").write_text("v1\n")
    hooks.stop("p1")
    os.kill(running(recorder.home).pid, signal.SIGKILL)  # type: ignore[union-attr]
    coming_up = time.time() - 10
    (recorder.home / "starting").touch()
    os.utime(recorder.home / "starting", (coming_up, coming_up))
    for number in (2, 3):
        hooks.prompt(f"p{number}")
        with hooks.tool(f"p{number}"):
            (folder / "notes.md").write_text(f"v{number}\n")
        hooks.stop(f"p{number}")
    recorder.run("daemon", "start", cwd=folder)
    hooks.prompt("p4")
    hooks.stop("p4")
    found = {one["number"]: one for one in recorder.json("checkpoints", cwd=folder)}
    assert [found[number]["state"] for number in (1, 4)] == ["complete", "complete"]
    assert [found[number]["state"] for number in (2, 3)] == ["partial", "partial"]
    for number in (2, 3):
        assert "notes.md" in found[number]["why_not"]
        assert recorder.json("rewind", str(number), cwd=folder, check=4)["status"] == "refused"
    assert (folder / "notes.md").read_text() == "v3\n"
