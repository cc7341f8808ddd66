"""A full-screen pi in a tmux of its own, to type into and to look at."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.agents.pi.conftest import Pi

PATIENCE = 30.0


class Screen:
    """What stands in the terminal, and its keys by tmux's names."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words], capture_output=True, text=True, check=False
        )
        return done.stdout

    def keys(self, *keys: str, apart: float = 0.1) -> None:
        """One after the other, as a person presses them."""
        for key in keys:
            self.tmux("send-keys", "-t", "pi", key)
            time.sleep(apart)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-t", "pi", "-l", text)
        time.sleep(0.2)

    def lines(self) -> list[str]:
        return self.tmux("capture-pane", "-p", "-t", "pi").splitlines()

    def until(self, what: str | Callable[[list[str]], bool]) -> list[str]:
        """The lines once a text is among them, or once they are as wanted."""
        end = time.monotonic() + PATIENCE
        while True:
            lines = self.lines()
            if any(what in line for line in lines) if isinstance(what, str) else what(lines):
                return lines
            assert time.monotonic() < end, "\n".join([f"not seen: {what}", *lines])
            time.sleep(0.05)


@contextlib.contextmanager
def screen(pi: Pi, columns: int, rows: int, *arguments: str) -> Iterator[Screen]:
    """From when pi shows how many checkpoints there are until the block ends."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    one = Screen(pi.agent.parent / "tmux")
    set_up = [f"{name}={value}" for name, value in pi.environment.items()]
    command = shlex.join(["env", "-i", *set_up, *pi.command, *arguments])
    size = ("-x", str(columns), "-y", str(rows))
    one.tmux("-f", "/dev/null", "new-session", "-d", *size, "-s", "pi", "-c", str(pi.project), command)
    process = int(one.tmux("list-panes", "-t", "pi", "-F", "#{pane_pid}"))
    try:
        one.until("◆")
        yield one
    finally:
        one.tmux("kill-server")
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(process).wait(PATIENCE)  # it still tells the recorder that it ends
