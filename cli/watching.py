"""The watcher: reads the agents' logs, hears their hooks, captures, runs the schedule; in one thread.

`recorder watch` runs it in a terminal, `recorder daemon` in the background. What waits for an answer
comes first: hooks before lines of logs, lines before steps.
"""

from __future__ import annotations

import contextlib
import os
import signal as system_signals
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cli.server import Server, Understand, understand_with
from cli.spool import spooled
from recorder.errors import LogFailure, RecorderError

if TYPE_CHECKING:
    from cli.context import Recording
    from recorder.reading.follow import Piece
    from recorder.sources.base import Signal

RETRY_SECONDS = 5.0
"""How long to wait when the log cannot take what was read (a full disk, say) before it is offered again."""


class Watching:
    """One watcher, until it is told to stop. `tell` takes what a person should read."""

    def __init__(
        self, recording: Recording, tell: Callable[[str], None], paths: Sequence[Path], *, once: bool
    ) -> None:
        from recorder.reading.follow import Follower, all_roots
        from recorder.reading.ingest import Ingest
        from recorder.sources import all_sources

        self._recording, self._tell, self._once = recording, tell, once
        sources = all_sources()
        roots = all_roots(sources, os.environ, Path.home(), paths)
        self._follower = Follower(sources, recording.log, roots)
        self._ingest = Ingest(recording.log, sources)
        self._understand = understand_with({source.agent: source.signal for source in sources})
        self._server: Server | None = None
        self._stop = threading.Event()
        self._sweep_due = threading.Event()

    def run(self) -> None:
        from cli.reactor import reactor_of, recover_and_tell
        from projections.capture import warm_up

        recover_and_tell(self._recording)
        self._take_system_signals()
        if not self._once:
            warm_up()
        with self._follower, reactor_of(self._recording, answers_others=True) as self._reactor:
            if self._once:
                self._start()
                return
            with self._listening(self._understand) as self._server:
                self._start()
                self._keep_on()

    @contextlib.contextmanager
    def _listening(self, understand: Understand) -> Iterator[Server]:
        home = self._recording.home.folder
        with Server(home, understand, self._follower.wake) as server:
            with contextlib.suppress(FileNotFoundError):
                (home / "starting").unlink()
            yield server

    def _start(self) -> None:
        self._hear_spooled()
        self._round()
        self._reactor.catch_up("it was given before the recorder watched")
        self._tell("ready")

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

    # ---- logs

    def _round(self) -> None:
        """Everything new is heard, read and answered. What the log cannot take now is offered again later."""
        try:
            self._hear_all()
            for piece in self._follower.poll():
                self._take(piece)
                self._hear_all()
                if self._stop.is_set():
                    return
            self._reactor.react(())
        except LogFailure as error:
            if self._once:
                raise
            self._pause(error)

    def _take(self, piece: Piece) -> None:
        from recorder.reading.logfile import NotALog

        if isinstance(piece, NotALog):
            self._tell(f"recorder: {piece.why}")
            return
        self._reactor.react(self._ingest.take(*piece).facts)

    # ---- hooks

    def _hear_all(self) -> None:
        if self._once:
            return
        self._hear_spooled()
        for asked in self._server.asked() if self._server else ():
            try:
                self._hear(asked.frame.agent, asked.signal)
            finally:
                asked.answer(b"")

    def _hear_spooled(self) -> None:
        """Whether an agent still waits for what lies there is not known: it may have gone on at once."""
        for frame in spooled(self._recording.home.folder):
            signal = self._understand(frame)
            if signal is not None:
                self._hear(frame.agent, msgspec.structs.replace(signal, deadline=signal.at))

    def _hear(self, agent: str, signal: Signal) -> None:
        """What the session's log says by now is read first, but for what may stand there of a prompt that is
        still to be heard: its own word comes before its line. A call begins when the agent goes on."""
        from recorder.events import session_stream

        stream = session_stream(agent, signal.session)
        try:
            if signal.kind not in ("start", "prompt"):
                self._read_log_of(signal)
            if signal.kind == "call":
                self._reactor.hear(stream, signal, self._ingest.run_of(agent, signal.session))
                self._reactor.react(self._ingest.take_signal(agent, _begun(signal)))
            else:
                self._reactor.react(self._ingest.take_signal(agent, signal))
                self._reactor.hear(stream, signal, self._ingest.run_of(agent, signal.session))
        except RecorderError as error:
            self._tell(f"recorder: {error.message}")

    def _read_log_of(self, signal: Signal) -> None:
        expected = self._server is not None and self._server.has_prompt(signal.session)
        if signal.log is not None and not expected:
            for piece in self._follower.read(os.fspath(signal.log)):
                self._take(piece)

    # ---- the rest

    def _captured_step(self) -> bool:
        """Nothing waits now: whether there was a step to capture."""
        try:
            return self._reactor.capture_step() is not None
        except LogFailure as error:
            self._pause(error)
            return False

    def _pause(self, error: LogFailure) -> None:
        self._tell(f"recorder: {error.message}")
        self._stop.wait(RETRY_SECONDS)

    def _sweep(self) -> None:
        from cli.commands.prune import run_retention

        self._sweep_due.clear()
        _, problems = run_retention(self._recording, dry_run=False)
        for problem in problems:
            self._tell(f"recorder: {problem}")

    def _mark_sweep(self) -> None:
        self._sweep_due.set()
        self._follower.wake()

    def _take_system_signals(self) -> None:
        def stop(*_: object) -> None:
            self._stop.set()
            self._follower.wake()

        for number in (system_signals.SIGTERM, system_signals.SIGINT, system_signals.SIGHUP):
            system_signals.signal(number, stop)


def _begun(call: Signal) -> Signal:
    """A call that waited begins now, or where the agent went on without an answer."""
    return msgspec.structs.replace(call, at=min(time.time_ns(), call.deadline))
