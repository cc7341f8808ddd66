"""The command line among bad words, bad surroundings and people who change their mind."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flow.agents import Claude, append
from tests.flow.conftest import ENTRY, snapshot
from tests.flow.within import Within


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def played(within: Within, folder: Path) -> Claude:
    """A closed session of two prompts: `made.txt` in the first run, `src/app.py` in the second."""
    agent = within.agent("claude", folder)
    assert isinstance(agent, Claude)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda a: a.write("made.txt", "by the agent\n"))
        watcher.prompt(agent, "second", lambda a: a.write("src/app.py", "print('two')\n"))
    return agent


def environment(within: Within) -> dict[str, str]:
    return {
        **os.environ,
        "RECORDER_HOME": str(within.home),
        "PI_CODING_AGENT_DIR": str(within.pi_folder),
        "CLAUDE_CONFIG_DIR": str(within.claude_folder),
    }


def shell(within: Within, line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A line of sh in which `$R` is the recorder."""
    return subprocess.run(
        ["sh", "-c", line],
        cwd=cwd,
        env={**environment(within), "R": f"{sys.executable} -I {ENTRY}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_after_the_first_prompt_was_taken_back_the_prompts_are_still_named(
    within: Within, folder: Path, played: Claude
) -> None:
    """No prompt stands on the active branch then: the list and every relative name say where they are, and
    `redo` goes there."""
    within.run("rewind", "1", "--both", cwd=folder)
    told = within.run("checkpoints", cwd=folder).out.decode()
    assert "--all-branches" in told and "recorder redo" in told and "no prompt yet" not in told
    for word in ("latest", "@-1"):
        error = within.run("show", word, cwd=folder, check=3).err
        assert "--all-branches" in error and "no prompt yet" not in error
    assert len(within.json("checkpoints", "--all-branches", cwd=folder)) == 2
    assert within.json("redo", cwd=folder)["status"] == "done"


def test_events_of_one_file(within: Within, folder: Path, played: Claude) -> None:
    """`log --path` names the tool call, the captures that saw a change, and no other event."""
    found = within.json("log", "--path", "made.txt", cwd=folder)
    assert {"ToolCalled", "Captured"} <= {one["type"] for one in found}
    assert all("made.txt" in json.dumps(one["data"]) for one in found)
    assert within.json("log", "--path", "never.txt", cwd=folder) == []


def test_a_type_or_an_agent_that_there_is_not_is_a_usage_problem(
    within: Within, folder: Path, played: Claude
) -> None:
    """A wrong word is told with those that come near, and is not an empty answer."""
    assert "PromptGiven" in within.run("log", "--type", "PromptGivn", cwd=folder, check=2).err
    assert "Captured" in within.run("log", "--type", "Zzz", cwd=folder, check=2).err
    assert "pi, claude" in within.run("sessions", "--agent", "foo", cwd=folder, check=2).err
    assert within.json("log", "--type", "promptgiven", cwd=folder)


def test_started_in_a_folder_that_was_deleted(within: Within, folder: Path, played: Claude) -> None:
    """What needs no folder works; what does says so in one sentence."""
    gone = "mkdir ../gone; cd ../gone; rmdir ../gone; "
    for words in ("--help", "sessions --all", "sessions --all --json", f"checkpoints --cwd {folder}"):
        done = shell(within, gone + f"$R {words}", folder)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout
    for words in ("sessions", "checkpoints", "rewind 1"):
        done = shell(within, gone + f"$R {words}", folder)
        assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
        assert "does not exist any more" in done.stderr


@pytest.mark.parametrize("words", ["log --json", "log", "nonsense --json", "cat 1 notes.md"])
def test_a_full_disk_behind_stdout_is_one_sentence(
    within: Within, folder: Path, played: Claude, words: str
) -> None:
    """Told once on stderr, with the exit code of what failed."""
    done = shell(within, f"$R {words} > /dev/full", folder)
    assert done.returncode == (2 if "nonsense" in words else 1)
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr


@pytest.mark.parametrize("words", ["log --json", "sessions", "show 1", "rewind 2 --files --dry-run"])
def test_stdout_that_is_closed(within: Within, folder: Path, played: Claude, words: str) -> None:
    """Nobody reads what is printed, and that is no failure."""
    done = shell(within, f"$R {words} >&-", folder)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "awaited", "typed", "code"),
    [
        (("rewind", "1", "--files"), b"Do this?", b"\x03", 130),
        (("rewind", "1", "--files"), b"Do this?", b"n", 0),
        (("rewind",), b"which prompt?", b"\x03", 130),
    ],
)
def test_a_person_who_breaks_off_or_says_no(
    within: Within,
    folder: Path,
    played: Claude,
    words: tuple[str, ...],
    awaited: bytes,
    typed: bytes,
    code: int,
) -> None:
    """Ctrl-C at the question or in the picker is 130, “no” is 0; nothing is changed either way."""
    before = snapshot(folder)
    assert at_a_terminal(within, words, folder, awaited, typed) == code
    assert snapshot(folder) == before


def at_a_terminal(within: Within, words: tuple[str, ...], cwd: Path, awaited: bytes, typed: bytes) -> int:
    """Run a command on a terminal of its own, type when it asks, and return the exit code."""
    master, slave = pty.openpty()
    command = [sys.executable, "-I", str(ENTRY), *words]
    terms = {**environment(within), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    with subprocess.Popen(
        command, cwd=cwd, env=terms, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    ) as process:
        os.close(slave)
        seen, end, asked = b"", time.monotonic() + 20, False
        while process.poll() is None and time.monotonic() < end:
            if select.select([master], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    seen += os.read(master, 65536)
            elif awaited in seen and not asked:
                asked = True
                os.write(master, typed)
        process.kill()
    os.close(master)
    assert asked, seen
    return process.returncode


@pytest.mark.parametrize("label", ["a\nb", "\x1b[31mred", "a\tb", "a\u2028b", "x" * 101])
def test_labels_that_no_list_can_show_are_refused(
    within: Within, folder: Path, played: Claude, label: str
) -> None:
    """Control characters, more than one line and more than 100 characters are usage problems."""
    within.run("label", "1", label, cwd=folder, check=2)
    assert within.json("checkpoints", cwd=folder)[-1]["label"] is None


def test_a_label_of_the_longest_kind(within: Within, folder: Path, played: Claude) -> None:
    """100 characters are a label, blanks in it and letters of any script too."""
    label = ("vor dem großen Umbau " * 5)[:99] + "é"
    within.run("label", "1", label, cwd=folder)
    assert within.json("show", label, cwd=folder)["number"] == 1


def test_the_leaf_is_marked_on_what_is_shown(within: Within, folder: Path, played: Claude) -> None:
    """An entry of no shown kind at the end is not drawn; the prompt above it is marked. Gone back to before
    everything, the session itself is."""
    entry = {"type": "system", "subtype": "turn_duration", "uuid": "end", "parentUuid": played.leaf,
             "sessionId": played.session, "timestamp": "2026-01-01T00:00:00Z", "cwd": str(folder),
             "isSidechain": False, "durationMs": 5}  # fmt: skip
    append(played.log, entry)
    with within.watching() as watcher:
        watcher.look(played)
    lines = within.run("tree", cwd=folder).out.decode().splitlines()
    assert within.json("tree", cwd=folder)["leaf"] == "end"
    assert [line for line in lines if "◀ here" in line] == [lines[-1]] and "#2 second" in lines[-1]
    assert not any("turn_duration" in line for line in lines)
    within.run("rewind", "1", "--both", cwd=folder)
    first, *rest = within.run("tree", cwd=folder).out.decode().splitlines()
    assert "◀ here" in first and not any("◀ here" in line for line in rest)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_file_that_is_no_log_is_named_once_on_stderr(
    within: Within, folder: Path, form: tuple[str, ...]
) -> None:
    """In both forms one sentence with the path once, and exit 1."""
    garbage = folder / "garbage.jsonl"
    garbage.write_text("no log\n")
    answer = within.run("import", str(garbage), *form, cwd=folder, check=1)
    assert (answer.err.count(str(garbage)), answer.err.count("\n")) == (1, 1)
