"""The recorder's menu on the screen of a real pi, at several sizes, and what opens it."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.agents.pi.rpc import rpc
from tests.agents.pi.screen import Screen, screen
from tests.agents.pi.test_extension import recorder, turns, write
from tests.flow.conftest import Recorder

if TYPE_CHECKING:
    from tests.agents.pi.conftest import Pi

pytestmark = pytest.mark.agents

__all__ = ["recorder"]

PROMPTS = 12
TITLE = "Rewind to before which prompt?"


@pytest.fixture
def talk(pi: Pi, recorder: Recorder) -> None:
    """A session with many prompts, the last of which wrote a file."""
    (pi.project / "a.txt").write_text("0")
    with rpc(pi) as driven:
        for number in range(1, PROMPTS):
            driven.prompt(f"P{number}")
        driven.prompt(f"P{PROMPTS} {turns([write('a.txt', '1')])}")


def rows(lines: list[str]) -> list[str]:
    """The prompts in sight, the one under the cursor with its arrow."""
    return [line for line in lines if re.match(r"[→ ] #\d+ \d\d:\d\d ", line)]


def cursor(lines: list[str]) -> int | None:
    """The number of the prompt under the cursor, which is the one that is counted, or None."""
    found = [line for line in rows(lines) if line.startswith("→")]
    place = next((line for line in lines if line.startswith(TITLE)), "")
    if len(found) != 1 or not place:
        return None
    number = int(found[0].split()[1].removeprefix("#"))
    assert f"({PROMPTS + 1 - number}/{PROMPTS})" in place
    return number


def open_menu(shown: Screen) -> list[str]:
    shown.keys("Escape", "Escape", apart=0.15)
    return shown.until(TITLE)


@pytest.mark.parametrize(("columns", "height"), [(80, 24), (80, 10), (200, 50)])
def test_the_list_fits(pi: Pi, talk: None, columns: int, height: int) -> None:
    """The cursor is always in sight and nothing runs past either end; the paging hint is there only where
    there is something to page to."""
    with screen(pi, columns, height, "-c") as shown:
        lines = open_menu(shown)
        size = len(rows(lines))
        assert size == min(PROMPTS, height - 6) and cursor(lines) == PROMPTS
        assert any("PgUp/PgDn" in line for line in lines) == (size < PROMPTS)
        assert any(line.startswith("◆") for line in lines), "pi's footer stays in sight"

        def goes(key: str, number: int) -> None:
            shown.keys(key)
            shown.until(lambda lines: cursor(lines) == number and len(rows(lines)) == size)

        goes("Up", PROMPTS)
        goes("j", PROMPTS - 1)
        goes("Down", PROMPTS - 2)
        goes("k", PROMPTS - 1)
        goes("NPage", max(1, PROMPTS - 1 - size))
        goes("End", 1)
        goes("j", 1)
        goes("PPage", min(PROMPTS, 1 + size))
        goes("Home", PROMPTS)
        shown.tmux("resize-window", "-t", "pi", "-x", str(columns), "-y", "9")
        shown.until(lambda lines: len(rows(lines)) == 3 and cursor(lines) == PROMPTS)
        shown.keys("Escape")
        shown.until(lambda lines: not any(TITLE in line for line in lines))


def test_it_goes_back(pi: Pi, talk: None) -> None:
    """From Esc twice to the prompt in the editor: the code and the conversation."""
    with screen(pi, 80, 24, "-c") as shown:
        open_menu(shown)
        shown.keys("Enter")
        lines = shown.until("Never mind")
        actions = [line.strip(" →") for line in lines if "Restore" in line or "Summarize" in line]
        assert actions == [
            "Restore code and conversation",
            "Restore conversation",
            "Restore code",
            "Summarize from here",
            "Summarize up to here",
        ]
        shown.keys("Enter")
        assert any("put back  a.txt" in line for line in shown.until("Yes"))
        shown.keys("Enter")
        lines = shown.until("Code restored")
        assert any(line.startswith(f"P{PROMPTS} ") for line in lines)
    assert (pi.project / "a.txt").read_text() == "0"


def test_what_opens_it_and_what_does_not(pi: Pi, talk: None) -> None:
    """A pair of presses on an empty editor at rest; not one that is slow, that has another key between, a
    draft or a dialog."""

    def closed(shown: Screen) -> None:
        time.sleep(0.8)
        assert not any(TITLE in line for line in shown.lines())

    with screen(pi, 80, 24, "-c") as shown:
        shown.keys("Escape")
        time.sleep(0.7)
        shown.keys("Escape")
        closed(shown)

        shown.type("draft")
        shown.keys("Escape", "C-u", "Escape", apart=0.1)
        closed(shown)

        shown.keys("Escape", "x", "BSpace", "Escape", apart=0.05)
        closed(shown)

        shown.type("/model")
        shown.keys("Enter")
        time.sleep(0.5)
        shown.keys("Escape", "Escape", apart=0.1)
        closed(shown)
        open_menu(shown)
