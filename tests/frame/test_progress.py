from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from cli import progress
from cli.main import main
from tests.flow.within import Within


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (60.0, False)])
def test_a_bar_while_files_are_written(
    patience: float, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal a rewind that takes longer than a moment shows how far it is; others do not."""
    monkeypatch.setattr(progress, "PATIENCE", patience)
    folder = tmp_path / "project"
    folder.mkdir()
    within = Within(tmp_path / "recorder", monkeypatch)
    agent = within.agent("pi", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("new.txt", "1\n"))
    terminal, out = Terminal(), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.chdir(folder), contextlib.redirect_stderr(terminal), contextlib.redirect_stdout(out):
        assert main(("rewind", "1", "--files", "--yes")) == 0

    assert ("writing files" in terminal.getvalue()) == shown
    assert list(folder.iterdir()) == []
