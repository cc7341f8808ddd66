"""Files that the tree cannot see and that a tool names: kept, taken back and put on at their real place, by
whatever way they are named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capture.helpers import commit_all, everything, make_repository, write
from tests.flow.agents import Claude, Pi
from tests.flow.within import Within
from tests.places.journey import furnish, same


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = make_repository(tmp_path / "w")
    furnish(folder)
    write(folder / ".gitignore", "out/\n")
    commit_all(folder)
    return folder


WAYS = {
    "ignored": ("w/out/file", "{root}/out/file"),
    "beside": ("beside/file", "{root}/../beside/file"),
    "home": ("user/file", "~/file"),
    "link": ("beside/file", "{root}/link/file"),
    "dotted": ("w/beside/file", "{root}/./kept/../link/../beside/file"),
    "spaces": ("beside/a\u00a0b\u202fc", "{base}/beside/a\u00a0b\u202fc"),
    "another mount": ("mounted/file", "{base}/mounted/file"),
    "in a linked work tree": ("side/file", "{base}/side/file"),
    "in git's folder": ("w/.git/description", "{root}/.git/description"),
}


@pytest.mark.parametrize("kind", ["pi", "claude"])
@pytest.mark.parametrize("way", WAYS)
def test_there_and_back(
    way: str,
    kind: str,
    within: Within,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Named twice, taken back once: its content of between comes back, and nothing beside it is touched.
    As the agents do: dots go by the names alone, whatever is a link, and pi takes Unicode's spaces for plain
    ones."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    (tmp_path / "user").mkdir()
    if way == "another mount":
        request.getfixturevalue("mounted")("-t", "tmpfs", "tmpfs", at=tmp_path / "mounted")
    if way in ("link", "dotted"):
        (root / "link").symlink_to("../beside")
    place, name = WAYS[way]
    real = tmp_path / (place.replace("\u00a0", " ").replace("\u202f", " ") if kind == "pi" else place)
    write(real.with_name("neighbour"), "never touched\n")
    agent = within.agent(kind, root)
    spelled = name.format(root=root, base=tmp_path)
    with within.watching() as watcher:
        for content in ("first\n", "second\n"):
            watcher.prompt(agent, "write", writing(spelled, real, content))
    neighbours = around(real)
    done = within.json("rewind", "2", "--files", "--session", agent.session, cwd=root, check=None)
    if way == "in git's folder":
        assert real.read_text() == "second\n" and done["files"]["unrecovered"] == [str(real)], done
        return
    assert real.read_text() == "first\n", done
    same(neighbours, around(real))
    within.json("rewind", "--undo", cwd=root)
    assert real.read_text() == "second\n"


def writing(spelled: str, real: Path, content: str) -> Callable[[Pi | Claude], object]:
    """A named write of a file, as a tool is asked for it and where it lands."""

    def act(agent: Pi | Claude) -> None:
        if isinstance(agent, Pi):
            agent.use("write", {"path": spelled, "content": content}, lambda: write(real, content))
        else:
            result = {"type": "update", "filePath": spelled, "content": content, "originalFile": None}
            arguments: dict[str, object] = {"file_path": spelled, "content": content}
            agent.use("Write", arguments, lambda: write(real, content), result)

    return act


def around(real: Path) -> dict[bytes, tuple[object, ...]]:
    kept = everything(real.with_name("neighbour").parent)
    return {path: seen for path, seen in kept.items() if os.path.basename(path) == b"neighbour"}
