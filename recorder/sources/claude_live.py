"""Whether a session is open in a live Claude Code, by the agent's own registry.

Every process keeps `<config>/sessions/<pid>.json` while it runs, in every mode (measured: 2.1.197 and
2.1.332, terminal and `-p`). `procStart` is the process's start time as Linux counts it, so a pid that was
given out again is known; `pidDomain` (newer ones) names the machine and the pid namespace. The key
files beside the entries are secrets and are never opened.
"""

from __future__ import annotations

import os
import re
import sys
import time
from pathlib import Path

import msgspec

from recorder.sources.base import Closed
from recorder.sources.claude_tools import version_of

REGISTERS = (2, 1, 197)
"""The oldest version that is known to register."""

_INSTEAD = "close it, or type /rewind in it, choose the prompt there and restore the conversation"

GREW_NS = 60_000_000_000
_TAIL = 256 * 1024
_VERSION = re.compile(rb'"version":"(\d+(?:\.\d+)+)"')


class _Entry(msgspec.Struct, rename="camel"):
    pid: int
    session_id: str
    proc_start: str | int | None = None
    pid_domain: str | None = None
    status: str | None = None


_entry = msgspec.json.Decoder(_Entry)


def closed(log: Path, session: str) -> Closed:
    """`open` where a live process has the session, `closed` where the registry proves that none has."""
    config = config_of(log)
    if config is None:
        return Closed("unknown", f"{log} does not lie in an agent's own folder, so no registry tells")
    try:
        entries, unread = _entries(config / "sessions")
    except OSError as error:
        return Closed("unknown", f"the registry {config / 'sessions'} cannot be read: {error.strerror}")
    signs = [_sign(entry, log) for entry in entries if entry.session_id == session]
    for state in ("open", "unknown"):
        for sign in signs:
            if sign.state == state:
                return sign
    if unread:
        return Closed("unknown", f"an entry of the registry cannot be read: {unread[0]}")
    return _unregistered(log)


def config_of(log: Path) -> Path | None:
    """The agent's folder that a log lies in: `<config>/projects/<project>/…`."""
    folders = log.absolute().parents
    return next((folder.parent for folder in folders if folder.name == "projects"), None)


def start_of(pid: int) -> str | None:
    """When a process began, in ticks since the machine started (field 22 of Linux's `stat`); None where it
    is gone or has ended, empty where it lives and that cannot be told."""
    if pid <= 0 or not _exists(pid):
        return None
    if not sys.platform.startswith("linux"):
        return ""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except ProcessLookupError:
        return None
    except OSError:
        return ""
    return None if fields[0] in "ZX" else fields[19]


def domain_here() -> str | None:
    """This machine and pid namespace, as newer versions write them; None where they cannot be told."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        return None
    return f"linux:{machine}:{namespace}"


def _entries(folder: Path) -> tuple[list[_Entry], list[Path]]:
    """What is registered, and the entries that could not be read. Raises OSError."""
    entries: list[_Entry] = []
    unread: list[Path] = []
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return [], []
    for path in paths:
        if path.suffix != ".json":
            continue
        try:
            entries.append(_entry.decode(path.read_bytes()))
        except FileNotFoundError:
            continue
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            unread.append(path)
    return entries, unread


def _sign(entry: _Entry, log: Path) -> Closed:
    """What one entry for the session says of it."""
    here = domain_here()
    if entry.pid_domain is not None and entry.pid_domain.startswith("linux:") and entry.pid_domain != here:
        return Closed("unknown", f"process {entry.pid}, on another machine or in a container, has it open")
    began = start_of(entry.pid)
    expected = "" if entry.proc_start is None else str(entry.proc_start)
    if began is not None and (not began or not expected or began == expected):
        busy = entry.status == "busy" if entry.status is not None else None
        return Closed("open", f"Claude Code has it open (process {entry.pid}); {_INSTEAD}", busy)
    if entry.pid_domain is None and _grew(log):
        return Closed(
            "unknown",
            f"process {entry.pid}, which has it open, does not run here, yet the log grew within the last "
            "minute: it may run elsewhere (in a container)",
        )
    return Closed("closed", f"process {entry.pid}, which had it open, has ended")


def _unregistered(log: Path) -> Closed:
    version = _last_version(log)
    if version is None:
        return Closed("unknown", "the log does not tell which version wrote it last, so it may not register")
    if version_of(version) < REGISTERS:
        return Closed("unknown", f"Claude Code {version} is not known to register its sessions")
    return Closed("closed", f"Claude Code {version} registers each session, and none has this one open")


def _last_version(log: Path) -> str | None:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            tail = file.read()
            found = _VERSION.findall(tail)
            if not found:
                file.seek(0)
                found = _VERSION.findall(file.read(_TAIL))
    except OSError:
        return None
    return found[-1].decode() if found else None


def _grew(log: Path) -> bool:
    try:
        return abs(time.time_ns() - log.stat().st_mtime_ns) < GREW_NS
    except OSError:
        return False


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False
    except PermissionError:
        return True
    return True
