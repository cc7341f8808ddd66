"""The settings in force for a work tree, as a capture's policy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from recorder.policy import Policy
from recorder.settings import Settings, load_settings

if TYPE_CHECKING:
    from recorder.worktree import WorkTree


def policy_of(work_tree: WorkTree) -> Policy:
    """What captures of a work tree take in, with what its own file excludes."""
    settings = load_settings(os.environ, project=Path(os.fsdecode(work_tree.path))).settings
    return Policy(
        max_untracked_bytes=settings.max_untracked_bytes,
        max_outside_bytes=settings.max_outside_bytes,
        exclude=settings.exclude,
        include_ignored=settings.include_ignored,
    )


def why_not_captured(agent: str) -> str | None:
    """Why sessions of an agent are not captured, by the user's settings or the agent's; None if they are."""
    from recorder.agent_switches import opted_out

    if not settings().enabled:
        return "the recorder is switched off (setting “enabled”)"
    why = opted_out(agent, os.environ, Path.home())
    return f"not recorded: {why}" if why else None


def settings() -> Settings:
    """The user's settings, without any project's."""
    return load_settings(os.environ).settings
