"""`recorder install pi` puts one file into pi's folder, `uninstall` takes it out; nothing else changes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.flow import conftest as flow
from tests.flow.conftest import ENTRY, Recorder

recorder, folder = flow.recorder, flow.folder


def everything(top: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(top)): path.read_bytes() if path.is_file() else None for path in top.rglob("*")
    }


@pytest.fixture
def agent(recorder: Recorder) -> Path:
    """pi's folder with settings and an extension of somebody else's."""
    (recorder.pi_folder / "extensions").mkdir(parents=True)
    (recorder.pi_folder / "settings.json").write_bytes(b'{ "theme":"dark" }')
    (recorder.pi_folder / "extensions" / "other.ts").write_text("export default () => {};\n")
    return recorder.pi_folder


def test_it_comes_and_goes(recorder: Recorder, agent: Path, folder: Path) -> None:
    """Again changes nothing; the dry run shows what would be; taken out, all is byte by byte as before."""
    before = everything(agent)
    place = agent / "extensions" / "recorder.ts"

    shown = recorder.run("install", "pi", "--dry-run", cwd=folder).out.decode()
    assert f"+++ {place}" in shown and everything(agent) == before and not recorder.home.exists()

    done = recorder.json("install", "pi", cwd=folder)
    assert (done["status"], [one["change"] for one in done["files"]]) == ("done", ["added"])
    assert recorder.home.is_dir()
    assert everything(agent).keys() - before.keys() == {"extensions/recorder.ts"}
    again = recorder.json("install", "pi", cwd=folder)
    assert (again["status"], again["files"]) == ("noop", [])

    assert recorder.json("uninstall", "pi", "--dry-run", cwd=folder)["status"] == "planned"
    assert place.exists()
    assert recorder.json("uninstall", "pi", cwd=folder)["status"] == "done"
    assert everything(agent) == before
    assert recorder.json("uninstall", "pi", cwd=folder)["status"] == "noop"


def test_into_a_project(recorder: Recorder, folder: Path) -> None:
    """Into the folder where pi looks for a project's extensions; the folders made for it go with it."""
    (folder / "a.txt").write_text("a")
    before = everything(folder)
    recorder.run("install", "pi", "--scope", "project", cwd=folder)
    assert (folder / ".pi" / "extensions" / "recorder.ts").is_file()
    assert not recorder.pi_folder.exists()
    recorder.run("uninstall", "pi", "--scope", "project", cwd=folder)
    assert everything(folder) == before


def test_it_is_one_module_that_needs_nothing(recorder: Recorder, agent: Path, folder: Path) -> None:
    """Of imports only node's own; where the recorder is stands in one place, absolute, whatever the names."""
    recorder.home = recorder.base / 'ho"me\\ ü'
    recorder.environment["RECORDER_HOME"] = str(recorder.home)
    recorder.run("install", "pi", cwd=folder)
    text = (agent / "extensions" / "recorder.ts").read_text()

    assert all(
        re.fullmatch(r'import \* as \w+ from "node:\w+";', one) for one in re.findall("^import.*", text, re.M)
    )
    assert re.findall("^export.*", text, re.M) == ["export default function recorder(pi: any): void {"]
    names = re.findall(r"^(?:export default )?(?:async )?(?:const|let|function|type) (\w+)", text, re.M)
    assert len(names) == len(set(names)) > 50, "the parts of one module share their names"
    (baked,) = [
        line for line in text.splitlines() if line.endswith("/* baked in by `recorder install pi` */")
    ]
    assert baked.isascii() and sys.executable in baked and str(ENTRY) in baked
    assert 'ho\\"me\\\\ \\u00fc' in baked


def test_an_older_one_is_replaced(recorder: Recorder, agent: Path, folder: Path) -> None:
    """Of another home, say; a link to it, and its mode, stay."""
    place, elsewhere = agent / "extensions" / "recorder.ts", folder / "kept.ts"
    recorder.run("install", "pi", cwd=folder)
    newest = place.read_bytes()
    elsewhere.write_bytes(newest.replace(b"const", b"let", 1))
    elsewhere.chmod(0o640)
    place.unlink()
    place.symlink_to(elsewhere)

    assert [one["change"] for one in recorder.json("install", "pi", cwd=folder)["files"]] == ["modified"]
    assert place.is_symlink() and elsewhere.read_bytes() == newest
    assert elsewhere.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_what_is_not_ours_stays(recorder: Recorder, agent: Path, folder: Path, command: str) -> None:
    """A file of somebody else's by the same name is neither overwritten nor removed."""
    place = agent / "extensions" / "recorder.ts"
    place.write_text("// mine\n")
    refused = recorder.json(command, "pi", cwd=folder, check=4)
    assert refused["error"]["code"] == "not_ours"
    assert place.read_text() == "// mine\n"


def test_an_agent_that_there_is_not(recorder: Recorder, folder: Path) -> None:
    assert recorder.json("install", "nobody", cwd=folder, check=2)["error"]["code"] == "no_agent"
