"""The event log and the views folded from it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cli.checks.problem import Problem, counted
from recorder.errors import LogFailure
from recorder.home import Home
from recorder.plain import one_line

if TYPE_CHECKING:
    from recorder.log import Broken, EventLog

NEWEST = 10_000
"""Events whose chain is checked here: the whole of it may take long."""
TOLD, SAID = 3, 200
"""How many places are told, and how many characters of each reason."""


def check_chain(log: EventLog) -> Iterator[Problem]:
    """The newest events are as they were appended."""
    after = max(log.head().position - NEWEST, 0)
    broken = list(itertools.islice(log.check(after=after), TOLD + 1))
    if broken:
        told = "; ".join(map(_place, broken[:TOLD])) + (" and more" if len(broken) > TOLD else "")
        yield Problem(
            "log_changed",
            f"the event log is not as it was appended: {told}",
            "keep a copy of the home, and put log.db back from a backup; what is intact stays usable",
            "integrity",
        )


def _place(broken: Broken) -> str:
    """What a database says of damaged bytes may show them, at length."""
    why = one_line(broken.why)[:SAID]
    return why if why.startswith("position") else f"event {broken.position}: {why}"


def check_views(home: Home, log: EventLog) -> Iterator[Problem]:
    """The views can be read, and stand where the log stands."""
    from projections.glance import open_stored, position_of
    from projections.views import OF_ANOTHER_LOG, belong_to

    if not home.views.exists():
        return  # nobody has looked yet
    try:
        with contextlib.closing(open_stored(home.views, thorough=True)) as stored:
            position, ours = position_of(stored), belong_to(stored, log)
    except LogFailure as error:
        if error.code != "outdated":
            yield Problem(
                "views_damaged",
                f"the views in {home.views} are damaged ({error.message})",
                "“recorder doctor --fix” folds them anew from the log",
                "integrity",
                lambda: _fold_anew(home, log),
            )
        return
    head = log.head().position
    if position > head:
        yield Problem(
            "views_ahead",
            f"the views stand at event {position:,}, but the log ends with event {head:,}: the log was cut, "
            "or put back from an older copy",
            "if that is meant, “recorder doctor --fix” folds the views anew",
            "integrity",
            lambda: _fold_anew(home, log),
        )
    elif not ours:
        yield Problem(
            "views_of_another_log",
            OF_ANOTHER_LOG.partition(";")[0],
            "“recorder doctor --fix”, or whatever command is next, folds the views anew",
            "integrity",
            lambda: _fold_anew(home, log),
        )
    elif position < head and not home.held("watch"):  # which folds what it has just appended
        yield Problem(
            "views_behind",
            f"the views are {counted(head - position, 'event')} behind the log",
            "“recorder doctor --fix”, or whatever command is next, brings them up to it",
            "advice",
            lambda: _catch_up(home, log),
        )


def _fold_anew(home: Home, log: EventLog) -> str:
    from projections.views import open_views, remove

    remove(home)
    with open_views(home, log) as views:
        return f"the views are folded anew from {counted(views.position, 'event')}"


def _catch_up(home: Home, log: EventLog) -> str:
    from projections.views import open_views

    with open_views(home, log) as views:
        return f"the views stand at event {views.position:,}, the log's last"
