"""Files that a session and somebody else changed, the whole way: the session's part goes back and forth, the
others' part stays."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import going_back
from recorder.events import RewindApplied, RewindPlanned
from recorder.home import open_home
from tests.flow.agents import Claude, Pi
from tests.flow.conftest import snapshot
from tests.flow.within import APART, Within, killed

MANY = 500
"""More steps than any plan here has."""


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Within(tmp_path / "recorder", monkeypatch)


def text(**changed: str) -> str:
    """Nine lines, of which some are changed: `text(l2="two")`."""
    return "".join(f"{changed.get(f'l{number}', f'line {number}')}\n" for number in range(1, 10))


def by_hand(file: Path, content: str | bytes) -> None:
    """A person saves a file, apart from what others do."""
    time.sleep(APART)
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    time.sleep(APART)


def play(within: Within, agent: Pi | Claude, *runs: Callable[[Pi | Claude], object]) -> None:
    """A run with one tool call each."""
    with within.watching() as watcher:
        for number, act in enumerate(runs, 1):
            watcher.prompt(agent, f"prompt {number}", act)
            time.sleep(APART)


def writes(name: str, content: str) -> Callable[[Pi | Claude], object]:
    return lambda agent: agent.write(name, content)


def shell(work: Callable[[], object]) -> Callable[[Pi | Claude], object]:
    return lambda agent: agent.shell("…", work)


@pytest.mark.parametrize("kind", ["pi", "claude"])
def test_the_persons_lines_stay(within: Within, folder: Path, kind: str) -> None:
    """In a rewind, in its undo and in the redo of that; and what is saved in between stays as well."""
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent(kind, folder), writes("notes.md", text(l2="by the agent")))
    by_hand(notes, text(l2="by the agent", l8="by hand"))

    done = within.json("rewind", "1", "--files", cwd=folder)
    assert (done["status"], notes.read_text()) == ("done", text(l8="by hand"))
    assert (done["files"]["merge"], done["files"]["write"]) == (["notes.md"], [])

    undone = within.json("rewind", "--undo", cwd=folder)
    assert notes.read_text() == text(l2="by the agent", l8="by hand")
    assert (undone["files"]["merge"], undone["files"]["write"]) == ([], ["notes.md"])

    by_hand(notes, text(l2="by the agent", l5="again", l8="by hand"))
    again = within.json("rewind", "--redo", cwd=folder)
    assert (again["files"]["merge"], notes.read_text()) == (["notes.md"], text(l5="again", l8="by hand"))

    by_hand(notes, text(l5="again", l8="at last"))
    within.json("rewind", "--undo", cwd=folder)
    assert notes.read_text() == text(l2="by the agent", l5="again", l8="at last")


def test_stepping_through_merges(within: Within, folder: Path) -> None:
    """Undo and redo, prompt by prompt, with a person's lines from between the prompts and from after them."""
    notes = folder / "notes.md"
    notes.write_text(text())
    agent = within.agent("claude", folder)
    play(within, agent, writes("notes.md", text(l1="first")))
    by_hand(notes, text(l1="first", l9="between"))
    play(within, agent, writes("notes.md", text(l1="first", l3="second", l9="between")))
    by_hand(notes, text(l1="first", l3="second", l6="after", l9="between"))

    for word, expected in (
        ("undo", text(l1="first", l6="after", l9="between")),
        ("undo", text(l6="after", l9="between")),
        ("redo", text(l1="first", l6="after", l9="between")),
        ("redo", text(l1="first", l3="second", l6="after", l9="between")),
    ):
        done = within.json(word, "--files", cwd=folder)
        assert (done["status"], notes.read_text()) == ("done", expected), word
    within.json("rewind", "1", "--files", cwd=folder)
    assert notes.read_text() == text(l6="after", l9="between")


def test_a_revert_keeps_what_later_runs_did(within: Within, folder: Path) -> None:
    """In the same file: one prompt's lines go, those of later prompts and of another session stay; all of it
    can be taken back, and a rewind over it finds everything in its place."""
    notes = folder / "notes.md"
    notes.write_text(text())
    one, two = within.agent("claude", folder), within.agent("pi", folder)
    play(within, one, writes("notes.md", text(l1="1")), writes("notes.md", text(l1="1", l5="2")))
    play(within, two, writes("notes.md", text(l1="1", l5="2", l9="other")))
    session = ("--session", one.session)

    done = within.json("revert", "1", *session, cwd=folder)
    assert (done["files"]["merge"], notes.read_text()) == (["notes.md"], text(l5="2", l9="other"))
    within.json("rewind", "--undo", cwd=folder)
    assert notes.read_text() == text(l1="1", l5="2", l9="other")
    within.json("rewind", "--redo", cwd=folder)
    within.json("rewind", "2", "--files", *session, cwd=folder)
    assert notes.read_text() == text(l1="1", l9="other")
    within.json("rewind", "1", "--files", *session, cwd=folder)
    assert notes.read_text() == text(l9="other")


@pytest.mark.parametrize(
    ("before", "agents", "hands", "merged"),
    [
        (b"a\r\nb\r\nc\r\n", b"A\r\nb\r\nc\r\n", b"A\r\nb\r\nC\r\n", b"a\r\nb\r\nC\r\n"),
        (b"a\nb\nc", b"A\nb\nc", b"A\nb\nC", b"a\nb\nC"),
        (b"a\nb\nc\n", b"A\nb\nc\n", b"A\nb\nc", b"a\nb\nc"),
        (b"\xe9\nb\n\xff\n", b"\xe8\nb\n\xff\n", b"\xe8\nb\n\x80 \n", b"\xe9\nb\n\x80 \n"),
    ],
)  # fmt: skip
def test_bytes_and_modes_are_exact(
    within: Within, folder: Path, before: bytes, agents: bytes, hands: bytes, merged: bytes
) -> None:
    """Line endings, final newlines, encodings; and the permissions that a person took away stay away where
    the agent's own go."""
    notes = folder / "notes.md"
    notes.write_bytes(before)
    play(within, within.agent("pi", folder), shell(lambda: (notes.write_bytes(agents), notes.chmod(0o755))))
    by_hand(notes, hands)
    notes.chmod(0o700)

    within.json("rewind", "1", "--files", cwd=folder)
    assert (notes.read_bytes(), notes.stat().st_mode & 0o7777) == (merged, 0o600)
    within.json("rewind", "--undo", cwd=folder)
    assert (notes.read_bytes(), notes.stat().st_mode & 0o7777) == (hands, 0o700)


def unlink_and(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def act(file: Path) -> None:
        file.unlink()
        make(file)

    return act


WORKS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object], str]] = {
    "same lines": (
        lambda file: file.write_text(text(l2="agent")),
        lambda file: file.write_text(text(l2="hand")),
        "the same lines were changed again since",
    ),
    "not text": (
        lambda file: file.write_bytes(b"agent\0\n1\n2\n3\n"),
        lambda file: file.write_bytes(b"agent\0\n1\n2\nhand\n"),
        "is not text",
    ),
    "made by the agent": (
        unlink_and(lambda file: file.with_name("made.md").write_text(text())),
        lambda file: file.with_name("made.md").write_text(text(l9="by hand")),
        "it was changed again since",
    ),
    "made anew": (Path.unlink, lambda file: file.write_text("anew\n"), "it was made anew since"),
    "removed": (
        lambda file: file.write_text(text(l2="agent")),
        Path.unlink,
        "it was removed since",
    ),
    "links": (
        unlink_and(lambda file: file.symlink_to("here")),
        unlink_and(lambda file: file.symlink_to("there")),
        "it was changed again since",
    ),
    "a folder now": (
        lambda file: file.write_text(text(l2="agent")),
        unlink_and(Path.mkdir),
        "it is a folder since",
    ),
}  # fmt: skip


@pytest.mark.parametrize("work", WORKS)
def test_what_cannot_be_merged_refuses_all(within: Within, folder: Path, work: str) -> None:
    """Nothing is touched, and the reason is told, in the dry run too; with `skip` the rest is done, and what
    is in conflict stands as it stood."""
    agents, hands, why = WORKS[work]
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent("pi", folder), shell(lambda: (agents(notes), (folder / "new").write_text("x"))))
    time.sleep(APART)
    hands(notes)
    time.sleep(APART)
    before = snapshot(folder)

    for words in (("--dry-run",), ()):
        refused = within.json("rewind", "1", "--files", *words, cwd=folder, check=4)
        (conflict,) = refused["files"]["conflict"]
        assert (refused["status"], snapshot(folder)) == ("refused", before)
        assert conflict["path"] in ("notes.md", "made.md") and why in conflict["why"]
    within.json("rewind", "1", "--files", "--on-conflict", "skip", cwd=folder, check=6)
    assert not (folder / "new").exists()
    standing = {path: state for path, state in before.items() if path != "new"}
    assert {path: state for path, state in snapshot(folder).items() if path in standing} == standing


def test_a_dry_run_of_a_merge_leaves_no_trace(within: Within, folder: Path) -> None:
    """What a person saved is not stored yet, and is read from the disk; nothing is written anywhere."""
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent("pi", folder), writes("notes.md", text(l2="agent")))
    by_hand(notes, text(l2="agent", l8="hand"))
    objects = within.home / "trees"
    before = (snapshot(folder), set(objects.rglob("*.pack")))

    planned = within.json("rewind", "1", "--files", "--dry-run", cwd=folder)
    assert (planned["status"], planned["files"]["merge"]) == ("planned", ["notes.md"])
    said = within.run("rewind", "1", "--files", "--dry-run", cwd=folder).out.decode()
    assert "  merge         notes.md (what was changed in it since stays)\n" in said
    assert "put back" not in said
    assert (snapshot(folder), set(objects.rglob("*.pack"))) == before


def test_what_is_merged_is_in_the_log_and_in_the_store(within: Within, folder: Path) -> None:
    """The plan names the merged content, and the store had it before the plan was made."""
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent("pi", folder), writes("notes.md", text(l2="agent")))
    by_hand(notes, text(l2="agent", l8="hand"))
    within.news()
    within.json("rewind", "1", "--files", cwd=folder)

    facts = within.news()
    planned = next(fact for fact in facts if isinstance(fact, RewindPlanned))
    store = open_home(within.home).store(planned.originator_id)
    content = subprocess.run(
        ["git", f"--git-dir={store}", "cat-file", "blob", planned.steps[0].after.oid],
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    assert content.decode() == text(l8="hand")
    assert any(isinstance(fact, RewindApplied) for fact in facts)


def lose(within: Within, content: bytes) -> None:
    """Take one content out of every store, and leave the rest whole."""
    oid = subprocess.run(
        ["git", "hash-object", "--stdin"], input=content, capture_output=True, check=True
    ).stdout.decode().strip()  # fmt: skip
    for store in (within.home / "trees").glob("*/*.git"):
        for pack in (store / "objects" / "pack").glob("*.pack"):
            moved = pack.rename(store.parent / pack.name)
            pack.with_suffix(".idx").unlink()
            with moved.open("rb") as packed:
                subprocess.run(
                    ["git", f"--git-dir={store}", "unpack-objects", "-q"], stdin=packed, check=True
                )
            moved.unlink()
        (store / "objects" / oid[:2] / oid[2:]).unlink(missing_ok=True)


@pytest.mark.parametrize("lost", [text(), text(l2="agent")], ids=["to be written", "to be merged with"])
def test_a_lost_content_costs_one_path(within: Within, folder: Path, lost: str) -> None:
    """It is a conflict of its path, also before anything is touched; the other paths come back."""
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent("pi", folder), shell(lambda: agent_works(folder)))
    by_hand(notes, text(l2="agent", l8="hand"))
    lose(within, lost.encode())
    before = snapshot(folder)

    refused = within.json("rewind", "1", "--files", cwd=folder, check=4)
    assert [one["path"] for one in refused["files"]["conflict"]] == ["notes.md"]
    assert "no longer stored" in refused["files"]["conflict"][0]["why"]
    assert snapshot(folder) == before
    within.json("rewind", "1", "--files", "--on-conflict", "skip", cwd=folder, check=6)
    assert notes.read_text() == text(l2="agent", l8="hand")
    assert not (folder / "new").exists()
    assert (folder / "src" / "app.py").read_text() == "print('one')\n"


def agent_works(folder: Path) -> None:
    (folder / "notes.md").write_text(text(l2="agent"))
    (folder / "src" / "app.py").write_text("print('two')\n")
    (folder / "new").write_text("x\n")


@pytest.mark.parametrize(("step", "code"), [("safety", 0), ("plan", 4)])
def test_a_save_in_the_window_is_merged_or_refused(
    within: Within, folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int
) -> None:
    """What a person saves while the rewind begins is in the merge; what is saved after its safety capture
    ends it. Nothing is lost either way."""
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent("pi", folder), writes("notes.md", text(l2="agent")))
    by_hand(notes, text(l2="agent", l8="hand"))
    saved = text(l2="agent", l5="in the window", l8="hand")
    carry_out = going_back.carry_out

    def carry_out_and_save(*arguments: Any, **options: Any) -> Any:
        return carry_out(
            *arguments, **options, before_step=lambda name: name == step and by_hand(notes, saved)
        )

    monkeypatch.setattr(going_back, "carry_out", carry_out_and_save)
    answer = within.run("rewind", "1", "--files", "--json", cwd=folder, check=None)
    assert (answer.code == 0) == (code == 0), answer
    assert notes.read_text() == (text(l5="in the window", l8="hand") if code == 0 else saved)


def test_killed_anywhere(within: Within, folder: Path) -> None:
    """The next command ends it by the log alone: every file from before, or, once it was applied, as planned,
    the merged one too."""
    notes = folder / "notes.md"
    notes.write_text(text())
    play(within, within.agent("pi", folder), shell(lambda: agent_works(folder)))
    by_hand(notes, text(l2="agent", l8="hand"))
    start = snapshot(folder)
    within.run("rewind", "1", "--files", cwd=folder)
    goal = snapshot(folder)
    within.run("rewind", "--undo", cwd=folder)
    assert (snapshot(folder), goal["notes.md"][2].decode()) == (start, text(l8="hand"))

    for at in range(MANY):
        within.news()
        died, step = killed(at, ("rewind", "1", "--files"), folder)
        within.run("watch", "--once", cwd=folder)
        applied = any(isinstance(fact, RewindApplied) for fact in within.news())
        assert snapshot(folder) == (goal if applied else start), (at, step)
        if applied:
            within.run("rewind", "--undo", cwd=folder)
        if not died:
            break
    assert not died and at > 20


def test_sessions_that_overlap_are_not_merged(within: Within, folder: Path) -> None:
    """Two runs at once on one file are for a person to part; one after the other, their lines are."""
    notes = folder / "notes.md"
    notes.write_text(text())
    one, two = within.agent("pi", folder), within.agent("claude", folder)
    with within.watching() as watcher:
        one.give("one")
        watcher.look(one)
        time.sleep(APART)
        watcher.prompt(two, "two", writes("notes.md", text(l1="two")))
        time.sleep(APART)
        one.write("notes.md", text(l1="two", l9="one"))
        watcher.look(one)
        one.done()
        watcher.look(one)
    before = snapshot(folder)
    refused = within.json("rewind", "1", "--files", "--session", one.session, cwd=folder, check=4)
    assert [conflict["path"] for conflict in refused["files"]["conflict"]] == ["notes.md"]
    assert snapshot(folder) == before
