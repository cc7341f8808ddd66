"""What a capture cannot hold is named, and no way back deletes it, writes over it or hides it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.capture.helpers import make_repository, run_git
from tests.fidelity.listing import listing
from tests.fidelity.play import Played, there_and_back
from tests.fidelity.shell import both, edit, mode, pipe, put, remove, rename, standing_deep, twin
from tests.flow.within import Within

LARGE = os.urandom(1 << 20) * 3
"""More than an untracked file may have to be captured."""


def names(played: Played, code: str) -> str:
    """What the rewind's warnings of this kind say."""
    return " ".join(one["message"] for one in played.told[0]["warnings"] if one["code"] == code)


def contents(played: Played, stop: int) -> dict[bytes, tuple[object, ...]]:
    return {path: one.what for path, one in played.stops[stop].items()}


@pytest.mark.parametrize("scope", ["session", "tree"])
def test_large_files_stay(scope: str, within: Within, root: Path) -> None:
    """Untracked files above the limit, there before or made by the run, are named in `show`, and stand
    as they stand after every way back; the small ones beside them come back."""
    here = os.fsencode(root)
    both(put(b"old", LARGE), put(b"small", b"1"), put(b"d/old", LARGE), put(b"d/small", b"1"))(here)
    act = both(
        edit(b"old", LARGE + b"more"), put(b"made", LARGE), edit(b"small", b"2"), put(b"e/made", LARGE),
        put(b"e/small", b"2"), remove(b"d/small"), rename(b"d/old", b"d/moved"),
    )  # fmt: skip
    played = there_and_back(within, root, lambda: act(here), "--scope", scope)

    assert [one["status"] for one in played.told] == ["done"] * 3
    after = contents(played, 1)
    for stop in (2, 3, 4):
        now = contents(played, stop)
        for path in (b"old", b"made", b"e", b"e/made", b"d/moved"):
            assert now[path] == after[path], (stop, path)
    for path in (b"small", b"d/small", b"e/small"):
        assert contents(played, 2).get(path) == contents(played, 0).get(path)
        assert contents(played, 3).get(path) == after.get(path)
    shown = within.run("show", "1", cwd=root).out.decode()
    assert "old" in shown and "untracked and larger than 2 MiB" in shown
    assert "made" in names(played, "left_out") and "d/old" in names(played, "left_out")


def test_large_files_that_were_captured_stay_captured(within: Within, root: Path) -> None:
    """One that grew past the limit after its first capture, and one that git tracks, come back byte for byte,
    however large they were and became."""
    make_repository(root)
    here = os.fsencode(root)
    put(b"tracked", LARGE, 0o755)(here)
    run_git(root, "add", "-A")
    put(b"grows", b"small")(here)
    agent = within.agent("pi", root)
    first = listing(here)
    with within.watching() as watcher:
        watcher.prompt(agent, "grow", lambda one: one.shell("…", lambda: edit(b"grows", LARGE)(here)))
        second = listing(here)
        more = both(edit(b"grows", LARGE[::-1]), edit(b"tracked", LARGE[:-1] + b"x"))
        watcher.prompt(agent, "more", lambda one: one.shell("…", lambda: more(here)))
        third = listing(here)
        gone = both(remove(b"grows"), remove(b"tracked"))
        watcher.prompt(agent, "gone", lambda one: one.shell("…", lambda: gone(here)))
    for number, wanted in (("3", third), ("2", second), ("1", first)):
        assert within.json("rewind", number, "--files", cwd=root)["status"] == "done"
        now = listing(here)
        for path in (b"grows", b"tracked"):
            assert now[path].what == wanted[path].what, number


def test_what_became_small_was_not_made(within: Within, root: Path) -> None:
    """A large file of which the run left a small one, and a small one that it made large, are neither deleted
    nor written over with what was never captured."""
    here = os.fsencode(root)
    both(put(b"shrinks", LARGE), put(b"replaced", b"small"))(here)
    act = both(edit(b"shrinks", b"small"), remove(b"replaced"), pipe(b"replaced"))
    played = there_and_back(within, root, lambda: act(here))

    assert contents(played, 2) == contents(played, 1)
    assert "replaced" in names(played, "left_out")


def test_what_cannot_be_read_any_more_is_told(
    within: Within, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the run made unreadable is named by the rewind, never called as it was; what it made and
    nobody may read is named too, and so is what could not be read before."""
    here = os.fsencode(root)
    both(put(b"shut", b"1"), put(b"other", b"1"), put(b"opened", b"1", 0o000))(here)
    act = both(mode(b"shut", 0o000), put(b"made", b"2", 0o000), edit(b"other", b"2"))
    refuse_to_open(monkeypatch, here)
    played = there_and_back(within, root, lambda: act(here))

    assert played.told[0]["status"] == "done"
    assert contents(played, 2)[b"other"] == contents(played, 0)[b"other"]
    told = names(played, "unreadable")
    assert "shut (" in told and "made (" in told and "opened" not in told
    assert "opened (" in names(played, "partial")
    for path in (b"shut", b"made", b"opened"):
        assert contents(played, 2)[path] == contents(played, 1)[path]


def refuse_to_open(monkeypatch: pytest.MonkeyPatch, here: bytes) -> None:
    """As modes bind everybody but root: a file without the right to be read is not opened to read."""
    real = os.open

    def bound(path: object, flags: int, *rest: object, **options: object) -> int:
        reading = flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_DIRECTORY
        if reading and isinstance(path, bytes) and path in (b"shut", b"made", b"opened"):
            status = os.stat(path, dir_fd=options.get("dir_fd"), follow_symlinks=False)  # type: ignore[arg-type]
            if not status.st_mode & 0o444:
                raise PermissionError(13, "Permission denied", path)
        return real(path, flags, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", bound)


def test_what_the_readme_says_does_not_come_back(within: Within, root: Path) -> None:
    """Bytes, names, kinds and modes do; what was deleted is new in its times, has room of its own on the
    disk for every byte, and has lost its attributes and its other name."""
    here = os.fsencode(root)
    with open(here + b"/sparse", "wb") as file:
        file.truncate(1_000_000)
    both(put(b"a", b"1"), twin(b"a", b"b"), put(b"old", b"1"))(here)
    for name in (b"/sparse", b"/a", b"/old"):
        os.utime(here + name, ns=(10**18, 10**18))
    try:
        os.setxattr(here + b"/old", "user.colour", b"red")
    except OSError:
        pytest.skip("the file system of the temporary folder has no extended attributes")
    gone = both(*map(remove, (b"sparse", b"a", b"b", b"old")))
    played = there_and_back(within, root, lambda: gone(here))

    first, rewound = played.stops[0], played.stops[2]
    assert contents(played, 2) == contents(played, 0)
    assert all(rewound[path].modified > first[path].modified for path in (b"sparse", b"a", b"old"))
    assert (rewound[b"old"].attributes, rewound[b"a"].links) == ((), 1)
    assert os.stat(here + b"/sparse").st_blocks * 512 >= 1_000_000


def test_deeper_than_a_path_can_name(within: Within, root: Path, request: pytest.FixtureRequest) -> None:
    """Of what a run made deeper than any path can name, nothing is lost and nothing is half deleted: what git
    cannot be asked about stays, named, and so do the folders that it lies in."""
    here, name = os.fsencode(root), b"d" * 200
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", root], check=True))
    put(b"small", b"1")(here)

    def act() -> None:
        edit(b"small", b"2")(here)
        with standing_deep(here, name, 30):
            put(b"f", b"deep")(b".")

    played = there_and_back(within, root, act)

    assert contents(played, 2)[b"small"] == contents(played, 0)[b"small"]
    deepest = b"/".join([name] * 30 + [b"f"])
    for stop in (2, 3, 4):
        assert contents(played, stop)[deepest] == contents(played, 1)[deepest]
    assert "too long for git" in names(played, "unreadable")
