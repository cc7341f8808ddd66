"""Whether a session may be open in a live pi, with real processes that look like one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from recorder.sources.base import Closed
from recorder.sources.pi import SOURCE
from recorder.sources.pi_live import is_pi

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at on Linux only")

NODE = "/usr/bin/node"


@pytest.mark.parametrize(
    ("name", "program", "arguments", "expected"),
    [
        ("pi", NODE, ["pi", "", ""], True),
        ("pi-rpc", NODE, ["pi-rpc"], True),
        ("pi", None, [], True),
        ("node", NODE, [NODE, "/usr/local/bin/pi", "-c"], True),
        ("node", NODE, [NODE, "/x/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"], True),
        ("MainThread", NODE, ["node", "/x/@mariozechner/pi-coding-agent/dist/cli.js"], True),
        ("bun", "/opt/bun", ["bun", "/home/dev/.bun/bin/pi"], True),
        ("pi", "/opt/pi/pi", ["./pi", "-p"], True),
        ("npm exec @earen", NODE, ["npm exec @earendil-works/pi-coding-agent", ""], True),
        ("node", None, ["node", "/usr/local/bin/pi"], True),
        ("node", NODE, [NODE, "server.js"], False),
        ("vim", "/usr/bin/vim", ["vim", "/x/pi-coding-agent/README.md"], False),
        ("bash", "/usr/bin/bash", ["bash", "-c", "pi"], False),
        ("pip", "/usr/bin/python3", ["python3", "/usr/bin/pip"], False),
        ("kworker/0:1", None, [], False),
        ("", None, [], False),
    ],
)
def test_what_can_be_a_pi(name: str, program: str | None, arguments: list[str], expected: bool) -> None:
    """By its title, by its program, and before it has its title by what its runtime was started with."""
    assert is_pi(name, program, arguments) is expected


Start = Callable[..., int]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    for child in psutil.Process(process.pid).children():
        child.kill()
    process.kill()


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that calls itself by a name, as pi does, and have it do something."""
    with contextlib.ExitStack() as running:

        def process(name: str, does: str = "time.sleep(60)", **environment: str) -> int:
            rename = f"ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)"
            code = f"import ctypes, subprocess, time; {rename}; print('ready', flush=True); {does}"
            command = [sys.executable, "-I", "-c", code]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment})
            running.enter_context(child)
            running.callback(end, child)
            assert child.stdout is not None and child.stdout.readline() == b"ready\n"
            return child.pid

        yield process


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Closed]:
    """Ask for a session while only these processes, and the first one, are there."""
    log = tmp_path / "session.jsonl"
    log.write_text("{}\n")

    def closed(*pids: int) -> Closed:
        monkeypatch.setattr(psutil, "pids", lambda: [1, *pids])
        return SOURCE.closed(log, "the-session")

    return closed


def test_without_a_pi_the_session_is_closed(start: Start, look: Callable[..., Closed]) -> None:
    """Other programs, however many, do not hold it."""
    assert look(start("python"), os.getpid()).state == "closed"


def test_a_pi_that_does_not_tell_leaves_it_unknown(start: Start, look: Callable[..., Closed]) -> None:
    """The reason names the process and where it runs, and what to do instead; when it has ended the
    session is closed, also before it has been waited for."""
    pi = start("pi")

    answer = look(pi)

    assert answer.state == "unknown"
    assert f"process {pi} in {Path.cwd()}" in answer.why and "/tree" in answer.why
    os.kill(pi, signal.SIGKILL)
    while psutil.Process(pi).status() != psutil.STATUS_ZOMBIE:
        pass
    assert look(pi).state == "closed"


def test_a_command_of_the_session_shows_that_it_is_open(start: Start, look: Callable[..., Closed]) -> None:
    """What pi's shell tool started carries the id of its session."""
    shell = "subprocess.call(['sleep', '60'])"
    pi = start("pi", shell, PI_SESSION_ID="the-session")
    other = start("pi", shell, PI_SESSION_ID="another")
    while not all(psutil.Process(pid).children() for pid in (pi, other)):
        pass

    assert look(pi).state == "open"
    assert look(other, pi).state == "open"
    assert look(other).state == "unknown"


def test_another_users_pi_counts_only_where_it_may_write(
    start: Start, look: Callable[..., Closed], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session file that only its owner may write is held by no other user's pi; root's may hold any."""
    pi = start("pi")
    log = tmp_path / "session.jsonl"

    def seen(user: int, mode: int) -> str:
        ids = type("Ids", (), {"effective": user})
        monkeypatch.setattr(psutil.Process, "uids", lambda process: ids)
        log.chmod(mode)
        return look(pi).state

    stranger = os.getuid() + 12345
    assert [seen(stranger, 0o600), seen(stranger, 0o644), seen(stranger, 0o664)] == [
        "closed",
        "closed",
        "unknown",
    ]
    assert (seen(0, 0o600), seen(log.stat().st_uid, 0o600)) == ("unknown", "unknown")


def test_what_cannot_be_looked_at_is_not_closed(
    start: Start, look: Callable[..., Closed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that may not be read might be a pi; one whose program alone is hidden is known by its
    name."""
    pid = start("python")

    def denied(process: psutil.Process) -> str:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "exe", denied)
    assert look(pid).state == "closed"
    monkeypatch.setattr(psutil.Process, "name", denied)
    assert look(pid).state == "unknown"


def test_hidden_processes_leave_it_unknown(
    look: Callable[..., Closed], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the first process cannot be seen, others' cannot either."""
    monkeypatch.setattr(psutil, "pids", lambda: [os.getpid()])

    assert SOURCE.closed(Path("/nowhere"), "s").state == "unknown"


def test_elsewhere_than_linux_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a live pi looks was proved on Linux alone."""
    monkeypatch.setattr(sys, "platform", "darwin")

    assert SOURCE.closed(Path("/nowhere"), "s").state == "unknown"
