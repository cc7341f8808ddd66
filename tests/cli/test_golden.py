"""What people see: the terminal form of each command against files that are reviewed as diffs.

To write them anew after a change that is meant: `RECORDER_TESTS_WRITE_GOLDEN=1 pytest tests/cli`.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.flow.conftest import ENTRY, Recorder

GOLDEN = Path(__file__).parents[1] / "golden"
WRITE = os.environ.get("RECORDER_TESTS_WRITE_GOLDEN") == "1"
SESSION = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Recorder, Path]:
    """One short session in a folder: two prompts, a shell command, a person's edit in between."""
    from tests.flow.agents import Pi

    base = tmp_path_factory.mktemp("golden")
    project = base / "project"
    project.mkdir()
    (project / "app.py").write_text("print('one')\n")
    (project / "notes.md").write_text("mine\n")
    recorder = Recorder(base / "recorder")
    with recorder.watching():
        agent = Pi(recorder.pi_folder, project, SESSION)
        agent.give("Write a test for the app, please")
        time.sleep(0.8)
        agent.write("test_app.py", "import app\n")
        agent.done()
        recorder.wait_for(project, SESSION, 1)
        (project / "notes.md").write_text("mine, later\n")
        agent.give("Now clean up\nand tell me")
        time.sleep(0.8)
        agent.shell("…", lambda: _clean_up(project))
        agent.done()
        recorder.wait_for(project, SESSION, 2)
    return recorder, project


def _clean_up(project: Path) -> None:
    (project / "app.py").write_text("print('two')\n")
    (project / "test_app.py").unlink()
    (project / "report.txt").write_text("done\n")


COMMANDS = {
    "sessions": ("sessions",),
    "checkpoints": ("checkpoints",),
    "checkpoints-steps": ("checkpoints", "--steps"),
    "tree": ("tree",),
    "show": ("show", "2"),
    "diff": ("diff", "1", "2"),
    "diff-stat": ("diff", "1", "--stat"),
    "cat": ("cat", "2", "test_app.py"),
    "rewind-dry-run": ("rewind", "2", "--files", "--dry-run"),
    "prune-dry-run": ("prune", "--dry-run"),
    "no-checkpoint": ("show", "9"),
    "usage": ("rewind",),
    "help": ("--help",),
    "rewind-help": ("rewind", "--help"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_person_sees_what_was_reviewed(name: str, recorded: tuple[Recorder, Path]) -> None:
    """stdout, stderr and exit code of the command are those in its file."""
    recorder, project = recorded
    answer = recorder.run(*COMMANDS[name], cwd=project, check=None)
    seen = normal(f"{answer.out.decode()}{answer.err}exit {answer.code}\n", project)
    file = GOLDEN / f"{name}.txt"
    if WRITE:
        file.write_text(seen)

    assert file.read_text() == seen


SCREENS = {"checkpoint": ("checkpoint",), "doctor": ("doctor",)}


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_of_80_columns(name: str, recorded: tuple[Recorder, Path]) -> None:
    """What fits on a terminal is wrapped by words and tables, and no line is longer than the terminal."""
    recorder, project = recorded
    recorder.home.chmod(0o755)
    out = on_a_terminal(recorder, SCREENS[name], project)
    recorder.home.chmod(0o700)
    assert max(map(len, out.splitlines())) <= 80 and len(out.splitlines()) <= 24
    seen = re.sub(r"\d+(\.\d)? KiB", "9.9 KiB", normal(out, project))
    file = GOLDEN / f"{name}.txt"
    if WRITE:
        file.write_text(seen)

    assert file.read_text() == seen


def on_a_terminal(recorder: Recorder, words: tuple[str, ...], cwd: Path) -> str:
    """What a command shows on a terminal of 80 columns that knows no colours."""
    master, slave = pty.openpty()
    subprocess.run(
        [sys.executable, "-I", str(ENTRY), *words],
        cwd=cwd, env={**recorder.environment, "TERM": "dumb"}, stdin=subprocess.DEVNULL, stdout=slave,
        stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(slave)
    said = b""
    with contextlib.suppress(OSError):  # the terminal ends so
        while piece := os.read(master, 65536):
            said += piece
    os.close(master)
    return said.decode().replace("\r\n", "\n")


def normal(text: str, project: Path) -> str:
    """Without what differs from run to run: ids, times, places, trailing blanks."""
    text = text.replace(str(project.parent), "/base")
    text = re.sub(r"\bc[0-9a-f]{12}\b", "c0123456789ab", text)
    text = re.sub(r"\b[0-9a-f]{8}\b(?!-)", "01234567", text)
    text = re.sub(r"toolu_\w+", "toolu_x", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z)?", "2026-01-01 00:00:00", text)
    text = re.sub(r"just now|\d+ (min|s) ago", "just now", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


KEYS = {
    ("sessions",): {"id", "agent", "agent_version", "cwd", "work_tree", "name", "started_at", "last_activity",
                    "first_prompt", "checkpoints", "branches", "parent_session", "running"},
    ("checkpoints",): {"number", "id", "session", "entry_id", "parent", "prompt", "created_at",
                       "on_active_branch", "state", "source", "changes", "label", "pinned", "restorable",
                       "why_not"},
    ("tree",): {"session", "leaf", "entries"},
    ("log",): {"position", "stream", "version", "type", "time", "session", "summary", "data"},
    ("show", "1"): {"number", "id", "session", "entry_id", "parent", "prompt", "created_at",
                    "on_active_branch", "state", "source", "changes", "label", "pinned", "restorable",
                    "why_not", "files", "skipped", "unknown", "steps"},
    ("diff", "1"): {"path", "change", "old", "new"},
    ("rewind", "1", "--dry-run"): {"status", "operation", "session", "checkpoint", "place", "files",
                                   "conversation", "warnings", "failed", "undo"},
    ("prune", "--dry-run"): {"retired", "kept", "freed_bytes"},
    ("checkpoint",): {"recorded", "kind", "how", "work_tree", "session", "checkpoints", "steps", "recent",
                      "store", "retention_days", "max_checkpoints", "last_failure", "can_undo", "why",
                      "notes"},
    ("doctor",): {"problems", "fixed"},
    ("config",): {"key", "value", "from", "file"},
}  # fmt: skip


@pytest.mark.parametrize("words", KEYS, ids=lambda words: words[0])
def test_documents_have_the_promised_keys(words: tuple[str, ...], recorded: tuple[Recorder, Path]) -> None:
    """--json prints one document, alone on stdout, with the keys that the contract names."""
    recorder, project = recorded
    document: Any = json.loads(recorder.run(*words, "--json", cwd=project).out)
    one = document[0] if isinstance(document, list) else document

    assert set(one) == KEYS[words]


def test_the_contract_names_every_command() -> None:
    """No command is missing in the contract or in the overview of the README's page."""
    from cli.main import COMMANDS as commands

    contract = (Path(__file__).parents[2] / "docs" / "CLI.md").read_text()
    missing = [
        name for name in commands if f"`recorder {name}" not in contract and f"`{name}`" not in contract
    ]

    assert missing == []
