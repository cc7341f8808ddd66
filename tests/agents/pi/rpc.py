"""A pi that is driven by its own protocol: JSON lines on its standard input and output."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.agents.pi.conftest import Pi

PATIENCE = 60.0

Event = dict[str, Any]


class Rpc:
    """One pi in rpc mode. `seen` is every line that it wrote."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: list[Event] = []
        self._lines: queue.Queue[Event] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self._lines.put(json.loads(line))

    def send(self, kind: str, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"type": kind, **fields}) + "\n")
        self.process.stdin.flush()

    def until(self, holds: Callable[[Event], bool]) -> Event:
        """The next line that is what is waited for."""
        end = time.monotonic() + PATIENCE
        while True:
            event = self._lines.get(timeout=max(0.01, end - time.monotonic()))
            self.seen.append(event)
            if holds(event):
                return event

    def prompt(self, text: str) -> None:
        """Give one prompt and wait until the run is over."""
        self.send("prompt", message=text)
        self.until(lambda event: event["type"] == "agent_end")
        self.state()

    def state(self) -> Event:
        """pi's own word on itself, once it does nothing."""
        end = time.monotonic() + PATIENCE
        while True:
            self.send("get_state")
            state: Event = self.until(lambda event: event.get("command") == "get_state")["data"]
            if not state["isStreaming"]:
                return state
            assert time.monotonic() < end
            time.sleep(0.02)


@contextlib.contextmanager
def rpc(pi: Pi, *arguments: str) -> Iterator[Rpc]:
    """A pi that ends with the block, as it ends when its caller goes away."""
    with subprocess.Popen(
        [*pi.command, "--mode", "rpc", *arguments],
        cwd=pi.project,
        env=pi.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Rpc(process)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=20)
        finally:
            process.kill()
