"""Hooks go into Claude Code's settings beside what stands there, and out again without a trace."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli.installing.base import Where, carry_out
from cli.installing.claude import INSTALLER, hooks, place
from recorder.errors import Refused
from recorder.sources.claude_hooks import EVENTS
from tests.flow.conftest import Recorder

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
ENTRY = st.fixed_dictionaries(
    {"hooks": st.lists(st.fixed_dictionaries({"type": st.just("command"), "command": st.text(max_size=9)}))}
)
HOOKS = st.dictionaries(st.sampled_from([*EVENTS, "Notification"]), st.lists(ENTRY, max_size=2), max_size=4)
SETTINGS = st.builds(
    lambda others, hooks, first: {**hooks, **others} if first else {**others, **hooks},
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), VALUES, max_size=4),
    st.just({}) | st.builds(lambda hooks: {"hooks": hooks}, HOOKS),
    st.booleans(),
)
FORMATS = st.sampled_from(
    [
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"indent": None},
        {"separators": (",", ":")},
        {"indent": 2, "ensure_ascii": False},
    ]
)


def where(folder: Path, **news: Any) -> Where:
    known = {
        "scope": "user",
        "folder": folder / "project",
        "user_home": folder / "user",
        "environment": {},
        "home": folder / "recorder home",
        "budget_ms": 2000,
    }
    return Where(**{**known, **news})


def put(here: Where, content: bytes | None) -> Path:
    path, _ = place(here)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(SETTINGS, FORMATS, st.sampled_from(["", "\n", "\r\n"]))
def test_in_and_out_again(tmp_path: Path, document: Any, form: Any, end: str) -> None:
    """Whatever the settings are and however they are written: with the hooks in, everything else is as it
    was; a second time changes nothing; out again gives the very bytes back."""
    here = where(tmp_path)
    before = (json.dumps(document, **form) + end).encode()
    path = put(here, before)
    carry_out(INSTALLER.install(here))
    after = json.loads(path.read_bytes())
    for event, entry in hooks(here).items():
        assert after["hooks"][event].pop() == entry
    emptied = {event for event in EVENTS if event not in document.get("hooks", {})}
    after["hooks"] = {event: entries for event, entries in after["hooks"].items() if event not in emptied}
    if "hooks" not in document:
        assert after.pop("hooks") == {}
    assert after == document
    assert INSTALLER.install(here) == []
    carry_out(INSTALLER.uninstall(here))
    assert path.read_bytes() == before
    assert INSTALLER.uninstall(here) == []
    assert not (tmp_path / "recorder home" / "installed").exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(SETTINGS, FORMATS)
def test_changed_meanwhile(tmp_path: Path, document: Any, form: Any) -> None:
    """Settings that the user changed while the hooks were in keep the change, byte for byte, when they go."""
    here = where(tmp_path)
    path = put(here, json.dumps(document, **form).encode())
    carry_out(INSTALLER.install(here))
    text = path.read_text()
    path.write_text(text[: text.rindex("}")] + ', "zz-mine"  :  [ 1,2 ]}\n')
    carry_out(INSTALLER.uninstall(here))
    left = path.read_text()
    assert '"zz-mine"  :  [ 1,2 ]' in left and "hook_client" not in left
    kept = json.loads(left)
    assert kept.pop("zz-mine") == [1, 2]
    empty = {event: [] for event in EVENTS}
    assert {**empty, **kept.pop("hooks", {})} == {**empty, **document.pop("hooks", {})}
    assert kept == document


@pytest.mark.parametrize("before", [None, b"", b"{}", b"{ }\n", b'{"hooks": {}}', b'{"hooks": {"Stop": []}}'])
def test_empty_settings(before: bytes | None, tmp_path: Path) -> None:
    """Missing and empty files and empty lists come back as they were."""
    here = where(tmp_path)
    path = put(here, before)
    carry_out(INSTALLER.install(here))
    assert set(json.loads(path.read_bytes())["hooks"]) == set(EVENTS)
    carry_out(INSTALLER.uninstall(here))
    assert (path.read_bytes() if path.exists() else None) == before


def test_an_older_version_is_replaced(tmp_path: Path) -> None:
    """Hooks with another budget, or of a recorder that moved, are replaced in their place, and going out
    later still gives back what was there before the first of them."""
    before = b'{\n  "model": "x"\n}\n'
    path = put(where(tmp_path), before)
    for budget in (2000, 500, 800):
        carry_out(INSTALLER.install(where(tmp_path, budget_ms=budget)))
        text = path.read_text()
        assert text.count("hook_client.py claude") == len(EVENTS) and f" {budget} " in text
    carry_out(INSTALLER.uninstall(where(tmp_path)))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff{}", b'{"hooks": []}', b'{"hooks": {"Stop": {}}}', b"[" * 100_000]
)
def test_settings_that_cannot_be_understood_are_left_alone(content: bytes, tmp_path: Path) -> None:
    """The refusal names the file, and nothing is written."""
    here = where(tmp_path)
    path = put(here, content)
    with pytest.raises(Refused) as refused:
        INSTALLER.install(here)
    assert str(path) in refused.value.message
    assert path.read_bytes() == content


def test_the_line_is_silent_where_the_recorder_is_gone(tmp_path: Path) -> None:
    """The very line that is installed ends well and says nothing when its script or its Python is not there,
    and runs the client when they are, however odd the paths."""
    here = where(tmp_path / "o'dd $(touch x) name")
    line = hooks(here)["Stop"]["hooks"][0]["command"]
    for gone in (line, line.replace("hook_client.py", "gone.py"), line.replace("bin/python", "bin/gone")):
        done = subprocess.run(["sh", "-c", gone], input=b"{}", capture_output=True, cwd=tmp_path, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not (tmp_path / "x").exists()


def test_by_the_command_line(recorder: Recorder, folder: Path) -> None:
    """A dry run shows the change and makes none; the scopes go into the user's and into the project's own,
    unshared settings; what is not there is said."""
    path = recorder.claude_folder / "settings.json"
    planned = recorder.json("install", "claude", "--dry-run", cwd=folder)
    assert planned["status"] == "planned" and not path.exists()
    assert recorder.json("install", "claude", cwd=folder)["status"] == "done"
    assert recorder.json("install", "claude", cwd=folder)["status"] == "noop"
    recorder.run("install", "claude", "--scope", "project", cwd=folder)
    assert (folder / ".claude" / "settings.local.json").exists()
    recorder.run("uninstall", "claude", "--scope", "project", cwd=folder)
    assert not (folder / ".claude").exists()
    recorder.run("uninstall", "claude", cwd=folder)
    assert not path.exists()
    assert recorder.run("install", "nobody", cwd=folder, check=2).err
