"""A rewind whose disk fills up anywhere: as before, or as it says, and the next command goes on from it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from mmap import mmap
from pathlib import Path
from typing import Any

import pytest

from cli import going_back
from cli.main import main
from tests import faults
from tests.faults import effect, effects, out_of_room
from tests.flow.agents import Claude
from tests.flow.conftest import snapshot
from tests.flow.within import Within

REWIND = ("rewind", "2", "--json")
COARSE, STRIDE = 25, 3
"""Of the effects before the first path is touched, where nothing can stand half done, and of the others,
every so many are tried."""
PAGE = 4096


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    """What was written is brought onto the disk also where there is no more room."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(faults, "_TAKES_ROOM", faults._TAKES_ROOM - {"sync"})
    return Within(tmp_path / "recorder", monkeypatch)


def wild(folder: Path) -> None:
    (folder / "notes.md").write_text("written over\n")
    (folder / "src" / "app.py").unlink()
    (folder / "made").mkdir()
    (folder / "made" / "new").write_text("x\n")


def recorded(within: Within, folder: Path) -> Claude:
    agent = Claude(within.claude_folder, folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda one: one.write("early.txt", "1\n"))
        watcher.prompt(agent, "second", lambda one: one.shell("…", lambda: wild(folder)))
    return agent


def state(folder: Path, agent: Claude) -> tuple[Any, Any]:
    """The files, and where the conversation goes on."""
    last = json.loads(agent.log.read_bytes().splitlines()[-1])
    return snapshot(folder), last["leafUuid"] if last["type"] == "last-prompt" else last["uuid"]


def rewound(folder: Path, said: mmap) -> None:
    """The command, with its steps told as effects; what it answers goes into memory, where there is room."""
    going_back.carry_out = partial(going_back.carry_out, before_step=effect)
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(REWIND)
    words = json.dumps([code, out.buffer.getvalue().decode(), err.getvalue()])  # type: ignore[attr-defined]
    said[:] = words.encode().ljust(len(said))


def warned(document: Any) -> set[str]:
    return {one["code"] for one in document["warnings"]}


def check(answer: list[Any], now: Any, before: Any, goal: Any, *, where: object) -> None:
    """That an answer tells the truth of what stands there now."""
    code, out, err = answer
    assert "internal error" not in err, (where, answer)
    if code == 0:
        document = json.loads(out)
        assert now == goal and warned(document) <= {"uncaptured"}, (where, answer)
    elif code == 6:
        document = json.loads(out)
        meant = before if document["files"]["unrecovered"] or "unrecorded" in warned(document) else goal
        differing = {path for path in {*now[0], *meant[0]} if now[0].get(path) != meant[0].get(path)}
        assert differing <= set(document["files"]["unrecovered"]), (where, answer)
        assert now[1] == meant[1] or document["conversation"]["status"] == "failed", (where, answer)
    else:
        assert code in (1, 4) and now == before, (where, answer)


def test_full_at_any_effect(within: Within, folder: Path) -> None:
    """Exit 1 says that files and conversation are from before, and they are; 0 and 6 that they stand as
    planned. With room again the next command is clean, and what was done can be taken back exactly."""
    agent, said = recorded(within, folder), mmap(-1, 1 << 16)
    before = state(folder, agent)
    names = effects(lambda: rewound(folder, said))
    goal = state(folder, agent)
    assert json.loads(said[:])[0] == 0 and goal[0] != before[0] and goal[1] != before[1]
    within.run("rewind", "--undo", cwd=folder)
    first, codes, reached = names.index("apply"), [], True
    for at in [*range(0, first, COARSE), *range(first, len(names), STRIDE)]:
        if not reached:
            break
        reached = out_of_room(at, lambda: rewound(folder, said))
        answer = json.loads(said[:])
        check(answer, state(folder, agent), before, goal, where=(at, names[at]))
        codes.append(answer[0])
        within.run("watch", "--once", cwd=folder)
        assert not list(folder.rglob(".recorder-*")), (at, answer)
        if state(folder, agent) != before:
            within.run("rewind", "--undo", cwd=folder)
        assert state(folder, agent) == before, (at, answer)
    assert {0, 1} <= set(codes)


@pytest.fixture
def small(within: Within) -> Iterator[Path]:
    """The home's own file system, of a few megabytes; the work tree and the agent's log lie elsewhere."""
    within.home.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "tmpfs", str(within.home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield within.home
    subprocess.run(["umount", "-l", str(within.home)], check=False)


@contextlib.contextmanager
def room_left(home: Path, room: int) -> Iterator[None]:
    """All of a file system but so many bytes is taken."""
    filler = home / "tmp-filler"
    found = os.statvfs(home)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - room)
    yield
    filler.unlink()


def test_a_home_with_little_room(small: Path, within: Within, folder: Path) -> None:
    """Whatever is left in the home alone: exit 1 and all is as before, at once and the conversation too, or
    exit 0 and all is as planned, with a word where the state after it is not captured yet. With room again
    nothing is left behind, and an undo is exact."""
    agent = recorded(within, folder)
    before = state(folder, agent)
    within.run(*REWIND, cwd=folder)
    goal = state(folder, agent)
    within.run("rewind", "--undo", cwd=folder)
    assert state(folder, agent) == before
    seen = set()
    for pages in range(0, 400, 3):
        with room_left(small, pages * PAGE):
            code, out, err = within.run(*REWIND, cwd=folder, check=None)
            check([code, out.decode(), err], state(folder, agent), before, goal, where=pages)
        words = warned(json.loads(out)) if code == 0 or b'"status"' in out else set()
        seen.add((code, *words))
        within.run("watch", "--once", cwd=folder)
        assert not list(folder.rglob(".recorder-*")), pages
        if code == 0:
            within.run("rewind", "--undo", cwd=folder)
        assert state(folder, agent) == before, pages
        if code == 0 and not words:
            break
    assert {(1, "unrecorded"), (0, "uncaptured"), (0,)} <= seen
