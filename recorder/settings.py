"""The settings: what they are and where each value comes from.

Owns reading and checking them; the command `config` writes `config.toml`. A bad value is a warning in
the result, and what would hold without it holds: nothing here prints. A project's own file can narrow
what is captured and do nothing else.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec

from recorder.agent_switches import claude_cleanup_days
from recorder.errors import UsageProblem

PREFIX = "RECORDER_"
PROJECT_FILE = ".recorder.toml"
PROJECT_FILE_BYTES = 64 << 10

_Days = Annotated[int, msgspec.Meta(ge=1, le=36_500)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
_Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Pattern = Annotated[str, msgspec.Meta(min_length=1, pattern=r"^[^\x00\r\n]*$")]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The values in force. Sizes are in bytes, patterns as in `.gitignore`."""

    enabled: bool = True
    retention_days: _Days = 30
    max_checkpoints: _Count = 100
    max_store_bytes: _Count = 10 << 30
    max_untracked_bytes: _Amount = 2 << 20
    max_outside_bytes: _Amount = 8 << 20
    exclude: tuple[_Pattern, ...] = ()
    include_ignored: tuple[_Pattern, ...] = ()
    hook_budget_ms: _Amount = 2000
    redact: bool = True


class Origin(msgspec.Struct, frozen=True):
    """Where a value comes from: `default`, `file`, `environment` or `project`, and the file if any."""

    kind: str = "default"
    file: Path | None = None


class LoadedSettings(msgspec.Struct, frozen=True):
    """The settings, the origin of each by its key, and a sentence for each value that was no good."""

    settings: Settings
    origins: dict[str, Origin]
    warnings: tuple[str, ...] = ()


KEYS = Settings.__struct_fields__
_TYPES = get_type_hints(Settings, include_extras=True)


def config_file() -> Path:
    """The user's `config.toml`, which need not exist."""
    from platformdirs import user_config_path

    return user_config_path("recorder", appauthor=False) / "config.toml"


def load_settings(
    environment: Mapping[str, str],
    *,
    project: Path | None = None,
    file: Path | None = None,
    user_home: Path | None = None,
) -> LoadedSettings:
    """The settings in force: environment over `config.toml` over the agents' own over the defaults.

    `project` is a work tree, whose `.recorder.toml` may add to `exclude`. `file` and `user_home` are
    the platform's where not given.
    """
    reading = _Reading()
    _take_agents(reading, environment, user_home or Path.home())
    _take_file(reading, file or config_file())
    _take_environment(reading, environment)
    if project is not None:
        _take_project(reading, project / PROJECT_FILE)
    origins = {key: reading.origins.get(key, Origin()) for key in KEYS}
    return LoadedSettings(Settings(**reading.values), origins, tuple(reading.warnings))


def is_list(key: str) -> bool:
    """Whether this setting is a list. Raises UsageProblem for an unknown key."""
    return get_origin(_type(key)) is tuple


def value_from_toml(key: str, value: object) -> Any:
    """The setting's value from one of TOML's types. Raises UsageProblem for a bad value or key."""
    return _convert(key, value, strict=True)


def value_from_words(key: str, words: Sequence[str]) -> Any:
    """The setting's value from words: one number, `true` or `false`, or any number of patterns.

    Raises UsageProblem for a bad value or key.
    """
    if is_list(key):
        if any(word.startswith(('["', "['")) for word in words):
            told = f"“{key}” takes its patterns as words of their own, without brackets"
            raise UsageProblem(told, code="bad_value")
        return _convert(key, list(words), strict=True)
    if len(words) != 1:
        raise UsageProblem(f"“{key}” takes one value, not {len(words)}", code="bad_value")
    return _convert(key, words[0], strict=False)


class _Reading:
    """What was read so far; what is taken later wins."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self.warnings: list[str] = []

    def take(self, key: str, value: object, origin: Origin, where: str) -> None:
        try:
            if origin.kind == "environment":
                self.values[key] = value_from_words(key, _words(key, str(value)))
            else:
                self.values[key] = value_from_toml(key, value)
            self.origins[key] = origin
        except UsageProblem as problem:
            self.warnings.append(f"{where}: {problem.message}; it is left out")


def _take_agents(reading: _Reading, environment: Mapping[str, str], user_home: Path) -> None:
    found = claude_cleanup_days(environment, user_home)
    if found is not None:
        days, file = found
        reading.take("retention_days", days, Origin("default", file), f"{file}, cleanupPeriodDays")


def _take_file(reading: _Reading, file: Path) -> None:
    text, values = _read(reading, file)
    for key, value in values.items():
        reading.take(key, value, Origin("file", file), f"{file}, line {_line(text, key)}")


def _take_environment(reading: _Reading, environment: Mapping[str, str]) -> None:
    for key in KEYS:
        name = PREFIX + key.upper()
        if name in environment:
            reading.take(key, environment[name], Origin("environment"), f"{name} in the environment")


def _take_project(reading: _Reading, file: Path) -> None:
    if not file.is_file():  # a pipe would keep us waiting
        return
    if file.stat().st_size > PROJECT_FILE_BYTES:
        reading.warnings.append(f"{file}: it is larger than {PROJECT_FILE_BYTES} bytes; it is left out")
        return
    text, values = _read(reading, file)
    others = [key for key in values if key != "exclude"]
    if others:
        where = f"{file}, line {min(_line(text, key) for key in others)}"
        reading.warnings.append(f"{where}: a project may only set “exclude”; {', '.join(others)}: left out")
    if "exclude" in values:
        before = reading.values.get("exclude", ())
        where = f"{file}, line {_line(text, 'exclude')}"
        reading.take("exclude", values["exclude"], Origin("project", file), where)
        if reading.origins.get("exclude") == Origin("project", file):
            reading.values["exclude"] = (*before, *reading.values["exclude"])


def _read(reading: _Reading, file: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = file.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        reading.warnings.append(f"{file}: it cannot be read ({error.strerror}); it is left out")
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reading.warnings.append(f"{file}: it is not TOML ({error}); it is left out")
    return "", {}


def _line(text: str, key: str) -> int:
    """The number of the line that sets a key; 1 where it cannot be told."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""", line):
            return number
    return 1


def _words(key: str, text: str) -> list[str]:
    """A list's values are separated by commas in the environment."""
    if not is_list(key):
        return [text]
    return [word.strip() for word in text.split(",") if word.strip()]


def _type(key: str) -> Any:
    if key not in _TYPES:
        from difflib import get_close_matches

        near = get_close_matches(key, KEYS, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else f"; there are {', '.join(KEYS)}"
        raise UsageProblem(f"there is no setting “{key}”{hint}", code="unknown_setting", near=near)
    return _TYPES[key]


def _convert(key: str, value: object, *, strict: bool) -> Any:
    try:
        return msgspec.convert(value, _type(key), strict=strict)
    except msgspec.ValidationError as error:
        reason = str(error).split(" - at ")[0]
        raise UsageProblem(f"“{key}” cannot be {value!r} ({reason})", code="bad_value") from None
