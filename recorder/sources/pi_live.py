"""Whether a session file is open in a live pi on this machine.

pi keeps no registry of its sessions, no lock and no open file. What it has, in every mode (terminal, rpc,
print) of 0.73.1, 0.74.2 and 1.6.0, is its process title `pi`, and before that is set the command line
that started it. Which of its sessions such a process has open cannot be seen; so a session is closed
where no pi is alive that could write to its file. Machines that share the file over a network, and pi
inside a program of another name, are beyond what can be seen from here.
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from recorder.sources.base import Closed

if TYPE_CHECKING:
    import psutil

_TITLES = frozenset({"pi", "pi-rpc"})
_RUNTIMES = frozenset({"node", "nodejs", "bun", "deno", "electron"})
_PACKAGE = "pi-coding-agent"
_INSTEAD = "close it, or type /tree in it and choose the prompt there"


def closed(log: Path, session: str) -> Closed:
    """`open` where a live pi shows that it has the session, `unknown` where one might."""
    if not sys.platform.startswith("linux"):
        return Closed("unknown", "whether pi runs can be proved on Linux only")
    import psutil

    pids = psutil.pids()
    if 1 not in pids:
        return Closed("unknown", "the processes of other users are hidden on this machine")
    might: list[str] = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if not _is_pi(process) or not _may_write(process, log):
                continue
            if _shows(process, session):
                return Closed("open", f"pi has it open (process {pid}); {_INSTEAD}")
            might.append(f"process {pid}{_place(process)}")
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            might.append(f"process {pid}, which cannot be looked at")
    if might:
        return Closed(
            "unknown", f"pi runs and does not tell which session it has open ({'; '.join(might)}); {_INSTEAD}"
        )
    return Closed("closed", "no pi runs that could write to the session file")


def is_pi(name: str, program: str | None, arguments: list[str]) -> bool:
    """Whether a process can be a pi, by its name, its program (None where that cannot be read) and its
    command line. A runtime of JavaScript that starts pi's package counts: it gets its title later."""
    words = [PurePosixPath(word).name for word in arguments]
    runs = PurePosixPath(program).name if program else ""
    if _TITLES & {name, runs, *words[:1]}:
        return True
    if runs and runs not in _RUNTIMES:
        return False
    return any(word in _TITLES for word in words) or any(_PACKAGE in argument for argument in arguments)


def _is_pi(process: psutil.Process) -> bool:
    import psutil

    try:
        program = process.exe()
    except psutil.AccessDenied:
        program = None
    alive = process.status() != psutil.STATUS_ZOMBIE
    return alive and is_pi(process.name(), program, process.cmdline())


def _may_write(process: psutil.Process, log: Path) -> bool:
    """Another user's pi that may not write to the file does not hold it."""
    user = process.uids().effective
    try:
        status = log.stat()
    except OSError:
        return True
    shared = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return user in (0, status.st_uid) or shared


def _shows(process: psutil.Process, session: str) -> bool:
    """Since 1.x the commands that the model runs have the session's id in their environment."""
    import psutil

    for child in process.children(recursive=True):
        try:
            if child.environ().get("PI_SESSION_ID") == session:
                return True
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return False


def _place(process: psutil.Process) -> str:
    import psutil

    try:
        return f" in {process.cwd()}"
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return f" of user {process.uids().effective}"
