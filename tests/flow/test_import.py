"""Whole histories through the command line: every line counted, every session shown, nothing pretended."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorder.events import EntryAdded, Fact, LineUnread
from tests.flow.conftest import ENTRY, snapshot
from tests.flow.within import Within, whole

SAMPLES = Path(__file__).parents[1] / "samples"

PROMPTS = {
    "pi/branched-tree": [
        (1, "Prompt one", False),
        (2, "Prompt two", False),
        (3, "Prompt two bis", False),
        (4, "After summary", False),
        (5, "From the start", True),
        (6, "Resumed after navigation", True),
    ],
    "pi/forked": [(1, "Prompt one", True), (2, "Prompt two, other way", True)],
    "pi/cloned": [(1, "Prompt one", True), (2, "Prompt two, other way", True), (3, "In the clone", True)],
    "pi/cli-fork": [(1, "Prompt one", True), (2, "Prompt two", True), (3, "In --fork", True)],
    "claude/interactive_rewind": [
        (1, "first prompt", True),
        (2, "second prompt", False),
        (3, "third prompt", False),
        (4, "fourth prompt after rewind", True),
    ],
    "claude/forked_headless_then_continue": [
        (1, "time it", True),
        (2, "again", True),
        (3, "fork", True),
        (4, "cont", True),
    ],
    "claude/interactive_branch_forkedFrom": [
        (1, "first prompt", True),
        (2, "fourth prompt after rewind", True),
        (3, "fifth", True),
        (4, "use subagents", True),
        (5, "after compact", True),
        (6, "slow one", True),
        (7, "queued while busy", True),
        (8, "slow two", True),
    ],
    "claude/interactive_long_rewind_subagents_compact_queue_bang_interrupt": [
        (1, "first prompt", True),
        (2, "second prompt", False),
        (3, "third prompt", False),
        (4, "fourth prompt after rewind", True),
        (5, "fifth", True),
        (6, "use subagents", True),
        (7, "after compact", True),
        (8, "slow one", True),
        (9, "queued while busy", True),
        (10, "slow two", True),
    ],
}
"""Number, text and whether it is on the active branch, read off the logs by hand."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Within, Path, list[dict[str, Any]]]]:
    """A home into which a copy of every sample was imported, the folder of the copies, the report."""
    base = tmp_path_factory.mktemp("history")
    logs = base / "logs"
    for agent in ("pi", "claude"):
        shutil.copytree(SAMPLES / agent, logs / agent)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
        within = Within(base, monkeypatch)
        report = within.json("import", str(logs), cwd=base)
        yield within, logs, report["files"]


@pytest.fixture
def imported(
    history: tuple[Within, Path, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> tuple[Within, Path, list[dict[str, Any]]]:
    """With the environment that the test's own fixtures cleaned put back."""
    Within(history[0].base, monkeypatch)
    return history


Imported = tuple[Within, Path, list[dict[str, Any]]]


def test_every_line_is_accounted_for(imported: Imported) -> None:
    """New, known, not understood and bad lines are all the lines of each file; a second run adds nothing."""
    within, logs, files = imported
    for file in files:
        counted = file["new"] + file["duplicates"] + sum(file["not_understood"].values()) + file["bad_lines"]
        lines = Path(file["path"]).read_bytes().count(b"\n")
        assert counted == file["entries"] == (0 if "error" in file else lines), file["path"]
    assert [Path(file["path"]).name for file in files if "error" in file] == ["history.jsonl"]

    with within.recording() as recording:
        head = recording.log.head()
    again = within.json("import", str(logs), cwd=within.base)["totals"]
    assert (again["new"], again["bad_lines"], again["not_understood"]) == (0, 0, {})
    assert within.run("import", str(logs), cwd=within.base).code == 0
    with within.recording() as recording:
        assert (recording.log.head(), list(recording.log.check())) == (head, [])


@pytest.mark.parametrize("sample", PROMPTS)
def test_prompts_are_numbered(sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the agent's file, inherited ones first; branches share one numbering."""
    within = Within(tmp_path, monkeypatch)
    within.run("import", str(SAMPLES / f"{sample}.jsonl"), cwd=tmp_path)
    found = within.json("checkpoints", "latest", "--all-branches", cwd=tmp_path)
    told = [
        (one["number"], one["prompt"].split(" @@")[0].split(" %%")[0], one["on_active_branch"])
        for one in reversed(found)
    ]

    assert told == PROMPTS[sample]
    active = within.json("checkpoints", "latest", cwd=tmp_path)
    assert [one["number"] for one in active] == [number for number, _, on in reversed(told) if on]


def test_every_session_can_be_looked_at(imported: Imported) -> None:
    """Every looking command on every session, in both forms; each checkpoint is lost, and says why."""
    within, logs, files = imported
    known = {one["id"] for one in within.json("sessions", "--all", cwd=logs)}
    within.run("sessions", "--all", cwd=logs)
    assert known == {file["session"] for file in files if file["session"]}
    for session in sorted(known):
        for command in ("checkpoints", "tree", "log"):
            within.json(command, session, cwd=logs)
            assert within.run(command, session, cwd=logs).out
        checkpoints = within.json("checkpoints", session, "--all-branches", cwd=logs)
        for one in checkpoints:
            assert (one["state"], one["restorable"]) == ("lost", False) and one["why_not"]
        if checkpoints:
            assert within.json("show", checkpoints[0]["id"], cwd=logs)["state"] == "lost"
            within.run("show", "1", "--session", session, cwd=logs)


def test_nothing_lost_is_gone_back_to(imported: Imported) -> None:
    """Files that nobody captured are refused with the reason, whatever is asked for beside them."""
    within, logs, files = imported
    session = next(file["session"] for file in files if file["path"].endswith("claude/linear.jsonl"))
    before = snapshot(logs)
    for words in (("--files",), (), ("--both",), ("--dry-run",), ("--scope", "tree")):
        refused = within.json("rewind", "1", "--session", session, *words, cwd=logs, check=4)
        assert refused["error"]["code"] == "lost"
    assert within.json("revert", "1", "--session", session, cwd=logs, check=4)["error"]["code"] == "lost"
    within.json("undo", "--session", session, cwd=logs, check=4)
    within.json("rewind", "--undo", "--session", session, cwd=logs, check=3)
    talk = within.json("rewind", "1", "--session", session, "--conversation", cwd=logs, check=4)
    assert talk["error"]["code"] == "not_captured"
    assert snapshot(logs) == before


def long_log(path: Path) -> None:
    """A sample's lines over and over under new ids, as one long session."""
    head, *rest = (SAMPLES / "pi" / "linear.jsonl").read_text().splitlines()
    path.parent.mkdir()
    with path.open("w") as out:
        out.write(head + "\n")
        for turn in range(300):
            for line in rest:
                record = json.loads(line)
                record["id"] = f"{record['id']}-{turn}"
                record["parentId"] = record["parentId"] and f"{record['parentId']}-{turn}"
                out.write(json.dumps(record) + "\n")


def content(within: Within) -> list[tuple[str, object]]:
    with within.recording() as recording:
        return [(type(one.fact).__name__, identity(one.fact)) for one in whole(recording)]


def identity(fact: Fact) -> object:
    if isinstance(fact, EntryAdded):
        return (fact.entry, fact.parent, fact.at, fact.body.size)
    return fact.line if isinstance(fact, LineUnread) else fact.originator_version


def test_killed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import that was killed in the middle, and run again, leaves the same log as one that was not."""
    log = tmp_path / "logs" / "long.jsonl"
    long_log(log)
    whole_one, broken = Within(tmp_path / "a", monkeypatch), Within(tmp_path / "b", monkeypatch)
    words = [sys.executable, "-I", str(ENTRY), "--home", str(broken.home), "import", str(log)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_rows(broken.home / "log.db", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    some = len(content(broken))

    broken.run("--home", str(broken.home), "import", str(log), cwd=tmp_path)
    whole_one.run("--home", str(whole_one.home), "import", str(log), cwd=tmp_path)
    assert 0 < some < len(content(whole_one))
    assert content(broken) == content(whole_one)


def wait_for_rows(database: Path, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        try:
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=1) as connection:
                if connection.execute("SELECT COUNT(*) FROM stored_events").fetchone()[0] > 300:
                    return
        except sqlite3.Error:
            time.sleep(0.005)
    raise AssertionError(f"it ended first: {process.poll()}")
