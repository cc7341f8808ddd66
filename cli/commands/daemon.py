"""`recorder daemon start|stop|status`: the watcher in the background."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console

LARGEST_LOG = 1 << 20
"""Bytes of what the daemon said that are kept when it starts anew."""


def add(subparsers: Subparsers) -> None:
    from cli.options import with_json

    parser = subparsers.add_parser(
        "daemon",
        description="`recorder watch` in the background: follow the logs, take the agents' hooks, capture, "
        "run the schedule. The first hook of an agent starts it by itself.",
    )
    parser.add_argument("action", choices=("start", "stop", "status", "run"), metavar="start|stop|status")
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import home_folder

    action = {"start": _start, "stop": _stop, "status": _status, "run": _run}[arguments.action]
    return action(home_folder(arguments), arguments, console)


def _start(home: Path, arguments: argparse.Namespace, console: Console) -> int:
    from cli.daemon import start
    from cli.policy import settings
    from recorder.errors import Refused
    from recorder.home import open_home

    if not settings().enabled:
        raise Refused("the recorder is switched off (setting “enabled”)", code="disabled")
    found, new = start(open_home(home))
    words = "started" if new else "runs already"
    return _tell(arguments, console, _document(home), f"the daemon {words} (process {found.pid})")


def _stop(home: Path, arguments: argparse.Namespace, console: Console) -> int:
    from cli.daemon import stop

    found = stop(home)
    words = f"the daemon (process {found.pid}) has ended" if found else "no daemon runs"
    return _tell(arguments, console, _document(home), words)


def _status(home: Path, arguments: argparse.Namespace, console: Console) -> int:
    document = _document(home)
    if not document["running"]:
        return _tell(arguments, console, document, "no daemon runs; an agent's first hook starts it")
    words = [f"runs as process {document['pid']} since {document['since']}", f"socket  {document['socket']}"]
    words += [f"session {one}" for one in document["sessions"]]
    words += [f"tree    {one}" for one in document["work_trees"]]
    return _tell(arguments, console, document, "\n".join(words))


def _tell(arguments: argparse.Namespace, console: Console, document: dict[str, Any], words: str) -> int:
    if arguments.json:
        console.json(document)
    else:
        console.show(words)
    return 0


def _document(home: Path) -> dict[str, Any]:
    from cli.daemon import running
    from projections.listing import iso

    found = running(home)
    sessions, trees = _at_work(home) if found else ([], [])
    return {
        "running": found is not None,
        "pid": found.pid if found else None,
        "since": iso(int(found.since.timestamp() * 10**9)) if found else None,
        "socket": str(home / "socket") if found else None,
        "work_trees": trees,
        "sessions": sessions,
    }


def _at_work(home: Path) -> tuple[list[str], list[str]]:
    """The sessions with a sign of life within the last hour, and their work trees."""
    import time

    from cli.context import open_recording
    from projections.sessions import sessions
    from recorder.home import find_home

    opened = find_home(home)
    if opened is None:
        return [], []
    since = time.time_ns() - 3_600 * 10**9
    with open_recording(opened) as recording:
        lively = [one for one in sessions(recording.views.connection) if one.last_at >= since]
    trees = {one.tree_path.decode("utf-8", "replace") for one in lively if one.tree_path}
    return [one.session for one in lively], sorted(trees)


def _run(home: Path, arguments: argparse.Namespace, console: Console) -> int:
    """The daemon itself: what it has to say goes into its own log."""
    import contextlib
    import os
    import sys

    from cli.commands.watch import watch
    from cli.daemon import log_of

    (home / "starting").touch(mode=0o600)
    log = log_of(home)
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > LARGEST_LOG:
            log.replace(log.with_suffix(".log.1"))
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, sys.stderr.fileno())
    os.close(descriptor)
    return watch(home, console, paths=[], once=False)
