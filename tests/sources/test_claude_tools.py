"""What tool calls and their results say of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recorder.sources.base import Call, FileNamed, Record, Return
from recorder.sources.claude import SOURCE

SAMPLES = Path(__file__).parents[1] / "samples" / "claude"
HEAD = {
    "uuid": "u",
    "sessionId": "s",
    "timestamp": "2026-11-30T17:00:00.250Z",
    "cwd": "/w",
    "version": "2.1.332",
}
PATH = "/w/a.txt"


def read(line: dict[str, Any]) -> Record:
    record = SOURCE.reader(Path("/x/s.jsonl")).read(json.dumps(line).encode())
    assert isinstance(record, Record)
    return record


def call(tool: str, given: object, **keys: Any) -> Call:
    block = {"type": "tool_use", "id": "t", "name": tool, "input": given}
    return read({**HEAD, "type": "assistant", "message": {"id": "m", "content": [block]}, **keys}).calls[0]


def result(said: object, **block: Any) -> Return:
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "ok", **block}]
    return read({**HEAD, "type": "user", "message": {"content": content}, "toolUseResult": said}).returns[0]


def write(kind: str, content: str, original: str | None, **keys: Any) -> dict[str, Any]:
    return {"type": kind, "filePath": PATH, "content": content, "originalFile": original, **keys}


def edit(original: str | None, old: str, new: str, *, every: bool = False, **keys: Any) -> dict[str, Any]:
    said = {
        "filePath": PATH,
        "oldString": old,
        "newString": new,
        "originalFile": original,
        "replaceAll": every,
    }
    return said | keys


@pytest.mark.parametrize(
    ("tool", "given", "writes", "background"),
    [
        ("Read", {"file_path": PATH}, "none", False),
        ("ToolSearch", {"query": "x"}, "none", False),
        ("Write", {"file_path": PATH, "content": "x"}, "named", False),
        ("Edit", {"file_path": PATH, "old_string": "a", "new_string": "b"}, "named", False),
        ("NotebookEdit", {"notebook_path": "/w/n.ipynb", "new_source": "x"}, "named", False),
        ("Write", {"file_path": 7}, "any", False),
        ("Write", {}, "any", False),
        ("Bash", {"command": "ls"}, "any", False),
        ("Bash", {"command": "ls", "run_in_background": True}, "any", True),
        ("Agent", {"prompt": "x"}, "any", True),
        ("Agent", {"prompt": "x", "run_in_background": False}, "any", False),
        ("Task", {"prompt": "x", "run_in_background": True}, "any", True),
        ("mcp__files__write", {"path": PATH}, "any", False),
        ("Hologram", None, "any", False),
    ],
)
def test_what_a_tool_may_write(tool: str, given: object, writes: str, background: bool) -> None:
    """Readers change nothing, editors the file they name, all others anything."""
    found = call(tool, given)

    assert (found.tool, found.writes, found.background) == (tool, writes, background)
    assert found.at_ns == 1_796_058_000_250_000_000


def test_a_child_agent_of_an_old_version_is_waited_for() -> None:
    """2.1.197 runs an agent in the foreground unless it is told otherwise."""
    assert not call("Agent", {"prompt": "x"}, version="2.1.197").background


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/w/a.txt", b"/w/a.txt"),
        ("a.txt", b"/w/a.txt"),
        ("./b/../a.txt", b"/w/a.txt"),
        ("/w/é.txt", "/w/é.txt".encode()),
        ("a\0b", None),
        ("", None),
    ],
)
def test_paths_are_as_the_tool_resolves_them(path: str, expected: bytes | None) -> None:
    """A relative path starts at the session's folder (measured: the agent accepts and reports them)."""
    files = call("Write", {"file_path": path, "content": ""}).files

    assert [file.path for file in files] == ([] if expected is None else [expected])


def test_the_home_folder_is_resolved(clean_environment: Path) -> None:
    """`~/x` lies in the user's home."""
    assert call("Write", {"file_path": "~/x", "content": ""}).files[0].path == bytes(clean_environment / "x")


@pytest.mark.parametrize(
    ("new", "fragment"),
    [
        ("one", b"one"),
        ("short\n    the longest line\nend", b"the longest line"),
        ('say "hello there" x', b"hello there"),
        ("don’t", b"don"),
        ('"\n"', None),
        ("", None),
        ("a�bc", b"bc"),
    ],
)  # fmt: skip
def test_a_fragment_stands_in_the_file_whatever_its_line_ends_and_quotes(
    new: str, fragment: bytes | None
) -> None:
    """The agent writes CRLF and curly quotes where the file has them: the fragment holds neither."""
    assert (
        call("Edit", {"file_path": PATH, "old_string": "x", "new_string": new}).files[0].fragment == fragment
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (write("create", "a\r\nb\n", None), FileNamed(b"/w/a.txt", absent_before=True, after=b"a\r\nb\n")),
        (write("update", "new\n", "old"), FileNamed(b"/w/a.txt", before=b"old", after=b"new\n")),
        (write("update", "new\n", "a\nb\n"), FileNamed(b"/w/a.txt", after=b"new\n")),
        (write("update", "new", None), FileNamed(b"/w/a.txt", after=b"new")),
        (write("update", "new", "\ufeffold"), FileNamed(b"/w/a.txt")),
        (write("update", "\ufeffnew", "\ufeffold"), FileNamed(b"/w/a.txt")),
        (write("update", "caf\ufffd", "caf\ufffd"), FileNamed(b"/w/a.txt")),
        (edit("one two", "one", "1"), FileNamed(b"/w/a.txt", before=b"one two", after=b"1 two")),
        (edit("x x", "x", "y\nz", every=True), FileNamed(b"/w/a.txt", before=b"x x", after=b"y\nz y\nz")),
        (edit("x x", "x", "y"), FileNamed(b"/w/a.txt", before=b"x x")),
        (edit("x", "gone", "y"), FileNamed(b"/w/a.txt", before=b"x")),
        (edit("one two", "one", ""), FileNamed(b"/w/a.txt", before=b"one two")),
        (edit("a\nb\n", "a", "A"), FileNamed(b"/w/a.txt")),
        (edit("\ufeffa", "a", "A"), FileNamed(b"/w/a.txt")),
        (edit("“x”", "“x”", '"y"'), FileNamed(b"/w/a.txt", before="“x”".encode())),
        (edit("", "", "made\n"), FileNamed(b"/w/a.txt", after=b"made\n")),
        (edit(None, "a", "b"), FileNamed(b"/w/a.txt")),
    ],
)  # fmt: skip
def test_results_claim_only_bytes_that_are_certain(said: dict[str, Any], expected: FileNamed) -> None:
    """Measured: the agent shows CRLF as LF and UTF-16 as text, matches curly quotes, and takes the line's
    end with a text that is edited away. Where any of it may be, no bytes are claimed."""
    assert result(said).files == (expected,)


@pytest.mark.parametrize(
    "said",
    [
        "Error: no",
        None,
        {"stdout": "x"},
        {"type": "text", "file": {"filePath": PATH, "content": "x"}},
        write("create", "x", None, staged=True),
        {"filePath": 7},
    ],
)
def test_other_results_name_no_file(said: object) -> None:
    """Reading, shells, refusals and what waits for a review changed no file that is named."""
    assert result(said).files == ()


def test_a_failed_call_says_nothing_of_files() -> None:
    """What an error says of a file did not happen."""
    assert result(write("create", "x", None), is_error=True) == Return("t", failed=True)


def test_a_notebook_is_named_without_its_bytes() -> None:
    """The cell's text stands in the file as JSON."""
    said = {"notebook_path": "/w/n.ipynb", "new_source": "x", "original_file": "{}", "updated_file": "{ }"}

    assert result(said).files == (FileNamed(b"/w/n.ipynb"),)


def test_calls_and_results_of_a_real_session() -> None:
    """Each call of a real run returns, with its failure and its file."""
    reader = SOURCE.reader(SAMPLES / "multi_tool_headless.jsonl")
    lines = (SAMPLES / "multi_tool_headless.jsonl").read_bytes().splitlines()
    records = [record for record in map(reader.read, lines) if isinstance(record, Record)]
    calls = {call.call: call for record in records for call in record.calls}
    returns = {back.call: back for record in records for back in record.returns}

    assert calls.keys() == returns.keys()
    assert [(call.tool, call.writes, returns[call.call].failed) for call in calls.values()] == [
        ("Read", "none", False),
        ("Bash", "any", False),
        ("Edit", "named", False),
        ("Write", "named", False),
        ("Write", "named", False),
        ("Bash", "any", True),
        ("Edit", "named", True),
    ]
    created = [file for back in returns.values() for file in back.files if file.absent_before]
    assert {file.path: file.after for file in created} == {
        b"/home/dev/multi/new/b.txt": b"b1\n",
        b"/home/dev/multi/c.txt": b"c1\n",
    }
