"""`recorder config`: what holds and why, and setting a value without harm to the file."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from recorder.settings import KEYS, config_file

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


def document(capfd: Capture, *words: str) -> list[dict[str, Any]]:
    assert main(["config", *words, "--json"]) == 0
    answer: list[dict[str, Any]] = json.loads(capfd.readouterr().out)
    return answer


def write(text: str) -> Path:
    file = config_file()
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_list_is_the_documented_document(capfd: Capture) -> None:
    """Bare and `list` are the same: every key with value, origin and file."""
    listed = document(capfd, "list")

    assert document(capfd) == listed
    assert [one["key"] for one in listed] == list(KEYS)
    assert listed[1] == {"key": "retention_days", "value": 30, "from": "default", "file": None}


def test_origins_are_told(capfd: Capture, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """File, environment and the project that the current folder lies in."""
    file = write("retention_days = 7\n")
    monkeypatch.setenv("RECORDER_REDACT", "false")
    (folder / ".git").mkdir()
    (folder / ".recorder.toml").write_text('exclude = ["*.big"]\n')
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")

    listed = {one["key"]: one for one in document(capfd)}

    assert listed["retention_days"] == {
        "key": "retention_days",
        "value": 7,
        "from": "file",
        "file": str(file),
    }
    assert listed["redact"] == {"key": "redact", "value": False, "from": "environment", "file": None}
    assert (listed["exclude"]["value"], listed["exclude"]["from"]) == (["*.big"], "project")
    assert listed["exclude"]["file"] == str(folder / ".recorder.toml")


def test_the_table_for_people(capfd: Capture) -> None:
    """One line per setting, with its origin."""
    write('exclude = ["a", "b"]\n')

    assert main(["config"]) == 0

    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == len(KEYS) + 1
    [line] = [line for line in lines if line.startswith("exclude")]
    assert line.split()[:4] == ["exclude", "a", "b", "file"]


def test_get(capfd: Capture) -> None:
    """One value, as `set` takes it; a list one per line."""
    write('exclude = ["a b", "c"]\n')

    assert main(["config", "get", "exclude"]) == 0
    assert capfd.readouterr().out == "a b\nc\n"
    assert main(["config", "get", "redact"]) == 0
    assert capfd.readouterr().out == "true\n"
    assert document(capfd, "get", "exclude")[0]["value"] == ["a b", "c"]


def test_set_keeps_all_else_of_the_file(capfd: Capture) -> None:
    """Comments, order and other values stay; the mode too."""
    file = write("# mine\nretention_days = 7  # a week\n\nredact = true\n")
    file.chmod(0o640)

    assert main(["config", "set", "retention_days", "14"]) == 0

    assert file.read_text() == "# mine\nretention_days = 14  # a week\n\nredact = true\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert os.listdir(file.parent) == ["config.toml"]
    assert "retention_days is 14" in capfd.readouterr().out


def test_set_creates_the_file_private(capfd: Capture) -> None:
    """Its folder too; lists take any number of words."""
    assert document(capfd, "set", "exclude", "*.mp4", "data/")[0] == {
        "key": "exclude", "value": ["*.mp4", "data/"], "from": "file", "file": str(config_file()),
    }  # fmt: skip
    assert stat.S_IMODE(config_file().stat().st_mode) == 0o600

    assert document(capfd, "set", "exclude")[0]["value"] == []


def test_set_follows_a_link(capfd: Capture, tmp_path: Path) -> None:
    """Where the file is a link into somebody's dotfiles, it stays one."""
    real = tmp_path / "dotfiles.toml"
    real.write_text("retention_days = 7\n")
    config_file().parent.mkdir(parents=True)
    config_file().symlink_to(real)

    assert main(["config", "set", "retention_days", "8"]) == 0

    assert config_file().is_symlink()
    assert real.read_text() == "retention_days = 8\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["set", "retention_dayz", "3"], "did you mean retention_days?"),
        (["get", "retention_dayz"], "did you mean retention_days?"),
        (["set", "retention_days", "0"], "retention_days"),
        (["set", "retention_days", "many"], "retention_days"),
        (["set", "retention_days"], "takes one value"),
        (["set", "enabled", "perhaps"], "enabled"),
        (["frob"], "frob"),
    ],
)
def test_bad_keys_and_values_are_usage(capfd: Capture, words: list[str], says: str) -> None:
    """Exit 2, one sentence, and nothing is written."""
    assert main(["config", *words]) == 2

    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert says in err
    assert not config_file().exists()


def test_a_file_that_is_no_toml_is_not_written_over(capfd: Capture) -> None:
    """Refused: what stands there may be worth mending."""
    file = write("retention_days = = 3\n")

    assert main(["config", "set", "redact", "false"]) == 4

    assert file.read_text() == "retention_days = = 3\n"


def test_warnings_go_to_stderr(capfd: Capture) -> None:
    """The document stays a document."""
    write("retention_days = 0\n")

    assert main(["config", "--json"]) == 0

    out, err = capfd.readouterr()
    assert json.loads(out)[1]["value"] == 30
    assert err.count("line 1") == 1


def test_set_tells_that_the_environment_wins(capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the user would wonder why nothing changed."""
    monkeypatch.setenv("RECORDER_RETENTION_DAYS", "3")

    assert main(["config", "set", "retention_days", "9"]) == 0

    out, err = capfd.readouterr()
    assert "retention_days is 3" in out
    assert "RECORDER_RETENTION_DAYS" in err
