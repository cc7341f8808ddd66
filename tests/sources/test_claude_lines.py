"""Lines of a Claude Code transcript that the samples do not have: torn, odd, rare and made up ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.sources.base import BadLine, Reader, Record
from recorder.sources.claude import SOURCE

SAMPLES = Path(__file__).parents[1] / "samples" / "claude"
LINES = [
    line
    for name in ("multi_tool_headless", "interactive_branch_forkedFrom", "v2.1.197_interactive_rewind")
    for line in (SAMPLES / f"{name}.jsonl").read_bytes().splitlines()
]
SESSION = "7d9e1dce-8144-4b7a-9b55-d80bd3ae5978"
ZERO = "00000000-0000-0000-0000-000000000000"


def chained(kind: str, **keys: Any) -> dict[str, Any]:
    return {
        "parentUuid": None,
        "isSidechain": False,
        "type": kind,
        "uuid": "11111111-0000-4000-8000-000000000001",
        "timestamp": "2026-11-30T17:00:00.000Z",
        "entrypoint": "cli",
        "cwd": "/home/dev/x",
        "sessionId": SESSION,
        "version": "2.1.332",
        **keys,
    }


def user(content: object, **keys: Any) -> dict[str, Any]:
    return chained("user", message={"role": "user", "content": content}, **keys)


def answer(block: dict[str, Any], **keys: Any) -> dict[str, Any]:
    message = {"id": "msg_1", "model": "m", "stop_reason": keys.pop("stop", "end_turn"), "content": [block]}
    return chained("assistant", message=message | keys.pop("message", {}), **keys)


def dumped(line: dict[str, Any]) -> bytes:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode()


def new_reader() -> Reader:
    return SOURCE.reader(Path("/x/s.jsonl"))


def read(line: dict[str, Any], reader: Reader | None = None) -> Record:
    record = (reader or new_reader()).read(dumped(line))
    assert isinstance(record, Record)
    return record


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read(line: bytes) -> None:
    """Nothing that can stand in a file makes the reader fail."""
    assert isinstance(new_reader().read(line), Record | BadLine)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), st.data())
def test_a_damaged_line_is_read(line: bytes, data: st.DataObject) -> None:
    """A real line that is cut, or in which bytes are replaced, makes no reader or source fail."""
    at = data.draw(st.integers(0, len(line)))
    cut = data.draw(st.integers(0, 12))
    damaged = line[:at] + data.draw(st.binary(max_size=12)) + line[at + cut :]

    assert isinstance(new_reader().read(damaged), Record | BadLine)
    assert isinstance(SOURCE.claims(Path("/x/s.jsonl"), damaged), bool)
    SOURCE.session_of(Path("/x/s.jsonl"), [damaged])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(LINES), st.data())
def test_a_key_of_another_shape_is_read(line: bytes, data: st.DataObject) -> None:
    """A record in which any key, also a nested one, holds something else is a record still."""
    record = json.loads(line)
    place = record
    for _ in range(data.draw(st.integers(0, 2))):
        deeper = [value for value in place.values() if isinstance(value, dict) and value]
        if deeper:
            place = data.draw(st.sampled_from(deeper))
    key = data.draw(st.sampled_from(sorted(place)))
    place[key] = data.draw(JSON)

    found = new_reader().read(json.dumps(record).encode())
    assert isinstance(found, Record) or (place is record and key == "type")


def test_a_known_key_of_an_unknown_shape_is_not_understood() -> None:
    """The line counts as not understood under its type, and is not lost."""
    record = read(user("hi") | {"cwd": ["not", "a", "folder"]})

    assert (record.raw_type, record.understood, record.kind) == ("user", False, "unknown")
    assert record.entry.startswith("~")


def test_an_unknown_type_is_not_understood_but_keeps_its_place_in_the_tree() -> None:
    """Later lines may have it among their ancestors."""
    record = read(chained("hologram", parentUuid="p"))

    assert (record.understood, record.in_tree, record.parent) == (False, True, "p")
    assert not read({"type": "hologram", "sessionId": SESSION}).understood


def test_half_a_character_does_not_cost_the_line() -> None:
    """A text that was cut inside an emoji is half a surrogate pair in JSON."""
    line = dumped(user("cut @", promptSource="typed")).replace(b"cut @", rb"cut \ud83d")
    record = new_reader().read(line)

    assert isinstance(record, Record)
    assert (record.prompt, record.text) == ("typed", "cut �")


@pytest.mark.parametrize(
    "line", [b"", b"  ", b"null", b"[]", b'"x"', b"{}", b'{"type":1}', b"{", b"\xff\xfe\0"]
)
def test_what_is_no_record_is_a_bad_line(line: bytes) -> None:
    """Each says why."""
    found = new_reader().read(line)

    assert isinstance(found, BadLine) and found.why


def test_a_line_nested_without_end_is_a_bad_line() -> None:
    """Depth beyond the parser's is told, not raised."""
    assert isinstance(new_reader().read(b'{"type":"user","x":' + b"[" * 100_000), BadLine)


def test_a_record_behind_a_torn_line_is_found_and_counted() -> None:
    """2.1.197 glues the next record to what a crash cut off: it is read, the torn one is counted."""
    whole = dumped(user("next", promptSource="sdk"))
    torn = dumped(user("lost"))
    record = new_reader().read(torn[:-30] + whole)

    assert isinstance(record, Record)
    assert (record.prompt, record.text) == ("sdk", "next")
    assert (record.understood, record.raw_type) == (False, "torn+user")


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_torn_line_alone_is_a_bad_line(cut: int) -> None:
    """No nested object of it passes for a record."""
    line = dumped(user([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text"}]}]))

    assert isinstance(new_reader().read(line[:-cut]), BadLine)


def test_a_nested_object_at_a_torn_end_is_no_record() -> None:
    """It may look like a state of the agent's, but belongs to no session."""
    assert isinstance(new_reader().read(b'{"parentUuid":null,"attachment":{"type":"mode"}'), BadLine)


def test_a_torn_line_that_quotes_a_record_is_a_bad_line() -> None:
    """A record inside a string has its quotes escaped, and is none."""
    quoted = dumped(user("x"))
    torn = dumped(answer({"type": "text", "text": quoted.decode()}))
    at = torn.index(rb"\"2.1.332\"")

    assert isinstance(new_reader().read(torn[: at + 13]), BadLine)


def test_made_ids_tell_the_same_line_at_another_place() -> None:
    """The same state written again after another line of the tree is another entry; reread it is not."""
    mode = {"type": "mode", "mode": "normal", "sessionId": SESSION}
    reader = new_reader()
    first, again = read(mode, reader), read(mode, reader)
    read(user("hi"), reader)
    later = read(mode, reader)

    assert first.entry == again.entry
    assert later.entry != first.entry


@pytest.mark.parametrize(
    ("line", "kind", "prompt", "text"),
    [
        (user("hi", promptSource="typed"), "prompt", "typed", "hi"),
        (user("hi", promptSource="suggestion_accepted"), "prompt", "typed", "hi"),
        (user("hi", promptSource="queued"), "prompt", "queued", "hi"),
        (user("hi", promptSource="sdk", entrypoint="sdk-cli"), "prompt", "sdk", "hi"),
        (user("hi", promptSource="system"), "note", None, "hi"),
        (user("hi"), "prompt", "typed", "hi"),
        (user("hi", entrypoint="sdk-ts"), "prompt", "sdk", "hi"),
        (user("<bash-input> is a tag", promptSource="typed"), "prompt", "typed", "<bash-input> is a tag"),
        (user("hi", isMeta=True, promptSource="typed"), "note", None, "hi"),
        (user("hi", isCompactSummary=True), "summary", None, "hi"),
        (user("hi", isSidechain=True, promptSource="typed"), "note", None, "hi"),
        (user("<task-notification>x", origin={"kind": "task-notification"}), "note", None, None),
        (user("<command-name>/clear</command-name>"), "note", None, "<command-name>/clear</command-name>"),
        (user("<local-command-stdout></local-command-stdout>"), "note", None, None),
        (user("<bash-stdout>x</bash-stdout>"), "note", None, None),
        (user("<bash-input>ls\n-l</bash-input>"), "command", None, "ls\n-l"),
        (
            user("<command-message>c</command-message>\n<command-name>/c</command-name>\n<command-args>a\nb</command-args>"),
            "prompt",
            "typed",
            "/c a\nb",
        ),
        (user("<command-message>c</command-message>\n<command-name>c</command-name>"), "note", None, None),
        (
            user(
                "<command-message>c</command-message>\n<command-name>/c</command-name>",
                sourceToolUseID="toolu_1",
            ),
            "note",
            None,
            None,
        ),
        (
            user(
                [
                    {"type": "text", "text": "<ide_opened_file>x</ide_opened_file>"},
                    {"type": "text", "text": "look"},
                    {"type": "image", "source": {}},
                ],
                promptSource="typed",
            ),
            "prompt",
            "typed",
            "look\n[image]",
        ),
    ],
)  # fmt: skip
def test_lines_in_the_users_name(
    line: dict[str, Any], kind: str, prompt: str | None, text: str | None
) -> None:
    """Only what a person or a program gave is a prompt, with its full text and nothing put beside it."""
    record = read(line)

    assert (record.kind, record.prompt) == (kind, prompt)
    assert text is None or record.text == text


@pytest.mark.parametrize(
    ("attachment", "prompt"),
    [
        ({"commandMode": "prompt", "origin": {"kind": "human"}, "humanTurn": True}, "absorbed"),
        ({"commandMode": "prompt", "origin": {"kind": "human"}}, "absorbed"),
        ({"commandMode": "prompt", "humanTurn": False}, None),
        ({"commandMode": "task-notification"}, None),
        ({"commandMode": "prompt", "origin": {"kind": "task-notification"}}, None),
    ],
)
def test_what_was_queued_and_absorbed(attachment: dict[str, Any], prompt: str | None) -> None:
    """A person's prompt that a running turn took in is one; a notification is not."""
    record = read(chained("attachment", attachment={"type": "queued_command", "prompt": "psst"} | attachment))

    assert (record.prompt, record.text) == (prompt, "psst")


TEXT = {"type": "text", "text": "so"}
SYNTHETIC = {"model": "<synthetic>"}


@pytest.mark.parametrize(
    ("line", "settles"),
    [
        (answer(TEXT), "done"),
        (answer(TEXT, stop="stop_sequence"), "done"),
        (answer(TEXT, stop="max_tokens"), "done"),
        (answer(TEXT, stop="refusal"), "error"),
        (answer(TEXT, stop="tool_use"), None),
        (answer(TEXT, stop="pause_turn"), None),
        (answer({"type": "thinking", "thinking": "hm"}), None),
        (answer(TEXT, stop="stop_sequence", isApiErrorMessage=True, message=SYNTHETIC), "error"),
        (answer(TEXT, stop="stop_sequence", message=SYNTHETIC), None),
        (answer(TEXT, isSidechain=True), None),
        (user("[Request interrupted by user]"), "interrupted"),
        (user([{"type": "text", "text": "[Request interrupted by user for tool use]"}]), "interrupted"),
        (chained("system", subtype="turn_duration"), "done"),
        (chained("system", subtype="stop_hook_summary"), None),
        (chained("system", subtype="api_error"), None),
    ],
)  # fmt: skip
def test_what_settles_a_run(line: dict[str, Any], settles: str | None) -> None:
    """The line of the last block of a final answer, an API error, an interruption; nothing in between."""
    assert read(line).settles == settles


@pytest.mark.parametrize(
    ("pointer", "leaf"),
    [
        ({"leafUuid": "u", "explicit": True}, ("u",)),
        ({"leafUuid": None, "explicit": True}, (None,)),
        ({"leafUuid": ZERO, "explicit": True}, None),
        ({"leafUuid": "u"}, None),
        ({"leafUuid": "u", "explicit": False}, None),
    ],
)
def test_explicit_pointers(pointer: dict[str, Any], leaf: tuple[str | None] | None) -> None:
    """An explicit id is where it goes on, null is the place before all; zero takes a pointer back."""
    record = read({"type": "last-prompt", "sessionId": SESSION} | pointer)

    assert record.leaf == leaf
    assert (record.kind == "leaf") == (leaf is not None)


def test_to_and_fro_and_to_again_are_three_moves() -> None:
    """The same pointer written again after another one is news; the file read again gives the same ids."""
    lines = [
        {"type": "last-prompt", "sessionId": SESSION, "leafUuid": leaf, "explicit": True} for leaf in "aba"
    ]
    reader = new_reader()
    first = [read(line, reader).entry for line in lines]
    reader = new_reader()

    assert len(set(first)) == 3
    assert [read(line, reader).entry for line in lines] == first


def test_a_given_title_is_not_replaced_by_a_made_up_one() -> None:
    """Titles that the model made up count until a person gives one."""
    reader = new_reader()
    lines = [{"aiTitle": "made"}, {"customTitle": "given"}, {"aiTitle": "made again"}, {"agentName": "newer"}]
    types = ["ai-title", "custom-title", "ai-title", "agent-name"]
    names = [read({"type": kind} | line, reader).name for kind, line in zip(types, lines, strict=True)]

    assert names == ["made", "given", None, "newer"]


@pytest.mark.parametrize(
    ("line", "foreign"),
    [
        (chained("attachment", attachment={"type": "remote_session_change", "url": "https://r"}), "https://r"),
        (chained("attachment", attachment={"type": "remote_session_change", "url": None}), None),
        (user("hi", entrypoint="remote_mobile"), "remote_mobile"),
        (user("hi", cwd="C:\\Users\\dev"), "Windows"),
        (user("hi", cwd="\\\\server\\share"), "Windows"),
        (user("hi"), None),
    ],
)  # fmt: skip
def test_foreign_sessions(line: dict[str, Any], foreign: str | None) -> None:
    """A session that ran elsewhere says so, with the reason."""
    found = read(line).foreign

    assert found is None if foreign is None else found is not None and foreign in found


def fork(*own: dict[str, Any]) -> list[bool]:
    """Whether each line of the tree was taken over, in a file that begins with `own` lines."""
    reader = new_reader()
    for line in own:
        read(line, reader)
    old = user("old", uuid="old", timestamp="2026-11-30T16:00:00.000Z")
    tail = chained("system", uuid="tail", subtype="turn_duration", timestamp="2026-11-30T16:00:09.000Z")
    new = user("new", uuid="new", parentUuid="tail")
    after = chained("system", uuid="after", subtype="turn_duration", timestamp="2026-11-30T17:00:05.000Z")
    return [read(line, reader).copied for line in (old, tail, new, after)]


def snapshot(message: str, at: str) -> dict[str, Any]:
    return {"type": "file-history-snapshot", "snapshot": {"messageId": message, "timestamp": at}}


def test_a_fork_is_seen_by_what_stands_before_its_copies() -> None:
    """The first own prompt's queue entry, or its checkpoint, stands before the lines of the past."""
    enqueue = {"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-11-30T16:59:59.900Z"}
    taken = [snapshot("old", "2026-11-30T16:00:00.080Z"), snapshot("new", "2026-11-30T17:00:00.080Z")]

    assert fork(enqueue) == [True, True, False, False]
    assert fork(*taken) == [True, True, False, False]
    assert fork() == [False, False, False, False]


def test_a_slow_checkpoint_makes_no_fork() -> None:
    """A hook may hold the first prompt's checkpoint for long: the prompt is known by its id."""
    assert fork(snapshot("old", "2026-11-30T16:05:00.000Z")) == [False, False, False, False]


def test_a_child_agent_without_its_meta_file_is_still_a_child(tmp_path: Path) -> None:
    """Until the file beside the log names the call, the agent's id stands for it."""
    log = tmp_path / "agent-a1.jsonl"
    reader = SOURCE.reader(log)
    line = user("do it", isSidechain=True, agentId="a1")
    before = read(line, reader)
    (tmp_path / "agent-a1.meta.json").write_text('{"toolUseId":"toolu_9"}')

    assert (before.within, before.prompt, before.in_tree) == ("a1", None, False)
    assert read(line, reader).within == "toolu_9"
