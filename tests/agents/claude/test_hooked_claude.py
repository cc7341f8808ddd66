"""A real Claude Code with the recorder's hooks in its settings: it waits for its checkpoints, so that each is
exact although the model takes no time at all; and nothing of it is seen."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.flow.conftest import Recorder, snapshot
from tests.hooks.conftest import ended

if TYPE_CHECKING:
    from tests.agents.claude.conftest import Claude, Step

pytestmark = pytest.mark.agents

PROMPTS = int(os.environ.get("RECORDER_TESTS_PROMPTS", "4"))


@pytest.fixture
def recorder(claude: Claude, tmp_path: Path) -> Iterator[Recorder]:
    """The hooks are installed; no watcher runs, and the daemon starts by itself."""
    recorder = Recorder(tmp_path / "recorder")
    recorder.environment["CLAUDE_CONFIG_DIR"] = str(claude.config)
    recorder.run("install", "claude", cwd=claude.project)
    (claude.project / "kept.txt").write_text("kept\n")
    (claude.project / "old.txt").write_text("old\n")
    yield recorder
    ended(recorder.home)


def work(project: Path, number: int) -> list[Step]:
    """A run that writes, edits by shell, deletes and makes."""
    write = ("Write", {"file_path": str(project / "written.txt"), "content": f"{number}\n"})
    shell = f"echo {number} >> kept.txt; rm -f gone*; echo x > gone{number}; mkdir -p d{number}"
    return [write, ("Bash", {"command": shell, "description": "s"}), "DONE"]


def mentions_hooks(text: str) -> bool:
    return any(word in text for word in ("_client.py", "UserPromptSubmit", "PreToolUse", "hook error"))


def test_every_checkpoint_is_exact(claude: Claude, recorder: Recorder) -> None:
    """Prompt after prompt, with a model that answers at once: each checkpoint is complete, taken by the hook,
    and going back to it gives the very state from before the prompt."""
    session, states = str(uuid4()), []
    for number in range(PROMPTS):
        states.append(snapshot(claude.project))
        told = ("--session-id" if number == 0 else "--resume", session)
        claude.ask(
            *told, "--allowedTools=Bash,Write", f"PROMPT {number}", script=work(claude.project, number)
        )
    found = recorder.wait_for(claude.project, session, PROMPTS)
    assert [(one["number"], one["state"], one["source"]) for one in found] == [
        (number, "complete", "hook") for number in range(PROMPTS, 0, -1)
    ]
    shown = recorder.json("show", str(PROMPTS), cwd=claude.project)
    assert {one["by"] for one in shown["files"]} == {"session"}
    for number in range(PROMPTS, 0, -1):
        done = recorder.json("rewind", str(number), "--files", cwd=claude.project)
        assert done["status"] == "done"
        assert snapshot(claude.project) == states[number - 1]
    sent = claude.ask("--resume", session, "LAST")
    assert not [text for text in sent if mentions_hooks(text)]


def test_a_session_without_a_log(claude: Claude, recorder: Recorder) -> None:
    """A session that keeps no transcript is recorded by the hooks' word alone, and its files go back."""
    before = snapshot(claude.project)
    claude.ask(
        "--no-session-persistence", "--allowedTools=Bash,Write", "ONLY", script=work(claude.project, 1)
    )
    found = []
    for _ in range(100):
        found = recorder.json("checkpoints", cwd=claude.project)
        if found and found[0]["changes"]["added"]:
            break
        time.sleep(0.1)
    assert [(one["prompt"], one["state"], one["source"]) for one in found] == [("ONLY", "complete", "hook")]
    recorder.json("rewind", "1", cwd=claude.project)
    assert snapshot(claude.project) == before


def test_without_the_recorder(claude: Claude, recorder: Recorder, tmp_path: Path) -> None:
    """Where the hook's program is gone the agent works on, and its conversation shows nothing."""
    settings = claude.config / "settings.json"
    settings.write_text(settings.read_text().replace("hook_client.py", "gone_client.py"))
    sent = claude.ask("--allowedTools=Bash,Write", "ONE", script=work(claude.project, 1))
    assert (claude.project / "written.txt").exists()
    assert not [text for text in sent if mentions_hooks(text)]
