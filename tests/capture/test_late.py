"""A capture that comes after its moment: what may have come since is not taken for the state from before."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.capture import Look, Tree
from recorder.states import PathState
from tests.capture.helpers import open_tree, write


class Moment:
    """A folder that was captured once, with files beside it that are older than that capture."""

    def __init__(self, tmp_path: Path, *, captured: bool = True) -> None:
        self.root, self.beside = tmp_path / "w", tmp_path / "beside"
        write(self.root / "kept/old", "old\n")
        write(self.beside / "deep/f", "moved\n")
        time.sleep(0.02)
        self.tree: Tree = open_tree(tmp_path, self.root)
        self.first: Look | None = self.tree.capture(previous=None) if captured else None
        time.sleep(0.02)

    def late(self, reference_at: int) -> tuple[Look, dict[bytes, PathState]]:
        look = self.tree.capture(
            previous=self.first.commit if self.first else None,
            previous_at=self.first.ended_at if self.first else None,
            looked_at=self.first.began_at if self.first else None,
            reference_at=reference_at,
        )
        return look, dict(self.tree.walk(look.commit))


def given() -> int:
    """The prompt is given now; what comes next is later by any clock."""
    moment = time.time_ns()
    time.sleep(0.02)
    return moment


@pytest.fixture
def moment(tmp_path: Path) -> Iterator[Moment]:
    found = Moment(tmp_path)
    yield found
    found.tree.close()


def test_a_folder_that_was_moved_in_after_the_prompt(moment: Moment) -> None:
    """Its files are older than the prompt, and were not there."""
    reference = given()
    os.rename(moment.beside, moment.root / "new")
    look, there = moment.late(reference)
    assert b"new/deep/f" not in there and b"kept/old" in there
    assert {note.path for note in look.unknown} >= {b"new"}


def test_folders_that_changed_places_after_the_prompt(moment: Moment) -> None:
    """What stands in a folder of the same name differs, and is older."""
    write(moment.beside / "old", "another\n")
    os.utime(moment.beside / "old", (1, 1))
    moment.first = moment.tree.capture(previous=moment.first.commit if moment.first else None)
    time.sleep(0.02)
    reference = given()
    os.rename(moment.root / "kept", moment.root / "gone")
    os.rename(moment.beside, moment.root / "kept")
    look, there = moment.late(reference)
    assert b"kept/old" not in there and b"gone/old" not in there
    assert any(note.path in (b"kept", b"kept/old") for note in look.unknown)


def test_what_was_edited_before_the_prompt_is_known(moment: Moment) -> None:
    """Another file made in the same folder after the prompt says nothing of it."""
    write(moment.root / "kept/old", "edited\n")
    time.sleep(0.02)
    reference = given()
    write(moment.root / "kept/later", "later\n")
    look, there = moment.late(reference)
    assert moment.tree.blob(there[b"kept/old"].oid) == b"edited\n"
    assert [note.path for note in look.unknown] == [b"kept/later"]


def test_a_first_capture_that_is_late(tmp_path: Path) -> None:
    """With nothing to compare with, a folder that was moved is told by its own time; one in which a file was
    made is not."""
    moment = Moment(tmp_path, captured=False)
    with moment.tree:
        reference = given()
        os.rename(moment.beside, moment.root / "new")
        write(moment.root / "kept/later", "later\n")
        look, there = moment.late(reference)
    assert b"kept/old" in there and not {b"new/deep/f", b"kept/later"} & set(there)
    assert {note.path for note in look.unknown} == {b"kept/later", b"new/deep/f"}
