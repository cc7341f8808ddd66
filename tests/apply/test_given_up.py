"""A recovery that must give up on a path leaves nothing of its own there but what the report names."""

from __future__ import annotations

import os
from functools import partial

from recorder.applying import apply
from recorder.applying.finish import finish, sweep_marks
from tests.apply.test_kill import BEFORE, STEPS, STORE, fresh, run_apply, start_again
from tests.apply.trees import TOKEN, Counter, killed, private, read

__all__ = ["fresh"]


def save_in_every_folder(root: bytes) -> set[bytes]:
    """A person's file in each folder that the plan makes and that stands; the files' paths."""
    made = [step.path for step in STEPS if step.after.kind == "dir" and step.before.kind != "dir"]
    saved = {os.path.join(path, b"mine") for path in made if os.path.isdir(os.path.join(root, path))}
    for path in saved:
        with open(os.path.join(root, path), "wb") as stream:
            stream.write(b"a person's")
    return saved


def test_a_save_in_every_made_folder(fresh: bytes) -> None:
    """Killed at any effect and saved into: what the person wrote stays, and no name of the recorder's is
    left but such as hold what stood there before, which the report names."""
    at = given_up = 0
    while killed(at, partial(run_apply, fresh)):
        saved = save_in_every_folder(fresh)
        notes = apply.roll_back(fresh, STEPS, TOKEN, STORE, before_effect=Counter())
        if notes:
            sweep_marks(fresh, STEPS, TOKEN)
            given_up += 1
        else:
            finish(fresh, STEPS, TOKEN)
        standing = read(fresh)
        assert {path for path in saved if standing.get(path) is None} == set(), at
        said = b" ".join(note.why.encode() for note in notes)
        left = {path.rpartition(b"/")[2] for path in private(fresh)}
        assert {name for name in left if name not in said} == set(), (at, notes)
        start_again(fresh, BEFORE)
        at += 1
    assert given_up > 10
