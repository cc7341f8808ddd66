"""A recorded session whose agent's shell does odd things to odd trees, and the ways back and forth again,
with a listing of the disk at every stop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.fidelity.listing import Listing, listing
from tests.flow.within import Within

SETTLED = 0.1
"""Seconds after which what was made counts as older than the prompt."""

Act = Callable[[bytes], object]
"""Does something in the folder whose absolute path it gets."""


class Case(NamedTuple):
    """One thing that happens to one folder of its own: `make` before the run, `act` in the run. `lost` names
    what the README says does not come back: `links`, `owner`, `attributes`, `special`."""

    name: str
    make: Act
    act: Act
    lost: frozenset[str] = frozenset()


class Played(NamedTuple):
    """The disk at every stop: before the run, after it, after the rewind, its undo and the redo; and what
    these three said."""

    stops: list[Listing]
    told: list[dict[str, Any]]


def play(
    within: Within,
    root: Path,
    cases: Sequence[Case],
    *words: str,
    kind: str = "pi",
    settle: Callable[[], object] = lambda: None,
) -> Played:
    """Every case in its own folder of one session's one run, then the rewind with these `words`, its undo and
    the redo; `settle` is called when all is made."""
    top = os.fsencode(root)
    places = [(case, top + b"/" + case.name.encode()) for case in cases]
    for case, place in places:
        os.mkdir(place)
        case.make(place)
    settle()
    return there_and_back(
        within, root, lambda: [case.act(place) for case, place in places], *words, kind=kind
    )


def there_and_back(
    within: Within, root: Path, act: Callable[[], object], *words: str, kind: str = "pi"
) -> Played:
    top = os.fsencode(root)
    agent = within.agent(kind, root)
    time.sleep(SETTLED)
    stops, told = [listing(top)], []
    with within.watching() as watcher:
        watcher.prompt(agent, "go", lambda one: one.shell("…", act))
    stops.append(listing(top))
    for way in (("1", "--session", agent.session, *words), ("--undo",), ("--redo",)):
        answer = within.run("rewind", *way, "--files", "--json", cwd=root, check=None)
        told.append({**answer.json, "code": answer.code})
        stops.append(listing(top))
    return Played(stops, told)
