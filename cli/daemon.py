"""The watcher in the background: starting it, finding it, ending it.

That one runs is told by its socket, and which process it is by the system's word on who listens there;
no file is trusted for it.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from cli.hooks import ENTRY
from cli.server import address_of
from recorder.errors import Failed
from recorder.home import Home

PATIENCE = 15.0
"""Seconds in which a daemon has to come up, or to end."""
_PAUSE = 0.05


class Running(NamedTuple):
    pid: int
    since: datetime


def running(home: Path) -> Running | None:
    """The daemon of a home, or the watcher in somebody's terminal that does its work."""
    import psutil

    pid = _listener(home)
    if pid is None:
        return None
    try:
        since = datetime.fromtimestamp(psutil.Process(pid).create_time(), UTC)
    except psutil.Error:
        return None
    return Running(pid, since)


def start(home: Home) -> tuple[Running, bool]:
    """The daemon, and whether it had to be started. Raises Failed where it does not come up."""
    found = running(home.folder)
    if found is not None:
        return found, False
    process = subprocess.Popen(
        command(home.folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = running(home.folder)
        if found is not None:
            return found, found.pid == process.pid
        if process.poll() is not None and running(home.folder) is None:
            break
        time.sleep(_PAUSE)
    raise Failed(f"the daemon did not come up; {log_of(home.folder)} says why", code="not_started")


def stop(home: Path) -> Running | None:
    """End the daemon and wait for it; None where there was none. Raises Failed where it does not end."""
    found = running(home)
    if found is None:
        return None
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if _listener(home) != found.pid:
            return found
        time.sleep(_PAUSE)
    raise Failed(f"the daemon (process {found.pid}) does not end; it may be in the middle of a capture")


def command(home: Path) -> list[str]:
    """The command line of the daemon itself, the same from wherever it is started."""
    return [sys.executable, "-I", os.fspath(ENTRY), "--home", os.fspath(home), "daemon", "run"]


def log_of(home: Path) -> Path:
    """Where the daemon says what nobody is there to read."""
    return home / "daemon.log"


def _listener(home: Path) -> int | None:
    """The process that listens on a home's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(1)
        try:
            with address_of(home) as address:
                connection.connect(address)
        except OSError:
            return None
        return _peer(connection)


def _peer(connection: socket.socket) -> int | None:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return _peer_on_darwin(connection)
    size = struct.calcsize("3i")
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, size))
    return int(pid) or None


def _peer_on_darwin(connection: socket.socket) -> int | None:
    """`LOCAL_PEERPID` of sys/un.h, which Python's socket module does not name."""
    try:
        return connection.getsockopt(0, 0x002) or None
    except OSError:
        return None
