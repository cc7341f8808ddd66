"""`recorder watch`: follow the agents' logs, capture at every prompt, run the schedule."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.context import Recording
    from cli.options import Subparsers
    from cli.output import Console
    from recorder.errors import LogFailure

RETRY_SECONDS = 5.0
"""How long to wait when the log cannot take what was read (a full disk, say) before it is offered again."""
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
    from cli.context import home_folder, open_recording
    from cli.policy import settings
    from recorder.home import open_home

    if not settings().enabled:
        console.note("recorder: it is switched off (setting “enabled”); nothing is recorded")
        return 0
    home = open_home(home_folder(arguments))
    with home.lock("watch", timeout=PROBED_SECONDS), open_recording(home) as recording:
        _Watch(recording, arguments, console).run()
    return 0


class _Watch:
    """One watcher: reads, appends, captures, in one thread, until it is told to stop."""

    def __init__(self, recording: Recording, arguments: argparse.Namespace, console: Console) -> None:
        from recorder.reading.follow import Follower, all_roots
        from recorder.reading.ingest import Ingest
        from recorder.sources import all_sources

        self._recording, self._console = recording, console
        self._once = arguments.once
        sources = all_sources()
        paths = [path.expanduser().absolute() for path in arguments.paths]
        roots = all_roots(sources, os.environ, Path.home(), paths)
        self._follower = Follower(sources, recording.log, roots)
        self._ingest = Ingest(recording.log, sources)
        self._stop = threading.Event()
        self._sweep_due = threading.Event()

    def run(self) -> None:
        from cli.reactor import reactor_of, recover_and_tell
        from projections.capture import UNWATCHED, warm_up

        recover_and_tell(self._recording)
        self._take_signals()
        if not self._once:
            warm_up()
        with self._follower, reactor_of(self._recording, answers_others=True) as self._reactor:
            self._round()
            self._reactor.catch_up(UNWATCHED)
            self._console.note("ready")
            if not self._once:
                self._keep_on()

    def _keep_on(self) -> None:
        from projections.schedule import Schedule

        with Schedule(self._mark_sweep):
            while not self._stop.is_set():
                self._follower.wait()
                if not self._stop.is_set():
                    self._round()
                while not self._stop.is_set() and self._captured_step():
                    self._round()
                if self._sweep_due.is_set():
                    self._sweep()

    def _round(self) -> None:
        """Everything new is read and answered. What the log cannot take now is offered again later."""
        from recorder.errors import LogFailure
        from recorder.reading.logfile import NotALog

        try:
            for piece in self._follower.poll():
                if isinstance(piece, NotALog):
                    self._console.note(f"recorder: {piece.why}")
                    continue
                outcome = self._ingest.take(*piece)
                self._reactor.react(outcome.facts)
                if self._stop.is_set():
                    return
            self._reactor.react(())
        except LogFailure as error:
            if self._once:
                raise
            self._pause(error)

    def _captured_step(self) -> bool:
        """Nothing waits now: whether there was a step to capture."""
        from recorder.errors import LogFailure

        try:
            return self._reactor.capture_step() is not None
        except LogFailure as error:
            self._pause(error)
            return False

    def _pause(self, error: LogFailure) -> None:
        self._console.note(f"recorder: {error.message}")
        self._stop.wait(RETRY_SECONDS)

    def _sweep(self) -> None:
        from cli.commands.prune import run_retention

        self._sweep_due.clear()
        _, problems = run_retention(self._recording, dry_run=False)
        for problem in problems:
            self._console.note(f"recorder: {problem}")

    def _mark_sweep(self) -> None:
        self._sweep_due.set()
        self._follower.wake()

    def _take_signals(self) -> None:
        def stop(*_: object) -> None:
            self._stop.set()
            self._follower.wake()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGHUP, stop)
