"""The recorder within this process, on a home of its own: the same commands and parts, without the starts."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import going_back
from cli.context import Recording, open_recording
from cli.main import main
from cli.reactor import reactor_of
from projections.capture import CaptureReactor
from projections.views import Views
from recorder.events import Fact
from recorder.home import open_home
from recorder.log import Stored
from recorder.reading.ingest import Ingest
from recorder.reading.logfile import LogFile, log_file
from recorder.reading.tail import opened
from recorder.sources import all_sources
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import Answer

APART = 0.06
"""Seconds between what different people do: times that are nearer count as the same."""


class Within:
    """Commands, a watcher that looks when it is told to, and agents' folders, below `base`."""

    def __init__(self, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base = base
        self._told = 0
        self.home = base / "home"
        self.pi_folder, self.claude_folder = base / "pi", base / "claude"
        for name, folder in (
            ("RECORDER_HOME", self.home),
            ("PI_CODING_AGENT_DIR", self.pi_folder),
            ("CLAUDE_CONFIG_DIR", self.claude_folder),
        ):
            monkeypatch.setenv(name, str(folder))

    def agent(self, kind: str, folder: Path) -> Pi | Claude:
        return Pi(self.pi_folder, folder) if kind == "pi" else Claude(self.claude_folder, folder)

    def run(self, *words: str, cwd: Path, check: int | None = 0) -> Answer:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
        with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        answer = Answer(code, out.buffer.getvalue(), err.getvalue())  # type: ignore[attr-defined]
        if check is not None:
            assert answer.code == check, f"{words}: {answer}"
        return answer

    def json(self, *words: str, cwd: Path, check: int | None = 0) -> Any:
        return self.run(*words, "--json", cwd=cwd, check=check).json

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recording]:
        with open_recording(open_home(self.home)) as recording:
            yield recording

    @contextlib.contextmanager
    def watching(self) -> Iterator[Watcher]:
        with self.recording() as recording, reactor_of(recording) as reactor:
            yield Watcher(recording, reactor)

    def news(self) -> list[Fact]:
        """The facts since this was last asked."""
        with self.recording() as recording:
            found = whole(recording, after=self._told)
        self._told = found[-1].position if found else self._told
        return [one.fact for one in found]


class Watcher:
    """Reads what agents wrote when it is told to look, and answers it."""

    def __init__(self, recording: Recording, reactor: CaptureReactor) -> None:
        self.recording = recording
        self.reactor = reactor
        self.steps = False
        """Whether it has time for the steps of a run."""
        self._ingest = Ingest(recording.log, all_sources())
        self._files: dict[Path, LogFile] = {}

    def look(self, agent: Pi | Claude) -> None:
        with opened(str(agent.log)) as content:
            file = self._files.get(agent.log) or log_file(
                str(agent.log), content, self.recording.log, all_sources()
            )
            assert file is not None
            self._files[agent.log] = file
            for lines in file.read(content, live=True):
                self.reactor.react(self._ingest.take(file, lines).facts)
        while self.steps and self.reactor.capture_step() is not None:
            pass

    def prompt(
        self, agent: Pi | Claude, text: str, *acts: Callable[[Pi | Claude], object], apart: float = APART
    ) -> str:
        """A run: the prompt is captured, then the tools act, then the run settles and is captured."""
        entry = agent.give(text)
        self.look(agent)
        for act in acts:
            time.sleep(apart)
            act(agent)
            self.look(agent)
        agent.done()
        self.look(agent)
        return entry


def whole(recording: Recording, *, after: int = 0) -> list[Stored]:
    """Every stored fact behind a position, in log order."""
    found: list[Stored] = []
    while page := recording.log.read(after=found[-1].position if found else after):
        found += page
    return found


def rows(views: Views) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every view but the position's."""
    connection = views.connection
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    names = [row["name"] for row in tables if not row["name"].startswith("sqlite_")]
    return {
        name: sorted(map(tuple, connection.execute(f"SELECT * FROM {name}")), key=repr)
        for name in names
        if name != "folded"
    }


def killed(at: int, words: tuple[str, ...], cwd: Path) -> tuple[bool, str]:
    """Run a going-back command in a child that is killed at its step number `at`.

    Returns whether it was, and the name of the last step. The order of steps is the same each time.
    """
    names, name = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(names)
        _run_and_die(at, words, cwd, name)
    os.close(name)
    with open(names, "rb") as said:
        steps = said.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status):
        assert os.WEXITSTATUS(status) == 0, steps[-1:]
    return os.WIFSIGNALED(status), steps[-1]


def _run_and_die(at: int, words: tuple[str, ...], cwd: Path, name: int) -> None:
    status, count = 99, 0
    carry_out = going_back.carry_out

    def before_step(step: str) -> None:
        nonlocal count
        os.write(name, step.encode() + b"\n")
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1

    def carry_out_and_die(*arguments: Any, **options: Any) -> Any:
        return carry_out(*arguments, **options, before_step=before_step)

    try:
        going_back.carry_out = carry_out_and_die  # type: ignore[assignment]
        os.chdir(cwd)
        sys.stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
        status = main(words)
    finally:
        os._exit(status)
