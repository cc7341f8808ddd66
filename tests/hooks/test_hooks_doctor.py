"""What `recorder doctor` says of the agents' hooks."""

from __future__ import annotations

from pathlib import Path

from tests.flow.conftest import Recorder
from tests.hooks.conftest import Hooks, ended


def codes(recorder: Recorder, folder: Path, check: int) -> list[str]:
    """Views that lag behind and an agent's log that nobody watches are not asked for here."""
    problems = recorder.json("doctor", cwd=folder, check=check)["problems"]
    return [one["code"] for one in problems if one["code"].startswith("hooks")]


def test_hooks_that_are_old_off_or_gone(hooks: Hooks, recorder: Recorder, folder: Path) -> None:
    """Hooks that this version would put otherwise are told and mended; switched off or taken away ones are
    told, and settings that cannot be read too."""
    settings = recorder.claude_folder / "settings.json"
    recorder.run("install", "claude", cwd=folder)
    assert codes(recorder, folder, 0) == []
    settings.write_text(settings.read_text().replace(" 2000 ", " 1000 "))
    assert codes(recorder, folder, 1) == ["hooks_outdated"]
    fixed = recorder.json("doctor", "--fix", cwd=folder)["fixed"]
    assert "hooks_outdated" in [one["code"] for one in fixed]
    assert codes(recorder, folder, 0) == []
    whole = settings.read_text()
    settings.write_text(whole.replace("{", '{"disableAllHooks": true, ', 1))
    assert codes(recorder, folder, 0) == ["hooks_off"]
    settings.write_text(whole[:-5])
    assert codes(recorder, folder, 1) == ["hooks_unreadable"]
    settings.write_text(whole)

    hooks.prompt("p1")
    hooks.stop("p1")
    hooks.tell("SessionEnd", reason="other")
    ended(recorder.home)
    assert codes(recorder, folder, 0) == []
    settings.unlink()
    assert codes(recorder, folder, 0) == ["hooks_missing"]
