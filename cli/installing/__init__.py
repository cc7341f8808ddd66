"""Putting the recorder into the agents' own configuration: one module an agent, behind `base.Installer`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recorder.errors import UsageProblem

if TYPE_CHECKING:
    from cli.installing.base import Installer

AGENTS = ("pi", "claude")
"""Each is a module of this package with an `INSTALLER`."""


def installer_of(agent: str) -> Installer:
    """Raises UsageProblem for an agent that there is none for."""
    from importlib import import_module

    if agent not in AGENTS:
        raise UsageProblem(
            f"there is no agent “{agent}” to install into; there are: {', '.join(AGENTS)}", code="no_agent"
        )
    installer: Installer = import_module(f"cli.installing.{agent}").INSTALLER
    return installer
