"""All checks in their order: what others depend on first, so that it is mended before they look."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cli.checks.problem import FAILURES, Gravity, Problem, words
from recorder.errors import IntegrityFailure, RecorderError

if TYPE_CHECKING:
    from projections.views import Views
    from recorder.home import Home
    from recorder.log import EventLog

Checks = dict[str, Callable[[], Iterator[Problem]]]
"""By what each looks at, as the beginning of a sentence."""
Step = Callable[[], None]

STEPS = 17
"""How many checks an examination has at most."""


def examine(folder: Path, step: Step) -> Iterator[Problem]:
    """Everything that is wrong with the home in a folder and with what is around it. `step` is told each
    check that is done. Nothing is written here; who asks for the next problem may have mended the last."""
    from recorder.home import find_home

    try:
        home = find_home(folder)
    except RecorderError as error:
        home = None
        yield Problem("home_unusable", error.message, f"see to it that {folder} can be used", _gravity(error))
    if home is not None:
        yield from _run(_of_home(home), step)
        yield from _recorded(home, step)
    yield from _run(_around(home), step)


def _recorded(home: Home, step: Step) -> Iterator[Problem]:
    from migrations.upcasts import UPCASTS
    from projections.glance import glance
    from recorder.log import open_log

    if not home.log.exists():
        return
    try:
        log = open_log(home, upcasts=UPCASTS)
    except RecorderError as error:
        yield Problem("log_unusable", error.message, "put log.db back from a backup", _gravity(error))
        return
    with log:
        yield from _run(_of_log(home, log), step)
        try:
            views = glance(home, log, log.head().position, thorough=True)
        except FAILURES as error:
            yield _not_examined("what is recorded", error)
            return
        with views:
            yield from _run({"the stores": lambda: _run(_of_stores(home, views), step)}, step)
            yield from _run(_of_views(home, views.connection), step)


def _of_home(home: Home) -> Checks:
    from cli.checks.home import check_modes, check_owner, check_room

    return {
        "the home's owner": lambda: check_owner(home),
        "the home's modes": lambda: check_modes(home),
        "the room on the disk": lambda: check_room(home),
    }


def _of_log(home: Home, log: EventLog) -> Checks:
    from cli.checks.record import check_chain, check_views

    return {
        "the event log": lambda: check_chain(log),
        "the views": lambda: check_views(home, log),
    }


def _of_stores(home: Home, views: Views) -> Checks:
    """One check a work tree: a store that cannot be read hides no other."""
    from cli.checks.stores import check_store
    from cli.checks.trees import kept_trees

    return {
        f"the store of {os.fsdecode(one.tree.path)}": partial(check_store, home, views, one.tree)
        for one in kept_trees(views.connection)
    }


def _of_views(home: Home, connection: sqlite3.Connection) -> Checks:
    from cli.checks import hooks, sessions, surroundings, trees
    from cli.policy import settings, why_not_captured
    from recorder.retention import DAY_NS

    now = time.time_ns()
    since = now - settings().retention_days * DAY_NS
    return {
        "the work trees' folders": lambda: trees.check_roots(connection),
        "the work trees": lambda: trees.check_kinds(connection),
        "rewinds": lambda: trees.check_rewinds(home, connection),
        "the sessions": lambda: sessions.check_sessions(connection, since, now, why_not_captured),
        "the projects' settings": lambda: surroundings.check_project_settings(
            sessions.folders(connection, since)
        ),
        "the agents' folders": lambda: surroundings.check_logs_there(sessions.agents(connection)),
        "the agents' hooks": lambda: hooks.check_hooks_there(home, connection),
    }


def _around(home: Home | None) -> Checks:
    from cli.checks import hooks, surroundings

    checks: Checks = {
        "git": surroundings.check_git,
        "the settings": surroundings.check_settings,
        "the agents' logs": surroundings.check_logs_readable,
    }
    if home is not None:
        checks["the hooks"] = lambda: hooks.check_hooks(home)
        checks["the watcher"] = lambda: surroundings.check_watcher(home, time.time())
    return checks


def _run(checks: Checks, step: Step) -> Iterator[Problem]:
    """One check that fails hides no other."""
    for what, check in checks.items():
        try:
            yield from check()
        except FAILURES as error:
            yield _not_examined(what, error)
        step()


def _not_examined(what: str, error: Exception) -> Problem:
    return Problem(
        "not_examined", f"{what} could not be examined: {words(error)}", "mend that, and ask the doctor again"
    )


def _gravity(error: RecorderError) -> Gravity:
    return "integrity" if isinstance(error, IntegrityFailure) else "fault"
