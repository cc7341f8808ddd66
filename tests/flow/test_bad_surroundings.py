"""Bad input and bad surroundings, end to end: one clear sentence, the right exit code, the rest goes on."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flow.agents import Pi, append, now
from tests.flow.conftest import ENTRY, Answer, Recorder
from tests.flow.within import APART, Within
from tests.rights import BOUND_BY_MODES


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


def one_sentence(answer: Answer) -> str:
    """What was said on stderr, which is one line and no traceback."""
    [line] = answer.err.splitlines()
    assert line.startswith("recorder: ") and "internal error" not in line, answer
    return line


def recorded(within: Within, folder: Path) -> Pi:
    agent = Pi(within.pi_folder, folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "write", lambda one: one.write("new.txt", "1\n"))
    return agent


# ---- the work tree


def test_a_work_tree_that_is_gone(within: Within, folder: Path, tmp_path: Path) -> None:
    """Gone, or replaced by another of the same name: refused; the other work trees are as ever."""
    agent = recorded(within, folder)
    other = tmp_path / "other"
    other.mkdir()
    second = recorded(within, other)
    folder.rename(tmp_path / "away")
    words = ("rewind", "1", "--session", agent.session, "--files")
    assert "is not there" in one_sentence(within.run(*words, cwd=tmp_path, check=4))
    folder.mkdir()
    assert "another folder" in one_sentence(within.run(*words, cwd=tmp_path, check=4))
    assert list(folder.iterdir()) == []
    with within.watching() as watcher:
        watcher.prompt(agent, "again")
        watcher.prompt(second, "again")
    states = [one["state"] for one in within.json("checkpoints", agent.session, cwd=tmp_path)]
    assert states == ["lost", "complete"]
    assert within.json("rewind", "1", "--session", second.session, "--files", cwd=other)["status"] == "done"


@pytest.mark.parametrize(
    ("cwd", "said"),
    [
        ("C:\\Users\\x", "not a path of this machine"),
        ("vscode-remote://ssh-remote+host/work", "not a path of this machine"),
        ("/not/there/at/all", "is not there"),
        ("relative/folder", "not a path of this machine"),
        ("/etc/passwd", "is not a folder"),
    ],
)
def test_a_folder_of_another_machine(
    cwd: str, said: str, within: Within, folder: Path, tmp_path: Path
) -> None:
    """Its conversation is recorded, its checkpoints are lost with the reason, and nothing is made there."""
    agent = Pi(within.pi_folder, folder)
    record = json.loads(agent.log.read_bytes())
    agent.log.write_text(json.dumps({**record, "cwd": cwd}) + "\n")
    with within.watching() as watcher:
        watcher.prompt(agent, "hello")
    [one] = within.json("checkpoints", agent.session, cwd=tmp_path)
    assert one["state"] == "lost" and said in one["why_not"], one
    refused = within.run("rewind", "1", "--session", agent.session, cwd=tmp_path, check=4)
    assert said in one_sentence(refused)


# ---- the home


def test_a_home_that_is_none(within: Within, tmp_path: Path) -> None:
    """A file, and somebody else's folder: nothing is written into either."""
    file, foreign = tmp_path / "file", tmp_path / "foreign"
    file.write_text("mine\n")
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine\n")
    log = str(Path(__file__).parents[1] / "samples" / "pi" / "linear.jsonl")
    for command in (("import", log), ("watch", "--once")):
        one_sentence(within.run("--home", str(file), *command, cwd=tmp_path, check=1))
        one_sentence(within.run("--home", str(foreign), *command, cwd=tmp_path, check=4))
    for home in (file, foreign):
        one_sentence(within.run("--home", str(home), "checkpoints", cwd=tmp_path, check=3))
    assert file.read_text() == "mine\n"
    assert [path.name for path in foreign.iterdir()] == ["thesis.txt"]


def test_what_may_not_be_written_or_read(recorder: Recorder, folder: Path, tmp_path: Path) -> None:
    """A home in a folder that cannot be written, and a work tree that cannot be looked into."""
    shut = tmp_path / "shut"
    shut.mkdir(mode=0o555)
    log = Path(__file__).parents[1] / "samples" / "pi" / "linear.jsonl"
    answer = bound_by_modes(recorder, "--home", str(shut / "home"), "import", str(log))
    assert answer.code == 1 and "cannot be written" in one_sentence(answer)

    agent = Pi(tmp_path / "own", folder)
    agent.give("look")
    folder.chmod(0)
    try:
        watched = bound_by_modes(recorder, "watch", "--once", str(tmp_path / "own"))
        answer = bound_by_modes(recorder, "checkpoints", agent.session, "--json")
    finally:
        folder.chmod(0o755)
    assert watched.code == 0
    [one] = answer.json
    assert one["state"] == "lost" and "cannot be read" in one["why_not"], one


def bound_by_modes(recorder: Recorder, *words: str) -> Answer:
    done = subprocess.run(
        [*BOUND_BY_MODES, sys.executable, "-I", str(ENTRY), *words],
        cwd="/", env=recorder.environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    return Answer(done.returncode, done.stdout, done.stderr.decode())


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_home_that_is_full(recorder: Recorder, small: Path, tmp_path: Path) -> None:
    """An import stops with a sentence; with room again it goes on and the log is whole."""
    log = tmp_path / "long.jsonl"
    agent = Pi(tmp_path, tmp_path)
    for number in range(400):
        agent.give(f"{number} {os.urandom(2000).hex()}")
    agent.log.rename(log)
    home = str(small / "home")
    full = recorder.run("--home", home, "import", str(log), cwd=tmp_path, check=1)
    assert "full" in one_sentence(full) or "space" in full.err
    subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
    recorder.run("--home", home, "import", str(log), cwd=tmp_path)
    found = recorder.json("--home", home, "checkpoints", agent.session, "--all-branches", cwd=tmp_path)
    assert len(found) == 400


# ---- the logs


def strange(folder: Path, cwd: Path) -> dict[str, Path]:
    """Logs as no agent should write them."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.jsonl" for name in ("garbage", "long", "knots", "clock")}
    paths["garbage"].write_bytes(os.urandom(3000) + b"\n" + os.urandom(3000) + b"\n")
    for name in ("long", "knots", "clock"):
        append(
            paths[name], {"type": "session", "version": 3, "id": name, "timestamp": now(), "cwd": str(cwd)}
        )
    append(paths["long"], message("1", None, "before the long line"))
    with paths["long"].open("r+b") as file:
        file.seek(100 << 20, os.SEEK_END)
        file.write(b"\n")
    append(paths["long"], message("2", "1", "after the long line"))
    append(
        paths["knots"],
        message("a", "b", "one of a ring"), message("b", "a", "the other"), message("c", "c", "alone"),
        message("d", "nowhere", "an orphan"), message("d", None, "the same id again"),
        message("e", "d", "the last"),
    )  # fmt: skip
    with paths["knots"].open("ab") as file:
        file.write(b"{}\n[]\nnull\n{broken\n\n\xff\xfe\n")
    append(
        paths["clock"],
        message("1", None, "now"), message("2", "1", "long ago", time="1970-01-01T00:00:00.000Z"),
        message("3", "2", "far ahead", time="9999-12-31T23:59:59.999Z"), message("4", "3", "never", time="x"),
    )  # fmt: skip
    return paths


def message(entry: str, parent: str | None, text: str, *, time: str | None = None) -> dict[str, object]:
    said = {"role": "user", "content": [{"type": "text", "text": text}]}
    return {"type": "message", "id": entry, "parentId": parent, "timestamp": time or now(), "message": said}


def test_strange_logs(within: Within, folder: Path, tmp_path: Path) -> None:
    """What is no log gets a sentence, what is no line is counted, and everything recorded can be shown."""
    paths = strange(tmp_path / "logs", folder)
    report = within.json("import", str(tmp_path / "logs"), cwd=tmp_path)
    files = {Path(one["path"]).stem: one for one in report["files"]}
    assert "no session log" in files["garbage"]["error"]
    assert files["long"]["bad_lines"] == 1 and files["long"]["entries"] == 4
    assert files["knots"]["duplicates"] == 1 and files["knots"]["bad_lines"] >= 4
    for session, prompts in (("long", 2), ("knots", 5), ("clock", 4)):
        found = within.json("checkpoints", session, "--all-branches", cwd=tmp_path)
        assert [one["number"] for one in reversed(found)] == list(range(1, prompts + 1)), session
        for command in ("checkpoints", "tree", "log"):
            within.run(command, session, cwd=tmp_path)
            within.json(command, session, cwd=tmp_path)
        within.run("show", "1", "--session", session, cwd=tmp_path)
        within.run("rewind", "1", "--session", session, cwd=tmp_path, check=4)
    within.run("sessions", "--all", cwd=tmp_path)
    assert within.run("import", str(paths["garbage"]), cwd=tmp_path, check=1).err


def test_the_watcher_survives(recorder: Recorder, folder: Path, tmp_path: Path) -> None:
    """All of that appears meanwhile, and a store breaks, which is made anew; a good session is as ever."""
    with recorder.watching() as watcher:
        broken = tmp_path / "broken"
        broken.mkdir()
        first = recorder.pi(broken)
        first.give("captured")
        recorder.wait_for(broken, first.session, 1, settled=False)
        [store] = (recorder.home / "trees").glob("*/store.git")
        shutil.rmtree(store)
        store.write_text("no store\n")
        strange(recorder.pi_folder / "sessions" / "x", folder)
        for cwd in ("C:\\x", "/not/there"):
            far = recorder.pi(folder)
            far.log.write_text(far.log.read_text().replace(json.dumps(str(folder)), json.dumps(cwd)))
            far.give("far away")
        first.give("captured again")
        time.sleep(APART)
        agent = recorder.pi(folder)
        agent.give("write")
        time.sleep(0.5)
        agent.write("new.txt", "1\n")
        agent.done()
        found = recorder.wait_for(folder, agent.session, 1)
        assert found[0]["state"] == "complete"
        recorder.wait_for(broken, first.session, 2, settled=False)
        assert watcher.poll() is None
    [two, _] = recorder.json("checkpoints", first.session, cwd=broken)
    assert two["state"] == "complete" and two["restorable"], two
    said = recorder.run("rewind", "1", "--session", first.session, "--files", cwd=broken, check=None)
    assert said.code in (0, 1, 4) and "internal error" not in said.err, said
    words = ("--files", "--while-running")
    recorder.json("rewind", "1", "--session", agent.session, *words, cwd=folder)
    assert not (folder / "new.txt").exists()
