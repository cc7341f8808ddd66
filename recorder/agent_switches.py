"""The agents' own switches for checkpoints, honoured as the user's wish about ours too.

Owns where the agents keep them. Only what the user set counts (environment and user settings): a
project's own files cannot switch the recorder off.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

_ON = ("1", "true", "yes", "on")
_CLAUDE_SWITCH = "CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING"


def opted_out(agent: str, environment: Mapping[str, str], user_home: Path) -> str | None:
    """Why this agent's files are not to be captured, as the end of “not recorded: …”; None if they are.

    `claude`: the variable CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING, given directly or by `env` in the
    user's settings.json, or `fileCheckpointingEnabled` there. `pi`: `checkpoints.enabled` in its
    settings.json. An unreadable settings file opts nobody out.
    """
    if agent == "claude":
        return _claude_opted_out(environment, _claude_settings(environment, user_home))
    if agent == "pi":
        file = _pi_settings(environment, user_home)
        checkpoints = _read(file).get("checkpoints")
        if isinstance(checkpoints, dict) and checkpoints.get("enabled") is False:
            return f"checkpoints.enabled is false in {file}"
    return None


def claude_cleanup_days(environment: Mapping[str, str], user_home: Path) -> tuple[object, Path] | None:
    """Claude Code's `cleanupPeriodDays` as it stands in the user's settings, unchecked, and their file."""
    file = _claude_settings(environment, user_home)
    settings = _read(file)
    return (settings["cleanupPeriodDays"], file) if "cleanupPeriodDays" in settings else None


def _claude_opted_out(environment: Mapping[str, str], file: Path) -> str | None:
    if environment.get(_CLAUDE_SWITCH, "").lower() in _ON:
        return f"{_CLAUDE_SWITCH} is set"
    settings = _read(file)
    variables = settings.get("env")
    if isinstance(variables, dict) and str(variables.get(_CLAUDE_SWITCH, "")).lower() in _ON:
        return f"{_CLAUDE_SWITCH} is set in {file}"
    if settings.get("fileCheckpointingEnabled") is False:
        return f"fileCheckpointingEnabled is false in {file}"
    return None


def _claude_settings(environment: Mapping[str, str], user_home: Path) -> Path:
    named = environment.get("CLAUDE_CONFIG_DIR")
    return (Path(named) if named else user_home / ".claude") / "settings.json"


def _pi_settings(environment: Mapping[str, str], user_home: Path) -> Path:
    named = environment.get("PI_CODING_AGENT_DIR")
    if named and named.startswith("~/"):
        named = str(user_home / named[2:])
    return (Path(named) if named else user_home / ".pi" / "agent") / "settings.json"


def _read(file: Path) -> dict[str, object]:
    try:
        settings: object = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError):
        return {}
    return settings if isinstance(settings, dict) else {}
