"""Hooks and logs tell of the same session: whichever comes first, the views say the same of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from projections.views import open_views
from recorder.home import open_home
from recorder.log import open_log
from recorder.reading.ingest import Ingest
from recorder.reading.logfile import log_file
from recorder.reading.tail import opened
from recorder.sources import all_sources, source_of

SESSION = "0b5e7c1e-0000-4000-8000-000000000001"
PROMPT = "p-1"
LINES: list[dict[str, Any]] = [
    {
        "type": "user",
        "uuid": "00000000-0000-4000-8000-00000000000a",
        "parentUuid": None,
        "promptId": PROMPT,
        "promptSource": "typed",
        "message": {"role": "user", "content": "write it"},
    },
    {
        "type": "assistant",
        "uuid": "00000000-0000-4000-8000-00000000000b",
        "parentUuid": "00000000-0000-4000-8000-00000000000a",
        "message": {
            "id": "m1",
            "role": "assistant",
            "content": [
                {
                    "type": "tool_use",
                    "id": "t1",
                    "name": "Write",
                    "input": {"file_path": "/w/f", "content": "x"},
                }
            ],
        },
    },
    {
        "type": "user",
        "uuid": "00000000-0000-4000-8000-00000000000c",
        "parentUuid": "00000000-0000-4000-8000-00000000000b",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}],
        },
        "toolUseResult": {"type": "create", "filePath": "/w/f", "content": "x", "originalFile": None},
    },
]
TOOL = {
    "tool_name": "Write",
    "tool_use_id": "t1",
    "tool_input": {"file_path": "/w/f", "content": "x"},
    "prompt_id": PROMPT,
}
HOOKS: list[dict[str, Any]] = [
    {"hook_event_name": "UserPromptSubmit", "prompt_id": PROMPT, "prompt": "write it"},
    {"hook_event_name": "PreToolUse", **TOOL},
    {
        "hook_event_name": "PostToolUse",
        **TOOL,
        "tool_response": {"type": "create", "filePath": "/w/f", "content": "x", "originalFile": None},
    },
]
BASE = 1_790_000_000_000_000_000


class Told:
    """One recording that is told of the session line by line and hook by hook."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "projects" / "-w" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        self.home = open_home(folder / "home")

    def tell(self, order: list[tuple[str, int]]) -> list[tuple[object, ...]]:
        """Returns what the views say of prompts and calls in the end."""
        sources = all_sources()
        with open_log(self.home) as log:
            ingest = Ingest(log, sources)
            for kind, number in order:
                if kind == "line":
                    self._write(LINES[number], number)
                    with opened(str(self.path)) as content:
                        file = log_file(str(self.path), content, log, sources)
                        assert file is not None
                        for lines in file.read(content, live=True):
                            ingest.take(file, lines)
                else:
                    payload = {"session_id": SESSION, "transcript_path": str(self.path), **HOOKS[number]}
                    at = BASE + number * 1_000_000_000
                    signal = source_of("claude").signal(msgspec.json.encode(payload), at, at)
                    assert signal is not None
                    ingest.take_signal("claude", signal)
            with open_views(self.home, log) as views:
                views.catch_up()
                prompts = views.connection.execute("SELECT entry, how, excerpt FROM prompts").fetchall()
                calls = views.connection.execute(
                    "SELECT call, run, step, tool, writes, began_at, ended_at, failed, files FROM calls"
                ).fetchall()
            return [tuple(row) for row in (*prompts, *calls)]

    def _write(self, line: dict[str, Any], number: int) -> None:
        times = {"timestamp": f"2026-09-21T14:13:2{number}.000Z", "sessionId": SESSION, "cwd": "/w"}
        with self.path.open("ab") as file:
            file.write(msgspec.json.encode({**line, **times, "version": "2.1.332"}) + b"\n")


def interleavings() -> list[list[tuple[str, int]]]:
    """Every order of both in which each is in its own."""
    found = []
    for places in itertools.combinations(range(6), 3):
        lines, hooks = iter(range(3)), iter(range(3))
        found.append([("line", next(lines)) if n in places else ("hook", next(hooks)) for n in range(6)])
    return found


@pytest.mark.parametrize("number", range(20))
def test_in_whatever_order_they_come(number: int, tmp_path: Path) -> None:
    """Lines and hooks of one session in any order give one prompt and one call: its place from the log, its
    times from the hooks."""
    order = interleavings()[number]
    (entry, how, excerpt), *calls = Told(tmp_path).tell(order)
    assert (entry, how, excerpt) == (LINES[0]["uuid"], "typed", "write it")
    ((call, run, step, tool, writes, began_at, ended_at, failed, _),) = calls
    assert (call, run, step, tool, writes, failed) == ("t1", entry, "m1", "Write", "named", 0)
    assert (began_at, ended_at) == (BASE + 1_000_000_000, BASE + 2_000_000_000)


def test_told_twice(tmp_path: Path) -> None:
    """A hook that is told again, from the spool for example, adds nothing."""
    once = [("hook", 0), ("line", 0), ("hook", 1), ("line", 1), ("hook", 2), ("line", 2)]
    twice = [told for told in once for _ in range(2 if told[0] == "hook" else 1)]
    assert Told(tmp_path / "a").tell(once)[0] == Told(tmp_path / "b").tell(twice)[0]
    with (
        open_log(open_home(tmp_path / "a" / "home")) as one,
        open_log(open_home(tmp_path / "b" / "home")) as two,
    ):
        assert one.head().position == two.head().position


@pytest.mark.parametrize("alone", ["line", "hook"])
def test_one_of_them_alone(alone: str, tmp_path: Path) -> None:
    """Without hooks the log tells all; without its lines what hooks told stands under the prompt's key."""
    told = Told(tmp_path).tell([(alone, number) for number in range(3)])
    prompts = [row for row in told if len(row) == 3]
    calls = [row for row in told if len(row) > 3]
    assert [row[0] for row in prompts] == ([LINES[0]["uuid"]] if alone == "line" else [])
    assert [(row[0], row[1]) for row in calls] == [("t1", LINES[0]["uuid"] if alone == "line" else PROMPT)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"session_id": 3, "hook_event_name": "Stop"}',
        b'{"session_id": "", "hook_event_name": "Stop"}',
        b'{"session_id": "s", "hook_event_name": "SomethingNew"}',
        b'{"session_id": "s", "hook_event_name": "PreToolUse"}',
        b'{"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "\\ud800"}',
        b'{"session_id": "s", "hook_event_name": "PreToolUse", "tool_use_id": "t", "tool_input": [1]}',
        b'{"event": "prompt", "session": "s", "prompt": 3}',
        b'{"event": "call", "session": "s"}',
        b'{"event": "bound", "session": "s", "prompt": "k"}',
        b"[" * 100_000,
        b'{"session_id": "s", "hook_event_name": "Stop", "new": ' + b"1" * 100_000 + b"}",
    ],
)
def test_odd_payloads_never_raise(payload: bytes) -> None:
    """A payload cut short, of a newer version or of another kind tells nothing, or no more than it says."""
    for agent in ("claude", "pi"):
        signal = source_of(agent).signal(payload, 1, 2)
        assert signal is None or signal.kind in {"other", "call", "settled", "prompt"}
