"""Faults at any effect that a piece of code has: in a forked child it is killed there, or the disk is full
from there on.

    at = 0
    while killed(at, lambda: do_it(tmp_path)):
        ...                      # what a kill before effect number `at` left: look at it, and mend it
        at += 1

Effects are what the interpreter tells by itself (files opened for writing, renames, removals, folders, links,
modes, processes started, SQL statements that write), and every write (in two halves) and sync. What it does
not tell, such as a call through `ctypes`, is counted where the code is handed `effect` as a hook of its own.
Open stores, logs and connections inside `run`, never before the fork.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import resource
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable
from typing import Any

_TOLD = {
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.chown",
    "os.truncate",
    "os.utime",
    "os.setxattr",
    "os.removexattr",
    "subprocess.Popen",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_TAKES_ROOM = {"open", "write", "sync", "os.mkdir", "os.rename", "os.link", "os.symlink"}

_hooks: list[Callable[[str], None]] = []
"""What happens at an effect; only a child has any."""


def effect(name: str) -> None:
    """Count an effect that the interpreter does not tell; called before the effect."""
    for hook in _hooks:
        hook(name)


def killed(at: int, run: Callable[[], object]) -> bool:
    """Run in a child that is killed before its effect number `at` (from 0); False where it came to its end
    with fewer. Fails where `run` raised."""

    def kill(_: str) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    return _in_child(run, at, kill)


def out_of_room(at: int, run: Callable[[], object]) -> bool:
    """Run in a child that finds the disk full from its effect number `at` on, the programs that it starts
    too; False where it came to its end with fewer. Fails where `run` raised: what it is to raise it catches
    itself."""

    def full(name: str) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        if name in _TAKES_ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        return _in_child(run, at, full)
    finally:
        signal.signal(signal.SIGXFSZ, before)


def effects(run: Callable[[], object]) -> list[str]:
    """The names of all effects of `run`, in order; it runs to its end in a child."""
    told, tell = os.pipe()
    write = os.write
    _in_child(run, 0, lambda name: write(tell, name.encode() + b"\n") and None)
    os.close(tell)
    with os.fdopen(told, "rb") as pipe:
        return pipe.read().decode().split("\n")[:-1]


_REACHED = 3


def _in_child(run: Callable[[], object], at: int, act: Callable[[str], None]) -> bool:
    """Do something at an effect of `run` and at all that follow it; whether it came to that effect."""
    child = os.fork()
    if child == 0:
        status, count = 1, 0

        def reached(name: str) -> None:
            nonlocal count
            count += 1
            if count > at:
                act(name)

        try:
            _watch(reached)
            run()
            status = _REACHED if count > at else 0
        except BaseException:  # noqa: BLE001 (told by the status; the parent's stack is never unwound)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            traceback.print_exc(limit=-20)
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL, status
        return True
    assert os.WEXITSTATUS(status) in (0, _REACHED), "the child's traceback is in the captured output"
    return os.WEXITSTATUS(status) == _REACHED


# ---- in the child


def _watch(reached: Callable[[str], None]) -> None:
    sys.dont_write_bytecode = True
    real_write, real_open, connect = os.write, io.open, sqlite3.connect

    def write(descriptor: int, content: Any) -> int:
        reached("write")
        half = memoryview(content).cast("B")[: len(content) // 2]
        done = real_write(descriptor, half) if half else 0
        if done < len(half):
            return done
        reached("write")
        return done + real_write(descriptor, memoryview(content).cast("B")[len(half) :])

    class Written(io.FileIO):
        def write(self, content: Any) -> int:
            return write(self.fileno(), content)

    def opened(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if "b" not in mode or not set(mode) & set("wax+") or "opener" in options:
            return real_open(file, mode, *rest, **options)
        raw = Written(file, mode.replace("b", ""), closefd=options.get("closefd", True))
        return io.BufferedRandom(raw) if raw.readable() else io.BufferedWriter(raw)

    def connected(*rest: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*rest, **options)
        connection.set_trace_callback(lambda said: reached("sql") if _changes(said) else None)
        return connection

    def synced(_: int) -> None:
        """A kill loses nothing that was written, so that no time is spent on making it durable."""
        reached("sync")

    os.write, io.open, builtins.open = write, opened, opened  # type: ignore[assignment]
    sqlite3.connect = connected  # type: ignore[assignment]
    os.fsync = os.fdatasync = synced  # type: ignore[assignment]
    _hooks.append(reached)
    sys.addaudithook(_told(reached))


def _changes(statement: str) -> bool:
    return not statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "--"))


def _told(reached: Callable[[str], None]) -> Callable[[str, tuple[Any, ...]], None]:
    def told(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not isinstance(arguments[0], int) and arguments[2] & _WRITING:
            reached("open")
        elif event in _TOLD:
            reached(event)

    return told
