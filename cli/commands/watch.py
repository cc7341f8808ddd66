"""`recorder watch`: follow the agents' logs, capture at every prompt, run the schedule."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console

PROBED_SECONDS = 0.5
"""Who asks whether a watcher runs holds its lock for an instant."""


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "watch",
        description="Follow the session logs of every agent, or the given files and folders, and capture the "
        "work tree at every prompt. Prints “ready” on stderr when it follows everything that there is.",
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        type=Path,
        help="logs or folders of logs, which need not exist yet",
    )
    parser.add_argument("--once", action="store_true", help="catch up and leave")


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.context import home_folder

    paths = [path.expanduser().absolute() for path in arguments.paths]
    return watch(home_folder(arguments), console, paths=paths, once=arguments.once)


def watch(folder: Path, console: Console, *, paths: Sequence[Path], once: bool) -> int:
    """Watch as the only one of a home, until told to stop."""
    from cli.context import open_recording
    from cli.policy import settings
    from cli.watching import Watching
    from recorder.home import open_home

    if not settings().enabled:
        console.note("recorder: it is switched off (setting “enabled”); nothing is recorded")
        return 0
    home = open_home(folder)
    with home.lock("watch", timeout=PROBED_SECONDS), open_recording(home) as recording:
        Watching(recording, console.note, paths, once=once).run()
    return 0
