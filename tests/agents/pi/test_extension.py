"""The recorder's extension inside real pi releases: what it records, and that it never stands in pi's way."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from cli.daemon import running
from tests.agents.pi.rpc import rpc
from tests.flow.conftest import Recorder, snapshot
from tests.flow.within import Within
from tests.hooks.conftest import ended

if TYPE_CHECKING:
    from tests.agents.pi.conftest import Pi

pytestmark = pytest.mark.agents

ROUNDS = int(os.environ.get("RECORDER_TESTS_ROUNDS", "20"))

BUDGET_MS = "20000"
"""This machine may be busy; nothing here is to be given up."""

Wait = Callable[[Callable[[], object]], None]


@pytest.fixture
def recorder(pi: Pi, tmp_path: Path) -> Iterator[Recorder]:
    """A home with the extension installed for it, and no daemon yet."""
    recorder = Recorder(tmp_path / "recorder")
    recorder.environment |= {
        "PI_CODING_AGENT_DIR": str(pi.agent),
        "RECORDER_HOOK_BUDGET_MS": BUDGET_MS,
        "HOME": str(tmp_path),
    }
    recorder.run("install", "pi", cwd=pi.project)
    yield recorder
    ended(recorder.home)


@pytest.fixture
def within(recorder: Recorder, pi: Pi, monkeypatch: pytest.MonkeyPatch) -> Within:
    within = Within(recorder.base, monkeypatch)
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(pi.agent))
    return within


def turns(*what: list[list[Any]]) -> str:
    return "@@" + msgspec.json.encode(what).decode()


def write(path: str, content: str) -> list[Any]:
    return ["write", {"path": path, "content": content}]


def edit(path: str, old: str, new: str) -> list[Any]:
    return ["edit", {"path": path, "edits": [{"oldText": old, "newText": new}]}]


def bash(command: str) -> list[Any]:
    return ["bash", {"command": command}]


def rounds(count: int) -> Iterator[str]:
    """Prompts whose first tool changes something at once: each kind of tool, alone and beside others."""
    for number in range(count):
        kinds = (
            turns([write("a.txt", f"{number}\n")]),
            turns([bash(f"echo {number} > b.txt; rm -f c.txt")]),
            turns([edit("fixed.txt", "fixed", "fixed")], [bash("mv a.txt c.txt 2>/dev/null; true")]),
            turns(
                [write("a.txt", f"x{number}"), write("d/e.txt", f"{number}"), bash(f"echo {number} >> b.txt")]
            ),
            turns([bash("ls")], [["read", {"path": "fixed.txt"}], write("c.txt", f"{number}")]),
        )
        yield f"round {number} {kinds[number % len(kinds)]}"


def contents(project: Path) -> dict[str, str]:
    return {str(path.relative_to(project)): path.read_text() for path in project.rglob("*") if path.is_file()}


def at_checkpoint(within: Within, project: Path, number: int, names: set[str]) -> dict[str, str]:
    found = {name: within.run("cat", str(number), name, cwd=project, check=None) for name in names}
    return {name: answer.out.decode() for name, answer in found.items() if answer.code == 0}


def test_each_prompt_has_its_exact_checkpoint(pi: Pi, recorder: Recorder, within: Within) -> None:
    """With a model that takes no time at all: the files from before each prompt, by their bytes, and a
    state that is complete, because pi waited."""
    (pi.project / "fixed.txt").write_text("fixed\n")
    before = []
    with rpc(pi) as driven:
        for prompt in rounds(ROUNDS):
            before.append(contents(pi.project))
            driven.prompt(prompt)
        session = driven.state()["sessionId"]
    names = {name for files in before for name in files} | set(contents(pi.project))

    listed = within.json("checkpoints", session, cwd=pi.project)[::-1]

    assert [(one["number"], one["state"], one["source"]) for one in listed] == [
        (number, "complete", "hook") for number in range(1, ROUNDS + 1)
    ]
    assert [at_checkpoint(within, pi.project, one["number"], names) for one in listed] == before


def test_steered_and_queued_prompts_have_their_own(pi: Pi, recorder: Recorder, within: Within) -> None:
    """A prompt that comes while the agent works is captured when it is delivered, with what was done until
    then."""
    (pi.project / "a.txt").write_text("0")
    with rpc(pi) as driven:
        driven.send(
            "prompt", message="ONE " + turns([bash("echo 1 > a.txt; sleep 1")], [bash("echo 2 > a.txt")])
        )
        driven.until(lambda event: event["type"] == "tool_execution_start")
        driven.send("steer", message="TWO " + turns([bash("echo 3 > a.txt")]))
        driven.send("follow_up", message="THREE " + turns([bash("echo 4 > a.txt")]))
        driven.until(lambda event: event["type"] == "agent_end")
        session = driven.state()["sessionId"]

    listed = within.json("checkpoints", session, cwd=pi.project)[::-1]

    assert [one["prompt"].split()[0] for one in listed] == ["ONE", "TWO", "THREE"]
    assert {one["source"] for one in listed} == {"hook"}
    assert [at_checkpoint(within, pi.project, number, {"a.txt"}) for number in (1, 2, 3)] == [
        {"a.txt": "0"},
        {"a.txt": "1\n"},
        {"a.txt": "3\n"},
    ]


@pytest.mark.parametrize("mode", [["-p"], ["--mode", "json"]])
def test_headless_runs_record(pi: Pi, recorder: Recorder, within: Within, mode: list[str]) -> None:
    """Nothing is lost when pi ends with its answer, and nothing is said."""
    (pi.project / "a.txt").write_text("old")
    ran = headless(pi, *mode, "ONE " + turns([write("a.txt", "new")]))

    assert (ran.returncode, ran.stderr) == (0, "")
    (one,) = within.json("checkpoints", cwd=pi.project)
    assert (one["state"], one["source"], one["changes"]["modified"]) == ("complete", "hook", 1)
    assert within.run("cat", "1", "a.txt", cwd=pi.project).out == b"old"


def headless(pi: Pi, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*pi.command, *arguments],
        cwd=pi.project,
        env=pi.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_session_without_a_log_is_recorded(pi: Pi, recorder: Recorder, within: Within) -> None:
    """By the extension's word alone: its prompts are listed, and its files go back."""
    (pi.project / "a.txt").write_text("old")
    headless(pi, "-p", "--no-session", "ONE " + turns([write("a.txt", "new")]))

    (one,) = within.json("checkpoints", cwd=pi.project)
    assert (one["prompt"].split()[0], one["state"]) == ("ONE", "complete")
    within.json("rewind", "1", "--files", cwd=pi.project)
    assert (pi.project / "a.txt").read_text() == "old"


def test_a_child_without_its_own_session_is_its_parents(pi: Pi, recorder: Recorder, within: Within) -> None:
    """A pi that a tool of another one starts, and that keeps no session, makes no session here."""
    prompt = "CHILD " + turns([write("a.txt", "by the child")])
    (pi.project / "child.txt").write_text(prompt)
    words = " ".join(f"'{word}'" for word in [*pi.command, "-p", "--no-session"])
    headless(pi, "-p", "PARENT " + turns([bash(f'{words} "$(cat child.txt)" </dev/null')]))

    (session,) = within.json("sessions", cwd=pi.project)
    assert session["first_prompt"].startswith("PARENT")
    (shown,) = within.json("show", "1", cwd=pi.project)["files"]
    assert (shown["path"], shown["by"]) == ("a.txt", "session")


def test_a_daemon_that_is_killed_is_started_again(pi: Pi, recorder: Recorder, within: Within) -> None:
    """In the middle of a run: pi goes on, and the next prompt has its exact checkpoint again."""
    with rpc(pi) as driven:
        driven.prompt("ONE " + turns([write("a.txt", "1")]))
        found = running(recorder.home)
        assert found is not None
        driven.send("prompt", message="TWO " + turns([bash("sleep 1")], [write("a.txt", "2")]))
        driven.until(lambda event: event["type"] == "tool_execution_start")
        os.kill(found.pid, signal.SIGKILL)
        driven.until(lambda event: event["type"] == "agent_end")
        driven.prompt("THREE " + turns([write("a.txt", "3")]))
    listed = within.json("checkpoints", cwd=pi.project)

    assert [(one["number"], one["state"]) for one in listed] == [
        (3, "complete"),
        (2, "complete"),
        (1, "complete"),
    ]
    assert within.run("cat", "3", "a.txt", cwd=pi.project).out == b"2"


def test_installed_twice_it_works_once(pi: Pi, recorder: Recorder, within: Within) -> None:
    """For the user and for the project: one prompt is one prompt, and its commands keep their names."""
    recorder.run("install", "pi", "--scope", "project", cwd=pi.project)
    with rpc(pi, *(["--approve"] if "bundle" in pi.command[1] else [])) as driven:
        driven.prompt("ONE " + turns([write("a.txt", "1")]))
    types = [one["type"] for one in within.json("log", cwd=pi.project)]
    assert types.count("PromptAnnounced") == 1


@pytest.mark.parametrize("gone", ["home", "python", "entry", "daemon"])
def test_a_recorder_that_is_gone_is_not_noticed(
    pi: Pi, recorder: Recorder, gone: str, tmp_path: Path
) -> None:
    """No output, no exit code, no second of waiting, whatever of it is missing or does not come up."""
    extension = pi.agent / "extensions" / "recorder.ts"
    text = extension.read_text()
    if gone == "home":
        shutil.rmtree(recorder.home)
    elif gone == "python":
        extension.write_text(text.replace(sys.executable, "/nowhere/python"))
    elif gone == "entry":
        extension.write_text(text.replace("_recorder_entry.py", "nowhere.py"))
    else:
        broken = tmp_path / "python"
        broken.write_text("#!/bin/sh\nexit 1\n")
        broken.chmod(0o755)
        extension.write_text(text.replace(sys.executable, str(broken)).replace(BUDGET_MS, "300"))
    began = time.monotonic()
    ran = headless(pi, "-p", "ONE " + turns([write("a.txt", "1")], [write("b.txt", "2")]))

    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "ok", "")
    assert time.monotonic() - began < 30
    assert snapshot(pi.project).keys() == {"a.txt", "b.txt"}
    assert gone != "home" or not recorder.home.exists()


def test_a_daemon_that_hangs_holds_pi_up_once(pi: Pi, recorder: Recorder, wait_for: Wait) -> None:
    """It costs the budget of one wait, not one for each tool."""
    extension = pi.agent / "extensions" / "recorder.ts"
    extension.write_text(extension.read_text().replace(BUDGET_MS, "3000"))
    with rpc(pi) as driven:
        driven.prompt("ONE " + turns([write("a.txt", "1")]))
        found = running(recorder.home)
        assert found is not None
        os.kill(found.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            driven.prompt("TWO " + turns(*[[write("a.txt", str(number))] for number in range(5)]))
            took = time.monotonic() - began
        finally:
            os.kill(found.pid, signal.SIGCONT)
    assert took < 5 * 3
    assert (pi.project / "a.txt").read_text() == "4"


def test_an_abort_is_not_held_up(pi: Pi, recorder: Recorder) -> None:
    """Whoever stops the agent does not wait for the recorder, neither in the tool that is about to run nor in
    those that would follow."""
    with rpc(pi) as driven:
        driven.prompt("ONE " + turns([write("b.txt", "1")]))
        found = running(recorder.home)
        assert found is not None
        os.kill(found.pid, signal.SIGSTOP)
        try:
            driven.send("prompt", message="TWO " + turns([write("a.txt", "1"), write("c.txt", "2")]))
            driven.until(lambda event: event["type"] == "tool_execution_start")
            began = time.monotonic()
            driven.send("abort")
            driven.until(lambda event: event["type"] == "agent_end")
            took = time.monotonic() - began
        finally:
            os.kill(found.pid, signal.SIGCONT)
    assert took < int(BUDGET_MS) / 1000 / 2
    assert not (pi.project / "a.txt").exists()
