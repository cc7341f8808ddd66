"""The recorder in the agents' own configuration: there still, switched on, and as this version puts it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cli.checks.problem import Problem
from recorder.errors import RecorderError

if TYPE_CHECKING:
    from cli.installing.base import Change, Where
    from recorder.home import Home


def check_hooks(home: Home) -> Iterator[Problem]:
    """What is installed for the user works, and is not older than this recorder."""
    from cli.installing import AGENTS, installer_of

    where = _where(home)
    for agent in AGENTS:
        installer = installer_of(agent)
        try:
            if not installer.uninstall(where):
                continue
            changes = installer.install(where)
        except RecorderError as error:
            yield Problem(
                "hooks_unreadable",
                f"whether {agent} calls the recorder cannot be told: {error.message}",
                "mend that file; “recorder install” tells when it can be read",
            )
            continue
        if changes:
            yield Problem(
                "hooks_outdated",
                f"what {agent} calls is not what this recorder would put there",
                f"“recorder install {agent}”",
                mend=partial(_install, agent, changes),
            )
        if installer.switched_off(where):
            yield Problem(
                "hooks_off",
                f"{agent} calls no hooks: they are switched off in its settings",
                "take “disableAllHooks” out of its settings",
                "advice",
            )


def check_hooks_there(home: Home, connection: sqlite3.Connection) -> Iterator[Problem]:
    """An agent that called the recorder once calls it still."""
    from cli.installing import AGENTS, installer_of

    rows = connection.execute(
        "SELECT DISTINCT agent FROM sessions JOIN checkpoints USING (stream)"
        " WHERE checkpoints.source = 'hook'"
    )
    for agent in sorted({row["agent"] for row in rows} & set(AGENTS)):
        try:
            there = bool(installer_of(agent).uninstall(_where(home)))
        except RecorderError:
            continue
        if not there:
            yield Problem(
                "hooks_missing",
                f"{agent} called the recorder once and is not set up for it any more",
                f"“recorder install {agent}”, if that is not what you wanted",
                "advice",
            )


def _where(home: Home) -> Where:
    from cli.installing.base import Where
    from cli.policy import settings

    return Where("user", Path("/"), Path.home(), os.environ, home.folder, settings().hook_budget_ms)


def _install(agent: str, changes: list[Change]) -> str:
    from cli.installing.base import carry_out

    carry_out(changes)
    return f"what {agent} calls was brought up to date"
