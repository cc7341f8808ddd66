"""What a person is told of a rewind: what is meant, done and left, why, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.agents import Claude
from tests.flow.conftest import snapshot
from tests.flow.within import Within

NASTY = "a\n  remove        notes.md \x1b[31m.txt"


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def played(within: Within, folder: Path) -> Claude:
    """A closed session of two prompts: `made.txt` in the first run, `src/app.py` in the second."""
    agent = within.agent("claude", folder)
    assert isinstance(agent, Claude)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda a: a.write("made.txt", "by the agent\n"))
        watcher.prompt(agent, "second", lambda a: a.write("src/app.py", "print('two')\n"))
    return agent


def said(within: Within, *words: str, cwd: Path, check: int = 0) -> str:
    return within.run(*words, cwd=cwd, check=check).out.decode()


def test_a_path_that_names_nothing(within: Within, folder: Path, played: Claude) -> None:
    """A slip of the pen is not “nothing to do”: not found, and neither files nor conversation move."""
    before, log = snapshot(folder), played.log.read_bytes()
    for words in (
        ("rewind", "1", "--path", "mode.txt"),
        ("rewind", "1", "--both", "--path", "made.txt", "--path", "scr"),
        ("undo", "--path", "made.txt/x"),
        ("revert", "1", "--path", "nope"),
        ("diff", "1", "--", "nope.py"),
        ("diff", "1", "2", "--", "nope.py"),
    ):
        error = within.json(*words, cwd=folder, check=3)["error"] if words[0] != "diff" else None
        assert error is None or error["code"] == "no_file", words
        assert "there is no " in within.run(*words, cwd=folder, check=3).err, words
    assert (snapshot(folder), played.log.read_bytes()) == (before, log)


def test_a_path_is_known_from_disk_from_the_capture_or_from_history(
    within: Within, folder: Path, played: Claude
) -> None:
    """A file that nobody changed, one that is gone now, one that came and went: each is a name."""
    (folder / "run.sh").unlink()
    assert within.json("rewind", "1", "--path", "notes.md", cwd=folder)["status"] == "noop"
    assert within.json("rewind", "1", "--path", "run.sh", "--dry-run", cwd=folder)["status"] == "planned"
    assert within.json("rewind", "2", "--path", "src", cwd=folder)["files"]["write"] == ["src/app.py"]
    within.run("rewind", "1", "--files", cwd=folder)
    within.run("rewind", "--undo", "--path", "made.txt", cwd=folder)
    assert (folder / "made.txt").exists()
    (folder / "made.txt").unlink()
    assert within.run("diff", "1", "--", "made.txt", cwd=folder).out == b"No difference.\n"


def test_some_files_alone_leave_the_conversation(within: Within, folder: Path, played: Claude) -> None:
    """With --path the conversation moves only where it is asked for by name."""
    log = played.log.read_bytes()
    done = within.json("rewind", "1", "--path", "made.txt", cwd=folder)
    assert (done["status"], done["conversation"]["status"]) == ("done", "noop")
    assert not (folder / "made.txt").exists() and played.log.read_bytes() == log
    both = within.json("rewind", "1", "--both", "--path", "src", cwd=folder)
    assert both["conversation"]["status"] == "done" and played.log.read_bytes() != log


def test_every_operation_names_its_own_inverse(within: Within, folder: Path, played: Claude) -> None:
    """`rewind --redo` after `rewind --undo`, `rewind --undo` after everything else, in both forms."""
    for words, way in (
        (("rewind", "2"), "undo"),
        (("rewind", "--undo"), "redo"),
        (("rewind", "--redo"), "undo"),
        (("redo",), "undo"),
        (("undo",), "undo"),
        (("rewind", "--undo"), "redo"),
    ):
        done = within.json(*words, "--dry-run", cwd=folder)
        assert done["undo"] == f"recorder rewind --{way}", words
        assert (
            said(within, *words, cwd=folder).splitlines()[-1] == f"Take it back with: recorder rewind --{way}"
        )


def test_what_would_be_done_and_what_was(within: Within, folder: Path, played: Claude) -> None:
    """The first line says where it goes; the conversation is taken back where it goes back, else moved."""
    prompt, session = f"prompt 2 of session {played.session}: “second”", f"session {played.session}"
    for words, would, done, talk in (
        (("rewind", "2"), f"Would go back to before {prompt}:", f"Rewound to before {prompt}.",
         "taken back too"),
        (("redo",), f"Would go forward to the end of {session}:",
         f"Went forward to the end of {session}.", "moved too"),
        (("undo",), f"Would go back to before {prompt}:", f"Went back to before {prompt}.",
         "taken back too"),
        (("rewind", "--undo"), f"Would take back the undo to before {prompt}:",
         f"Took back the undo to before {prompt}.", "moved too"),
        (("rewind", "--redo"), f"Would do the undo again, which was to before {prompt}:",
         f"Did the undo again, which was to before {prompt}.", "moved too"),
        (("revert", "1"), f"Would revert prompt 1 of {session}: “first”:",
         f"Reverted prompt 1 of {session}: “first”.", ""),
    ):  # fmt: skip
        planned = said(within, *words, "--dry-run", cwd=folder).splitlines()
        told = said(within, *words, cwd=folder).splitlines()
        assert (planned[0], told[0]) == (would, done)
        assert (f"  conversation: would be {talk}" in planned) == bool(talk), planned
        assert any(line.startswith(f"  conversation: {talk}") for line in told) == bool(talk), told


def test_a_refusal_gives_the_reason_of_each_path(within: Within, folder: Path, played: Claude) -> None:
    """Each with its own, true also where the same session changed the file again."""
    with within.watching() as watcher:
        watcher.prompt(played, "third", lambda a: a.write("made.txt", "by the agent again\n"))
    answer = within.run("revert", "1", cwd=folder, check=4)
    assert "made.txt (it was changed again since)" in answer.err
    assert "somebody else" not in answer.err + answer.out.decode()
    (folder / "src" / "app.py").write_text("by hand\n")
    error = within.run("rewind", "2", cwd=folder, check=4).err
    assert "src/app.py (the same lines were changed again since)" in error and "made.txt" not in error


def test_a_conflict_is_not_also_kept(within: Within, folder: Path) -> None:
    """What a person changed in the midst of a run, after the session had: one list names it,
    whatever is done with it."""
    agent = within.agent("claude", folder)
    with within.watching() as watcher:
        watcher.prompt(
            agent,
            "first",
            lambda a: a.write("made.txt", "by the agent\n"),
            lambda a: watcher.prompt(a, "and"),
            lambda _: (folder / "made.txt").write_text("by hand\n"),
        )
    files = within.json("rewind", "1", "--files", cwd=folder, check=4)["files"]
    assert [one["path"] for one in files["conflict"]] == ["made.txt"]
    assert files["keep"] == []
    done = within.json("rewind", "1", "--files", "--on-conflict", "overwrite", cwd=folder)["files"]
    assert (done["delete"], done["keep"], done["conflict"]) == (["made.txt"], [], [])


def test_a_file_name_cannot_fake_a_line(within: Within, folder: Path) -> None:
    """Line ends and terminal sequences in names are shown as what they are, everywhere; JSON has the name."""
    agent = within.agent("claude", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda a: a.write(NASTY, "x\n"))
    for words, code in (
        (("rewind", "1", "--files", "--dry-run"), 0),
        (("diff", "1"), 0),
        (("diff", "1", "--stat"), 0),
        (("log",), 0),
        (("cat", "1", NASTY), 3),
        (("rewind", "1", "--path", NASTY + "!"), 3),
    ):
        answer = within.run(*words, cwd=folder, check=code)
        told = answer.out.decode() + answer.err
        assert "\x1b" not in told and "notes.md \ufffd" not in told, words
        assert "notes.md .txt" in told, words
        assert not any(line.startswith("  remove        notes.md") for line in told.splitlines()), words
    assert within.json("rewind", "1", "--files", "--dry-run", cwd=folder)["files"]["delete"] == [NASTY]
    (folder / NASTY).write_text("by hand\n")
    refused = within.run("rewind", "1", "--files", cwd=folder, check=4)
    assert len(refused.err.splitlines()) == 1 and "\x1b" not in refused.err
    assert len(refused.out.decode().splitlines()) == 2


def test_what_cannot_be_put_back_is_done_in_part(
    within: Within, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files whose state from before neither a capture nor the log has are named with the reason, exit 6;
    also where nothing else was to be done."""
    monkeypatch.setenv("RECORDER_MAX_UNTRACKED_BYTES", "100")
    (folder / "big.txt").write_text("old\n" * 100)
    agent = within.agent("claude", folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda a: a.write("small.txt", "x\n"))
        watcher.prompt(agent, "second", lambda a: a.write("big.txt", "new " * 100))
    nothing = within.json("rewind", "2", "--files", cwd=folder, check=6)
    assert (nothing["status"], nothing["operation"]) == ("partial", None)
    assert nothing["files"]["unrecovered"] == ["big.txt"]
    told = said(within, "rewind", "2", "--files", cwd=folder, check=6)
    assert told.startswith("Nothing could be put back:\n") and "Take it back" not in told
    assert "big.txt (what stood there before the session wrote it is unknown)" in told
    some = said(within, "rewind", "1", "--files", cwd=folder, check=6)
    assert "but not all of it:" in some and "Take it back" in some and not (folder / "small.txt").exists()
