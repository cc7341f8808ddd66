"""Real Claude Code releases: the explicit pointer moves the conversation, the registry tells what is open,
and what the reader claims of files is so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from recorder.sources.base import Record
from recorder.sources.claude import SOURCE

if TYPE_CHECKING:
    from tests.agents.claude.conftest import Claude

pytestmark = pytest.mark.agents


def records_of(log: Path) -> list[Record]:
    reader = SOURCE.reader(log)
    records = [reader.read(line) for line in log.read_bytes().splitlines()]
    return [record for record in records if isinstance(record, Record)]


def prompt_of(log: Path, text: str) -> Record:
    return next(record for record in records_of(log) if record.prompt and record.text == text)


def above(log: Path, text: str) -> list[str]:
    """The ids from a prompt's parent up to the root."""
    parents = {record.entry: record.parent or record.logical_parent for record in records_of(log)}
    path = []
    entry = prompt_of(log, text).parent
    while entry is not None:
        path.append(entry)
        entry = parents[entry]
    return path


def move(log: Path, keep: str | None, prompt: str) -> None:
    moved = SOURCE.move(log, log.stem, keep, prompt, None)
    assert moved.line is not None and moved.why is None
    with log.open("ab") as file:
        file.write(moved.line)


@pytest.fixture
def talk(claude: Claude) -> Path:
    """A closed session with three prompts."""
    session = str(uuid4())
    claude.ask("--session-id", session, "ONE", script=["first"])
    claude.ask("--resume", session, "TWO", script=["second"])
    claude.ask("--resume", session, "THREE", script=["third"])
    return claude.log()


@pytest.mark.parametrize(
    ("before", "expected"),
    [("THREE", ["ONE", "first", "TWO", "second", "NEW"]), ("TWO", ["ONE", "first", "NEW"]), ("ONE", ["NEW"])],
)
def test_the_conversation_goes_on_from_where_the_pointer_is(
    claude: Claude, talk: Path, before: str, expected: list[str]
) -> None:
    """A resume after the move sends what was kept and nothing else; the log says so too."""
    prompt = prompt_of(talk, before)
    move(talk, prompt.parent, prompt.entry)
    sent = claude.ask("--resume", talk.stem, "NEW")

    assert [
        text for text in sent if text in {"ONE", "TWO", "THREE", "NEW", "first", "second", "third"}
    ] == expected
    assert prompt.entry not in above(talk, "NEW")
    assert prompt.parent is None or prompt.parent in above(talk, "NEW")
    assert [record.leaf for record in records_of(talk) if record.leaf] == [(prompt.parent,)]


def test_the_zero_pointer_points_nowhere(claude: Claude, talk: Path) -> None:
    """The agent goes on from the end."""
    zero = "00000000-0000-0000-0000-000000000000"
    pointer = {"type": "last-prompt", "leafUuid": zero, "explicit": True, "sessionId": talk.stem}
    with talk.open("a") as file:
        file.write(json.dumps(pointer, separators=(",", ":")) + "\n")

    assert "THREE" in claude.ask("--resume", talk.stem, "NEW")


def test_nothing_before_a_compaction_is_offered(claude: Claude, talk: Path) -> None:
    """A pointer to it would be passed over: the agent goes on from the end, without a word."""
    prompt = prompt_of(talk, "TWO")
    claude.ask("--resume", talk.stem, "/compact")
    moved = SOURCE.move(talk, talk.stem, prompt.parent, prompt.entry, None)
    assert moved.line is None and "compacted" in (moved.why or "")

    pointer = {"type": "last-prompt", "leafUuid": prompt.parent, "explicit": True, "sessionId": talk.stem}
    with talk.open("a") as file:
        file.write(json.dumps(pointer, separators=(",", ":")) + "\n")
    claude.ask("--resume", talk.stem, "NEW")
    assert prompt_of(talk, "THREE").entry in above(talk, "NEW")


def test_a_session_is_open_while_its_process_lives(claude: Claude, talk: Path) -> None:
    """Also without a terminal; a process that was killed leaves an entry that counts no more."""
    assert SOURCE.closed(talk, talk.stem).state == "closed"

    claude.model.free.clear()
    claude.model.asked.clear()
    process = claude.start("--resume", talk.stem, "SLOW")
    try:
        assert claude.model.asked.wait(60)
        found = SOURCE.closed(talk, talk.stem)
    finally:
        process.kill()
        process.communicate()
    assert found.state == "open"
    assert found.busy is (None if claude.version == "2.1.197" else True)

    assert any(claude.config.glob("sessions/*.json"))
    os.utime(talk, (1, 1))
    assert SOURCE.closed(talk, talk.stem).state == "closed"


def test_a_fork_is_told_from_its_own(claude: Claude, talk: Path) -> None:
    """What `--fork-session` took over is marked, what came after is not."""
    claude.ask("--resume", talk.stem, "--fork-session", "FORKED")
    fork = claude.log()

    assert fork != talk
    prompts = {record.text: record.copied for record in records_of(fork) if record.prompt}
    assert prompts == {"ONE": True, "TWO": True, "THREE": True, "FORKED": False}


def test_commands_and_skills(claude: Claude) -> None:
    """A command whose text goes to the model is a prompt; a skill that the model calls is none."""
    skill = claude.config / "skills" / "look" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: look\ndescription: looks\n---\nLook at $ARGUMENTS\n")
    session = str(uuid4())
    claude.ask("--session-id", session, "/look here and there")
    claude.ask("--resume", session, "USE", script=[("Skill", {"skill": "look", "args": "up"}), "done"])

    assert [record.text for record in records_of(claude.log()) if record.prompt] == [
        "/look here and there",
        "USE",
    ]


FILES = {
    "crlf": b"a\r\nb\r\n",
    "mixed": b"a\r\nb\na\n",
    "marked": b"\xef\xbb\xbfa\nb\n",
    "wide": "\ufeffa\nb\n".encode("utf-16-le"),
    "curly": "say “a” b".encode(),
    "plain": b"a\nb\n",
    "line": b"a b",
    "return": b"a\rb",
    "empty": b"",
}


def steps(project: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each file is read, edited, and written over; some are new."""
    for name in FILES:
        path = str(project / name)
        yield "Read", {"file_path": path}
        old = 'say "a"' if name == "curly" else "" if name == "empty" else "b"
        yield "Edit", {"file_path": path, "old_string": old, "new_string": 'long "B"\ntext'}
        yield "Write", {"file_path": path, "content": f"{name}\nover\r\n"}
    yield "Edit", {"file_path": str(project / "made"), "old_string": "", "new_string": "made\n"}
    yield "Write", {"file_path": "relative", "content": "r\n"}
    yield "Write", {"file_path": "~/home", "content": "h\n"}


def test_claims_of_files_are_so(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its line ends, marks and quotes, no bytes are claimed that the file did not have."""
    monkeypatch.setenv("HOME", str(claude.config.parent))
    for name, content in FILES.items():
        (claude.project / name).write_bytes(content)
    script = list(steps(claude.project))
    paths = [bytes(claude.project / Path(step[1]["file_path"]).expanduser()) for step in script]
    seen: list[dict[bytes, bytes | None]] = []
    claude.model.look = lambda: seen.append({path: content_of(path) for path in paths})
    claude.ask("GO", script=[*script, "done"])
    records = records_of(claude.log())
    calls = [call for record in records for call in record.calls]
    returns = {back.call: back for record in records for back in record.returns}

    claimed = 0
    assert [call.tool for call in calls] == [step[0] for step in script]
    for path, call, before, after in zip(paths, calls, seen, seen[1:], strict=False):
        back = returns[call.call]
        assert {file.path for file in (*call.files, *back.files)} <= {path}
        for file in back.files:
            assert file.before in (None, before[path])
            assert not file.absent_before or before[path] is None
            assert file.after in (None, after[path])
            claimed += (file.before is not None) + file.absent_before + (file.after is not None)
        for file in call.files:
            written = (after[path] or b"").replace(b"\0", b"")
            assert back.failed or file.fragment is None or file.fragment in written
    assert claimed >= 15


def content_of(path: bytes) -> bytes | None:
    try:
        return Path(os.fsdecode(path)).read_bytes()
    except FileNotFoundError:
        return None
