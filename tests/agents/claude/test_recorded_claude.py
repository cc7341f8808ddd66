"""A real Claude Code beside a watching recorder: what it did to files is known by prompt, and files and
conversation go back and forth."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from tests.flow.conftest import Recorder, snapshot

if TYPE_CHECKING:
    from tests.agents.claude.conftest import Claude

pytestmark = pytest.mark.agents

THINKING = 0.7


@pytest.fixture
def recorder(claude: Claude, tmp_path: Path) -> Recorder:
    recorder = Recorder(tmp_path / "recorder")
    recorder.environment["CLAUDE_CONFIG_DIR"] = str(claude.config)
    claude.model.look = lambda: time.sleep(THINKING)
    (claude.project / "kept.txt").write_text("kept\n")
    (claude.project / "old.txt").write_text("old\n")
    return recorder


def said(sent: list[str]) -> list[str]:
    """Without what the agent puts into the conversation itself."""
    return [text for text in sent if text.isupper()]


def test_a_session_goes_back_and_forth(claude: Claude, recorder: Recorder) -> None:
    """Edits by tools, a child agent and the shell; the resumed conversation goes on from where it was
    brought, and again from the end when that is undone."""
    project, session = claude.project, str(uuid4())
    child = {"description": "c", "prompt": "CHILD", "subagent_type": "general-purpose"}
    new = ("Write", {"file_path": str(project / "new.txt"), "content": "new\n"})
    by_child = ("Write", {"file_path": str(project / "child.txt"), "content": "child\n"})
    shell = ("Bash", {"command": "rm old.txt; mv new.txt moved.txt; chmod 600 kept.txt", "description": "s"})
    states = [snapshot(project)]
    with recorder.watching():
        claude.ask("--session-id", session, "--allowedTools=Bash,Write,Agent", "FIRST", script=[new, "DONE"])
        recorder.wait_for(project, session, 1)
        states.append(snapshot(project))
        (project / "mine.txt").write_text("by hand\n")
        claude.ask(
            "--resume", session, "--allowedTools=Bash,Write,Agent", "SECOND",
            script=[shell, ("Agent", child), by_child, "CHILD DONE", "DONE TOO"],
        )  # fmt: skip
        recorder.wait_for(project, session, 2)
        states.append(snapshot(project))

        shown = recorder.json("show", "2", cwd=project)
        assert shown["state"] == "complete"
        assert {one["path"]: one["by"] for one in shown["files"]} == dict.fromkeys(
            ["child.txt", "kept.txt", "moved.txt", "new.txt", "old.txt"], "session"
        )
        done = recorder.json("rewind", "2", cwd=project)
        assert (done["status"], done["conversation"]["status"]) == ("done", "done")
        assert snapshot(project) == states[1] | {"mine.txt": states[2]["mine.txt"]}
        assert said(claude.ask("--resume", session, "THIRD")) == ["FIRST", "DONE", "THIRD"]
        recorder.wait_for(project, session, 3)
        assert [one["number"] for one in recorder.json("checkpoints", cwd=project)] == [3, 1]

        recorder.json("rewind", "--undo", cwd=project)
        assert snapshot(project) == states[2]
        sent = said(claude.ask("--resume", session, "FOURTH"))
        assert sent[:2] == ["FIRST", "DONE"] and sent[-1] == "FOURTH" and "THIRD" not in sent
        # The child may run beside its parent: either of them may have been given either last answer.
        assert sent[-2] in ("DONE TOO", "CHILD DONE")


def test_an_open_session_is_left_to_the_agent(claude: Claude, recorder: Recorder) -> None:
    """While the model thinks nothing is taken back."""
    session = str(uuid4())
    new = ("Write", {"file_path": str(claude.project / "new.txt"), "content": "new\n"})
    with recorder.watching():
        claude.ask("--session-id", session, "FIRST", script=[new, "DONE"])
        recorder.wait_for(claude.project, session, 1)
        claude.model.free.clear()
        claude.model.asked.clear()
        process = claude.start("--resume", session, "SLOW")
        try:
            assert claude.model.asked.wait(60)
            recorder.wait_for(claude.project, session, 2, settled=False)
            refused = recorder.json("rewind", "1", cwd=claude.project, check=4)
        finally:
            process.kill()
            process.communicate()
    assert refused["error"]["code"] == "running"
    assert (claude.project / "new.txt").exists()
