"""One thing that is wrong: what it is, what a person can do, and how it is mended where that needs nobody."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from recorder.errors import RecorderError

Gravity = Literal["integrity", "fault", "advice"]
FAILURES = (RecorderError, OSError, sqlite3.Error)
"""What a check, or a mending, of something broken may raise."""
NAMED = 3
"""How many of a kind a sentence names; it counts the rest."""


class Problem(NamedTuple):
    """`code` is stable and for programs; `message` one sentence; `fix` a command, or what `--fix` does.

    `gravity`: `integrity` (stored bytes are not what was stored), `fault` (something does not work),
    `advice` (everything works). `mend` puts it right and says what it did; it raises one of FAILURES, with
    everything as before, where it cannot. None where only a person can.
    """

    code: str
    message: str
    fix: str
    gravity: Gravity = "fault"
    mend: Callable[[], str] | None = None


class Mended(NamedTuple):
    """A problem that is none any more, and the sentence that tells what was done."""

    code: str
    message: str


def mend_all(problems: Iterable[Problem]) -> tuple[list[Problem], list[Mended]]:
    """Mend each problem as it is found, so that what is looked at next is already whole; returns those that
    stay and those that were mended."""
    stay: list[Problem] = []
    mended: list[Mended] = []
    for problem in problems:
        if problem.mend is None:
            stay.append(problem)
            continue
        try:
            mended.append(Mended(problem.code, problem.mend()))
        except FAILURES as error:
            stay.append(
                problem._replace(message=f"{problem.message}; it could not be mended: {words(error)}")
            )
    return stay, mended


def exit_code(stay: Sequence[Problem], mended: Sequence[Mended]) -> int:
    """0 where all is well or only advice is left; 6 where some was mended and some was not; else 5 where
    stored bytes are not what was stored, 1 for any other fault."""
    gravities = {problem.gravity for problem in stay} - {"advice"}
    if not gravities:
        return 0
    if mended:
        return 6
    return 5 if "integrity" in gravities else 1


def words(error: Exception) -> str:
    """A failure in a few words, for the end of a sentence."""
    if isinstance(error, RecorderError):
        return error.message
    return (getattr(error, "strerror", None) or str(error)).rstrip(".")


def listed(names: Sequence[str]) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def counted(count: int, noun: str, nouns: str = "") -> str:
    """`1 file`, `2 files`; `nouns` where the plural is not made with an s."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"
