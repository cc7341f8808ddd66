"""Names, kinds, contents and modes: what an agent's shell did to them is taken back, done again and taken
back again, and everything that it did not touch is the very same thing, by inode and times."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.capture.helpers import make_repository, run_git
from tests.fidelity.cases import PLAIN, READABLE, ROOTS
from tests.fidelity.check import complaints
from tests.fidelity.listing import below
from tests.fidelity.play import Case, Played, play
from tests.flow.within import Within
from tests.rights import BOUND_BY_MODES

EVERY = [*PLAIN, *(ROOTS if os.geteuid() == 0 else [])]
SHAPES = [case for case in PLAIN if case.name.startswith(("kind", "rename", "link", "twin"))]


def came_back(cases: Sequence[Case], played: Played) -> None:
    assert [one.get("status") for one in played.told] == ["done"] * 3
    assert {case.name: said for case in cases if (said := complaints(case, played))} == {}


def test_in_a_plain_folder(within: Within, root: Path) -> None:
    """Rewind, undo and redo of every case in a folder without git."""
    came_back(EVERY, play(within, root, EVERY))


def test_in_a_repository(within: Within, root: Path) -> None:
    """The same in a repository, where git tracks every second case as far as it can; of the repository itself
    not a byte, a time or an inode is touched."""
    make_repository(root)

    def commit() -> None:
        for case in EVERY[::2]:
            subprocess.run(
                ["git", "-C", root, "add", "-A", "--", case.name], capture_output=True, check=False
            )
        run_git(root, "commit", "-q", "-m", "x")

    played = play(within, root, EVERY, kind="claude", settle=commit)
    came_back(EVERY, played)
    first, *others = (below(stop, b".git") for stop in played.stops)
    assert len(first) > 20
    assert all(other == first for other in others)


def test_the_whole_tree(within: Within, root: Path) -> None:
    """`--scope tree` brings the same back, and touches as little."""
    came_back(SHAPES, play(within, root, SHAPES, "--scope", "tree"))


def test_without_roots_rights(tmp_path: Path) -> None:
    """The same for somebody whom modes bind: folders that may not be written, files that may not."""
    command = [*BOUND_BY_MODES, sys.executable, "-m", "tests.fidelity.test_round_trip", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    came_back(READABLE, pickle.loads(done.stdout))


def play_without_rights(base: Path) -> None:
    root = base / "project"
    root.mkdir()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(os, "fsync", lambda _: None)
        played = play(Within(base / "recorder", patches), root, READABLE)
    sys.stdout.buffer.write(pickle.dumps(played))


if __name__ == "__main__":
    play_without_rights(Path(sys.argv[1]))
