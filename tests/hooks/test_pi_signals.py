"""What the extension tells and what pi writes down are one session: a prompt is one prompt, by its text until
its entry is known, whichever of its announcement, its line and its binding comes first."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from projections.views import open_views
from recorder.home import open_home
from recorder.log import open_log
from recorder.reading.ingest import Ingest
from recorder.reading.logfile import log_file
from recorder.reading.tail import opened
from recorder.sources import all_sources, source_of

SESSION = "01a22eef-0000-7000-8000-00000000000a"
BASE = 1_790_000_000_000_000_000
HEADER = {
    "type": "session",
    "version": 3,
    "id": SESSION,
    "timestamp": "2026-09-21T14:13:20.000Z",
    "cwd": "/w",
}


def prompt(key: str, text: str = "go") -> dict[str, Any]:
    return {"event": "prompt", "prompt": key, "text": text, "how": "typed", "waits": False}


def bound(key: str, entry: str) -> dict[str, Any]:
    return {"event": "bound", "prompt": key, "entry": entry}


def line(entry: str, parent: str | None, text: str = "go") -> dict[str, Any]:
    return {
        "type": "message",
        "id": entry,
        "parentId": parent,
        "timestamp": "2026-09-21T14:13:20.000Z",
        "message": {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": BASE // 10**6},
    }


class Told:
    """A recording that is told of the session, message by message and line by line."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "sessions" / f"2026-09-21T14-13-20-000Z_{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)
        self.home = open_home(folder / "home")

    def tell(self, *told: dict[str, Any], has_log: bool = True) -> list[tuple[Any, ...]]:
        """Returns the prompts by number, each with its entry and the key that it was announced by."""
        sources = all_sources()
        file = str(self.path) if has_log else None
        if has_log:
            self.path.write_text(json.dumps(HEADER) + "\n")
        with open_log(self.home) as log:
            ingest = Ingest(log, sources)
            for number, one in enumerate(told):
                if "event" in one:
                    payload = json.dumps({"session": SESSION, "file": file, "cwd": "/w", **one}).encode()
                    signal = source_of("pi").signal(payload, BASE + number, BASE + number)
                    assert signal is not None
                    ingest.take_signal("pi", signal)
                    continue
                with self.path.open("a") as lines:
                    lines.write(json.dumps(one) + "\n")
                with opened(str(self.path)) as content:
                    found = log_file(str(self.path), content, log, sources)
                    assert found is not None
                    for piece in found.read(content, live=True):
                        ingest.take(found, piece)
            with open_views(self.home, log) as views:
                views.catch_up()
                rows = views.connection.execute(
                    "SELECT entry, key FROM prompts LEFT JOIN announcements USING (stream, entry)"
                    " ORDER BY number"
                )
                return [tuple(row) for row in rows]


ONE = (prompt("k1"), line("e1", None), bound("k1", "e1"))


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1)])
def test_in_whatever_order_it_comes(tmp_path: Path, order: tuple[int, ...]) -> None:
    """One prompt, with the entry that pi gave it."""
    assert Told(tmp_path).tell(*(ONE[index] for index in order)) == [("e1", "k1")]


def test_it_is_known_before_its_binding_comes(tmp_path: Path) -> None:
    """By its text: pi was killed before it could say more."""
    assert Told(tmp_path).tell(prompt("k1"), line("e1", None)) == [("e1", "k1")]
    assert Told(tmp_path / "other").tell(line("e1", None), prompt("k1")) == [("e1", "k1")]


@pytest.mark.parametrize("first", [0, 1])
def test_the_same_text_again_is_another_prompt(tmp_path: Path, first: int) -> None:
    """Each has its own announcement."""
    told = [prompt("k1"), line("e1", None)][:: -1 if first else 1]
    again = [prompt("k2"), line("e2", "e1")][:: -1 if first else 1]
    rows = Told(tmp_path).tell(*told, bound("k1", "e1"), *again, bound("k2", "e2"))
    assert rows == [("e1", "k1"), ("e2", "k2")]


def test_another_text_is_not_taken_for_it(tmp_path: Path) -> None:
    """A line that nobody announced, from before the recorder was there, stays alone."""
    rows = Told(tmp_path).tell(line("e0", None, "earlier"), prompt("k1"), line("e1", "e0"))
    assert rows == [("e0", None), ("e1", "k1")]


@pytest.mark.parametrize("binds", [True, False])
def test_without_a_log_it_is_taken_at_its_word(tmp_path: Path, binds: bool) -> None:
    """With pi's own entry id where that was told, so that the conversation can be moved to it."""
    told = [prompt("k1"), *([bound("k1", "e1")] if binds else []), {"event": "settled"}, {"event": "end"}]
    assert Told(tmp_path).tell(*told, has_log=False) == [("e1" if binds else "k1", "k1")]


def test_an_order_of_all_that_is_told_of_two(tmp_path: Path) -> None:
    """Two prompts delivered at once, told and written in any order in which each is in its own."""
    messages = [prompt("k1", "a"), prompt("k2", "b"), bound("k1", "e1"), bound("k2", "e2")]
    lines = [line("e1", None, "a"), line("e2", "e1", "b")]
    for number, places in enumerate(itertools.combinations(range(6), 2)):
        told, written = iter(messages), iter(lines)
        order = [next(written) if index in places else next(told) for index in range(6)]
        assert Told(tmp_path / str(number)).tell(*order) == [("e1", "k1"), ("e2", "k2")], places
