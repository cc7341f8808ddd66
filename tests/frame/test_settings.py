"""The settings, where each value comes from, and what is no good."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from recorder.agent_switches import opted_out
from recorder.errors import UsageProblem
from recorder.settings import (
    KEYS,
    LoadedSettings,
    Origin,
    Settings,
    config_file,
    load_settings,
    value_from_toml,
    value_from_words,
)

DOCUMENTED = {
    "enabled": True,
    "retention_days": 30,
    "max_checkpoints": 100,
    "max_store_bytes": 10 * 1024**3,
    "max_untracked_bytes": 2 * 1024**2,
    "max_outside_bytes": 8 * 1024**2,
    "exclude": (),
    "include_ignored": (),
    "hook_budget_ms": 2000,
    "redact": True,
}


class Place:
    """A user's home, configuration file and project to write settings into."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.file = folder / "config.toml"
        self.project = folder / "project"
        self.home.mkdir()
        self.project.mkdir()

    def load(self, **environment: str) -> LoadedSettings:
        return load_settings(environment, project=self.project, file=self.file, user_home=self.home)

    def agent_settings(self, name: str, content: object) -> Path:
        file = self.home / name / "settings.json"
        file.parent.mkdir(parents=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return file


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_defaults(place: Place) -> None:
    """Every documented setting with its documented default, and no other."""
    loaded = place.load()

    assert {key: getattr(loaded.settings, key) for key in KEYS} == DOCUMENTED
    assert loaded.origins == {key: Origin() for key in DOCUMENTED}
    assert loaded.warnings == ()


def test_environment_over_file_over_default(place: Place) -> None:
    """Each value knows where it comes from."""
    place.file.write_text('retention_days = 7\nmax_checkpoints = 5\nexclude = ["a", "b c"]\nredact = false\n')

    loaded = place.load(
        RECORDER_MAX_CHECKPOINTS="6", RECORDER_ENABLED="false", RECORDER_INCLUDE_IGNORED="x, y/*.z"
    )

    assert loaded.warnings == ()
    assert loaded.settings == Settings(
        retention_days=7, max_checkpoints=6, exclude=("a", "b c"), redact=False, enabled=False,
        include_ignored=("x", "y/*.z"),
    )  # fmt: skip
    assert loaded.origins["retention_days"] == Origin("file", place.file)
    assert loaded.origins["max_checkpoints"] == Origin("environment")
    assert loaded.origins["hook_budget_ms"] == Origin()


def test_a_bad_value_warns_once_and_the_default_holds(place: Place) -> None:
    """The sentence names file and line; the good values beside it hold."""
    place.file.write_text(
        "# comment\nretention_days = 0\nmax_checkpoints = 5\n"
        'redact = "sometimes"\nexclude = [1]\nretention_day = 3\n[table]\nx = 1\n'
    )

    loaded = place.load(RECORDER_HOOK_BUDGET_MS="soon")

    assert loaded.settings == Settings(max_checkpoints=5)
    assert len(loaded.warnings) == 6
    for line, word in (
        (2, "retention_days"),
        (4, "redact"),
        (5, "exclude"),
        (6, "retention_day"),
        (7, "table"),
    ):
        [warning] = [one for one in loaded.warnings if f"{place.file}, line {line}:" in one]
        assert word in warning
    assert any("did you mean retention_days" in one for one in loaded.warnings)
    assert any("RECORDER_HOOK_BUDGET_MS" in one for one in loaded.warnings)


def test_a_bad_environment_leaves_the_files_value(place: Place) -> None:
    """What would hold without the bad value holds."""
    place.file.write_text("retention_days = 7\n")

    loaded = place.load(RECORDER_RETENTION_DAYS="-1")

    assert loaded.settings.retention_days == 7
    assert loaded.origins["retention_days"] == Origin("file", place.file)


@pytest.mark.parametrize("content", [b"retention_days = = 3\n", b"\xff\xfe", b"retention_days"])
def test_a_file_that_is_no_toml_is_one_warning(place: Place, content: bytes) -> None:
    """It names the file, and nothing of it is taken."""
    place.file.write_bytes(content)

    loaded = place.load()

    assert loaded.settings == Settings()
    assert len(loaded.warnings) == 1
    assert str(place.file) in loaded.warnings[0]


def test_a_file_that_cannot_be_read_is_one_warning(place: Place) -> None:
    """A folder in its place, for one."""
    place.file.mkdir()

    assert len(place.load().warnings) == 1


def test_a_project_adds_to_exclude_and_nothing_else(place: Place) -> None:
    """The user's patterns stay; whatever else the project's file says is left out with one warning."""
    place.file.write_text('exclude = ["mine"]\n')
    file = place.project / ".recorder.toml"
    file.write_text('exclude = ["theirs"]\nenabled = false\nretention_days = 1\nredact = false\n')

    loaded = place.load()

    assert loaded.settings == Settings(exclude=("mine", "theirs"))
    assert loaded.origins["exclude"] == Origin("project", file)
    assert len(loaded.warnings) == 1
    assert f"{file}, line 2" in loaded.warnings[0]
    assert "enabled, retention_days, redact" in loaded.warnings[0]


def test_a_projects_bad_exclude_leaves_the_users(place: Place) -> None:
    """A hostile value does not take the user's own patterns away."""
    place.file.write_text('exclude = ["mine"]\n')
    (place.project / ".recorder.toml").write_text('exclude = "all"\n')

    loaded = place.load()

    assert loaded.settings.exclude == ("mine",)
    assert loaded.origins["exclude"].kind == "file"
    assert len(loaded.warnings) == 1


def test_a_hostile_project_file_is_not_waited_for_nor_swallowed(place: Place) -> None:
    """A pipe is no file; a huge file is left out with a warning."""
    os.mkfifo(place.project / ".recorder.toml")
    assert place.load().warnings == ()

    (place.project / ".recorder.toml").unlink()
    (place.project / ".recorder.toml").write_text("# " + "x" * 100_000)
    assert len(place.load().warnings) == 1


def test_the_place_of_the_file() -> None:
    """The platform's config folder for `recorder`."""
    assert config_file() == Path(os.environ["XDG_CONFIG_HOME"]) / "recorder" / "config.toml"


def test_claude_codes_cleanup_period_is_the_default_retention(place: Place) -> None:
    """Its own value, wherever its settings are; ours wins over it; a bad one warns."""
    file = place.agent_settings(".claude", {"cleanupPeriodDays": 90})
    assert place.load().settings.retention_days == 90
    assert place.load().origins["retention_days"] == Origin("default", file)
    assert place.load(CLAUDE_CONFIG_DIR=str(place.project)).settings.retention_days == 30

    place.file.write_text("retention_days = 7\n")
    assert place.load().settings.retention_days == 7

    place.file.unlink()
    file.write_text('{"cleanupPeriodDays": "many"}')
    loaded = place.load()
    assert loaded.settings.retention_days == 30
    assert len(loaded.warnings) == 1


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({}, {"CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING": "1"}),
        ({}, {"CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING": "true"}),
        ({"env": {"CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING": "1"}}, {}),
        ({"fileCheckpointingEnabled": False}, {}),
    ],
)
def test_claude_codes_own_switch_is_honoured(
    place: Place, settings: object, environment: dict[str, str]
) -> None:
    """By variable or by setting; the reason is told; other agents are not meant."""
    place.agent_settings(".claude", settings)

    reason = opted_out("claude", environment, place.home)

    assert reason is not None
    assert "heckpointing" in reason.lower()
    assert opted_out("pi", environment, place.home) is None


def test_pis_own_switch_is_honoured(place: Place) -> None:
    """In pi's own settings, wherever its folder is."""
    file = place.agent_settings(".pi/agent", {"checkpoints": {"enabled": False}})

    assert opted_out("pi", {}, place.home) == f"checkpoints.enabled is false in {file}"
    assert opted_out("claude", {}, place.home) is None
    assert opted_out("pi", {"PI_CODING_AGENT_DIR": str(place.project)}, place.home) is None
    assert opted_out("pi", {"PI_CODING_AGENT_DIR": "~/.pi/agent"}, place.home) is not None


@pytest.mark.parametrize(
    "content", ["{", "[]", "", '{"checkpoints": 1, "env": 2}', '{"checkpoints": {"enabled": 0}}']
)
def test_odd_agent_settings_opt_nobody_out(place: Place, content: str) -> None:
    """Unreadable or odd settings of an agent are no wish."""
    place.agent_settings(".claude", content)
    place.agent_settings(".pi/agent", content)

    assert opted_out("claude", {"CLAUDE_CODE_DISABLE_FILE_CHECKPOINTING": "0"}, place.home) is None
    assert opted_out("pi", {}, place.home) is None
    assert place.load().warnings == ()


def test_values_from_words_and_from_toml() -> None:
    """Words are read by the key's type; TOML's types are taken strictly."""
    assert value_from_words("retention_days", ["7"]) == 7
    assert value_from_words("enabled", ["false"]) is False
    assert value_from_words("exclude", []) == ()
    assert value_from_words("exclude", ["a", "7"]) == ("a", "7")
    for key, words in (
        ("retention_days", ["1", "2"]),
        ("retention_days", ["1.5"]),
        ("enabled", ["maybe"]),
        ("nope", ["1"]),
    ):
        with pytest.raises(UsageProblem):
            value_from_words(key, words)
    for key, value in (
        ("retention_days", "7"),
        ("retention_days", True),
        ("enabled", 1),
        ("exclude", ["a\nb"]),
    ):
        with pytest.raises(UsageProblem):
            value_from_toml(key, value)
