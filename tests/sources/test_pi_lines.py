"""Single lines and odd files: versions 1 and 2, wrong types, garbage, steering, forks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorder.sources.base import BadLine, Record
from recorder.sources.pi import SOURCE
from recorder.sources.pi_lines import PiReader

SAMPLES = Path(__file__).parent.parent / "samples" / "pi"
HEADER = {
    "type": "session",
    "version": 3,
    "id": "s1",
    "timestamp": "2026-11-30T10:00:00.000Z",
    "cwd": "/w",
}


def moment(ms: int) -> str:
    return f"2026-11-30T10:00:{ms // 1000:02}.{ms % 1000:03}Z"


BASE = 1796032800_000
"""`moment(0)` in ms."""


def entry(kind: str, identity: str, parent: str | None, ms: int, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": identity, "parentId": parent, "timestamp": moment(ms), **fields}


def message(identity: str, parent: str | None, ms: int, role: str, **fields: Any) -> dict[str, Any]:
    fields.setdefault("timestamp", BASE + ms)
    return entry("message", identity, parent, ms, message={"role": role, **fields})


def calls(*names: str) -> list[dict[str, Any]]:
    return [
        {"type": "toolCall", "id": f"c{n}", "name": name, "arguments": {}} for n, name in enumerate(names)
    ]


def dumped(line: object) -> bytes:
    return json.dumps(line, separators=(",", ":")).encode()


def read_all(*lines: object) -> list[Record]:
    reader = PiReader()
    records = [reader.read(line if isinstance(line, bytes) else dumped(line)) for line in lines]
    assert all(isinstance(record, Record) for record in records), records
    return [record for record in records if isinstance(record, Record)]


# ---- version 1, and its migration in place


V1_HEADER = {"type": "session", "id": "v1sess", "timestamp": moment(0), "cwd": "/w"}
V1 = [
    V1_HEADER,
    {
        "type": "message",
        "timestamp": moment(1),
        "message": {"role": "user", "content": "hello", "timestamp": 1},
    },
    {"type": "message", "timestamp": moment(2), "message": {"role": "hookMessage", "content": "hook"}},
    {
        "type": "message",
        "timestamp": moment(3),
        "message": {"role": "assistant", "content": [], "stopReason": "stop"},
    },
    {
        "type": "compaction",
        "timestamp": moment(4),
        "summary": "short",
        "firstKeptEntryIndex": 2,
        "tokensBefore": 9,
    },
]


def migrated() -> list[dict[str, Any]]:
    """What pi makes of V1 when it opens it (`migrateV1ToV2`, `migrateV2ToV3`): new keys stand last."""
    lines: list[dict[str, Any]] = [{**V1_HEADER, "version": 3}]
    for place, line in enumerate(V1[1:], 1):
        lines.append(
            {**line, "id": f"aaaa000{place}", "parentId": f"aaaa000{place - 1}" if place > 1 else None}
        )
    hook = lines[2]["message"]
    assert isinstance(hook, dict)
    lines[2]["message"] = {**hook, "role": "custom"}
    del lines[4]["firstKeptEntryIndex"]
    lines[4]["firstKeptEntryId"] = "aaaa0002"
    return lines


def test_version_1_is_chained_in_file_order() -> None:
    """Entries without ids get their own, each the child of the one before."""
    header, *entries = read_all(*V1)

    assert header.session == "v1sess"
    assert [None, *(record.entry for record in entries[:-1])] == [record.parent for record in entries]
    assert len({record.entry for record in entries}) == 4
    assert [record.kind for record in entries] == ["prompt", "note", "answer", "compaction"]
    assert entries[1].entry == entries[3].kept_from


def test_a_file_that_pi_migrated_from_version_1_holds_the_same_entries() -> None:
    """Ids, parents and what a compaction keeps are those that version 1 had; what pi adds later hangs on
    them."""
    before = read_all(*V1)
    later = message("bbbb0001", "aaaa0004", 9, "user", content="later")

    *after, added = read_all(*migrated(), later)

    assert [(r.entry, r.parent, r.kept_from) for r in before] == [
        (r.entry, r.parent, r.kept_from) for r in after
    ]
    assert ("bbbb0001", before[-1].entry) == (added.entry, added.parent)


def test_version_1_entries_of_another_content_are_other_entries() -> None:
    """A made id depends on what the line says and where it stands."""
    other = [V1[0], {**V1[1], "timestamp": moment(5)}, *V1[2:]]

    assert read_all(*V1)[1].entry != read_all(*other)[1].entry
    assert read_all(*V1)[2].entry == read_all(*other)[2].entry


def test_an_entry_with_an_id_after_version_1_is_chained_to_its_tail() -> None:
    """An old linear log keeps its history when a newer writer goes on in it."""
    added = message("cccc0001", "unknown", 9, "user", content="later")

    *before, last = read_all(*V1, added)

    assert ("cccc0001", before[-1].entry) == (last.entry, last.parent)


def test_version_2_reads_like_version_3() -> None:
    """Version 2 differs in one role, and that is the same kind of entry."""
    records = read_all({**HEADER, "version": 2}, message("a", None, 1, "hookMessage", content="x"))

    assert (records[1].entry, records[1].kind, records[1].understood) == ("a", "note", True)


# ---- runs


def test_a_prompt_typed_after_a_kill_is_not_steered() -> None:
    """A run that was killed after its tools returned looks like one that goes on; the time of the prompt
    tells them apart."""
    run = [
        HEADER,
        message("u", None, 10, "user", content="go"),
        message("a", "u", 20, "assistant", content=calls("bash"), stopReason="toolUse"),
        message("r", "a", 50, "toolResult", toolCallId="c0", toolName="bash", content=[], isError=False),
    ]
    steered = entry("message", "p", "r", 50, message={"role": "user", "content": "x", "timestamp": BASE + 30})
    typed = entry("message", "p", "r", 90, message={"role": "user", "content": "x", "timestamp": BASE + 89})

    assert (read_all(*run, steered)[-1].prompt, read_all(*run, typed)[-1].prompt) == ("steered", "typed")


def test_two_prompts_queued_in_one_run_are_both_queued() -> None:
    """The second one's parent is the first one, and it too was given before the run settled; one that is
    typed afterwards is not."""
    records = read_all(
        HEADER,
        message("u", None, 10, "user", content="go"),
        message("a", "u", 50, "assistant", content=[], stopReason="stop"),
        message("q1", "a", 51, "user", content="1", timestamp=BASE + 20),
        message("q2", "q1", 51, "user", content="2", timestamp=BASE + 21),
        message("b", "q2", 70, "assistant", content=[], stopReason="stop"),
        entry("label", "l", "b", 75, targetId="a", label="x"),
        message("t", "l", 90, "user", content="3"),
    )

    assert [r.prompt for r in records if r.prompt] == ["typed", "queued", "queued", "typed"]


@pytest.mark.parametrize(
    ("stop", "content", "settles", "called"),
    [
        ("stop", [], "done", 0),
        ("length", [], "done", 0),
        ("deferred", [], "done", 0),
        (None, [], "done", 0),
        ("toolUse", calls("bash"), None, 1),
        ("length", calls("bash"), None, 1),
        ("stop", calls("bash", "read"), None, 2),
        ("error", calls("bash"), "error", 0),
        ("aborted", calls("bash"), "aborted", 0),
    ],
)
def test_how_an_answer_ends(
    stop: str | None, content: list[dict[str, Any]], settles: str | None, called: int
) -> None:
    """pi runs the tools of an answer and goes on, except where the answer itself failed: then none ran."""
    answer = read_all(HEADER, message("a", None, 1, "assistant", content=content, stopReason=stop))[1]

    assert (settles, called, "a") == (answer.settles, len(answer.calls), answer.step)


def test_a_nested_call_that_did_not_end_stays_open() -> None:
    """An `unfinished` nested call has no end; reads are left out; one without its arguments may write
    anywhere."""
    nested = [
        {"id": "c0/1", "name": "read", "status": "ok", "arguments": {"path": "a"}},
        {"id": "c0/2", "name": "write", "status": "ok", "argumentsBytes": 9000, "durationMs": 3},
        {"id": "c0/3", "name": "bash", "status": "unfinished", "arguments": {"command": "x"}},
        {"id": "c0/4", "name": "bash", "status": "error", "arguments": {"command": "x"}},
    ]
    result = read_all(
        HEADER,
        message("a", None, 20, "assistant", content=calls("codemode"), stopReason="toolUse"),
        message("r", "a", 90, "toolResult", toolCallId="c0", content=[], nestedCalls={"calls": nested}),
    )[2]

    assert [(c.call, c.writes) for c in result.calls] == [("c0/2", "any"), ("c0/3", "any"), ("c0/4", "any")]
    assert [(r.call, r.failed) for r in result.returns] == [("c0/2", False), ("c0/4", True), ("c0", False)]
    assert {(BASE + 20) * 1_000_000} == {c.at_ns for c in result.calls}


@pytest.mark.parametrize("timestamp", [10**40, -1, 1e300, True, "now", None])
def test_a_time_out_of_range_is_not_taken(timestamp: object) -> None:
    """A result whose own time is no time ends with its line, and such a prompt was typed."""
    records = read_all(
        HEADER,
        message("a", None, 20, "assistant", content=calls("bash"), stopReason="toolUse"),
        message("r", "a", 50, "toolResult", toolCallId="c0", content=[], timestamp=timestamp),
        message("p", "r", 60, "user", content="x", timestamp=timestamp),
    )

    assert [end.at_ns for end in records[2].returns] == [(BASE + 50) * 1_000_000 + 999_999]
    assert records[3].prompt == "typed"


@pytest.mark.parametrize(("label", "read"), [("x", "x"), ("", None), (None, None)])
def test_an_empty_label_clears_it(label: str | None, read: str | None) -> None:
    """As in pi, no label and an empty one are the same."""
    assert read_all(HEADER, entry("label", "l", None, 1, targetId="a", label=label))[1].label == ("a", read)


# ---- forks


FORK = {**HEADER, "timestamp": moment(500), "parentSession": "/s/origin.jsonl"}


def test_copies_are_the_older_entries_at_the_head_of_a_fork() -> None:
    """Once something of the fork's own was written nothing is a copy any more, even if the clock goes
    back."""
    records = read_all(
        FORK,
        message("a", None, 100, "user", content="old"),
        entry("label", "b", "a", 200, targetId="a", label="x"),
        message("c", "b", 600, "user", content="own"),
        message("d", "c", 300, "user", content="clock went back"),
    )

    assert [record.copied for record in records] == [False, True, True, False, False]


@pytest.mark.parametrize("header", [HEADER, {**FORK, "timestamp": 7}, {**FORK, "parentSession": None}])
def test_without_an_origin_or_its_time_nothing_is_a_copy(header: dict[str, Any]) -> None:
    """Old timestamps alone say nothing."""
    assert not read_all(header, message("a", None, 0, "user", content="x"))[1].copied


def test_version_1_named_its_origin_otherwise() -> None:
    """`branchedFrom` is what `parentSession` was called."""
    assert read_all({**V1_HEADER, "branchedFrom": "/s/o.jsonl"})[0].parent_session == "/s/o.jsonl"


# ---- what is not understood


@pytest.mark.parametrize(
    "line",
    [
        entry("telepathy", "x", "p", 1, content={"any": "thing"}),
        message("x", "p", 1, "oracle", content="y"),
        message("x", "p", 1, "user", content=7),
        message("x", "p", 1, "assistant", content=[{"type": "text", "text": ["no"]}]),
        message("x", "p", 1, "assistant", stopReason=3),
        entry("message", "x", "p", 1),
        entry("message", "x", "p", 1, message="text"),
        entry("label", "x", "p", 1),
        entry("compaction", "x", "p", 1, summary={"no": 1}),
        entry("session_info", "x", "p", 1, name=[]),
    ],
)
def test_what_is_not_understood_is_kept_in_its_place(line: dict[str, Any]) -> None:
    """Unknown types and roles, and known ones that hold something else, stay nodes of the tree."""
    record = read_all(HEADER, line)[1]

    assert (
        record.entry,
        record.parent,
        record.kind,
        record.understood,
        record.in_tree,
    ) == ("x", "p", "unknown", False, True)
    assert moment(1) == record.time


def test_an_entry_without_an_id_is_no_node() -> None:
    """It is kept under an id made from the line and its place, and the same line read again has it too."""
    line = {"type": "message", "timestamp": moment(1), "message": {"role": "user", "content": "x"}}

    first, again = read_all(HEADER, line, line)[1:], read_all(HEADER, line)[1]

    assert first[0] == again and first[0].entry != first[1].entry
    assert (again.in_tree, again.understood, again.prompt) == (False, False, None)


def test_a_second_header_is_not_the_session() -> None:
    """One file holds one session, that of its first header."""
    records = read_all(HEADER, {**HEADER, "id": "s2"})

    assert (records[0].session, records[1].kind, records[1].session) == ("s1", "unknown", None)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"  ",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b"{",
        b"{}",
        b'{"type":5}',
        b'{"type":"session","version":3}',
        b"\x00\xff\xfe",
        b"[" * 100_000,
        b'{"type":"x","y":' + b"[" * 100_000,
        b'{"a":NaN}',
    ],
    ids=lambda line: repr(line[:20]),
)
def test_what_is_no_entry_is_a_bad_line(line: bytes) -> None:
    """Garbage gets a reason and the reader goes on."""
    reader = PiReader()

    answer = reader.read(line)

    assert isinstance(answer, BadLine) and answer.why
    assert isinstance(reader.read(dumped(HEADER)), Record)


def test_broken_characters_are_replaced_as_pi_does() -> None:
    """A half surrogate and bytes that are no UTF-8 do not lose the prompt."""
    surrogate = dumped(message("a", None, 1, "user", content="x\ud800y"))
    latin = dumped(message("b", None, 1, "user", content="x?y")).replace(b"x?y", b"x\xe9y")

    assert [record.text for record in read_all(surrogate, latin)] == ["x\ufffdy"] * 2


def test_a_header_with_new_keys_of_any_type_is_still_the_header() -> None:
    """A newer pi may put anything beside what is known."""
    assert read_all({**HEADER, "name": {"a": 1}, "content": 7, "message": []})[0].session == "s1"


def test_a_folder_of_another_system_is_foreign() -> None:
    """A Windows path is told apart; one of this system is not questioned."""
    windows = read_all({**HEADER, "cwd": "C:\\work"})[0]

    assert windows.foreign is not None and "C:\\work" in windows.foreign
    assert read_all(HEADER)[0].foreign is None


@pytest.mark.parametrize(
    ("given", "time"),
    [
        ("2026-11-30T10:00:00.123Z", "2026-11-30T10:00:00.123Z"),
        ("2026-11-30T12:00:00.123+02:00", "2026-11-30T10:00:00.123Z"),
        ("2026-11-30T10:00:00", "2026-11-30T10:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", ""),
        ("0001-01-01T00:00:00+14:00", ""),
        ("yesterday", ""),
        (1796032800000, ""),
        (None, ""),
    ],
)
def test_times_are_utc_or_none(given: object, time: str) -> None:
    """What is no time, or out of any clock's range, is left out."""
    assert time == read_all({**HEADER, "timestamp": given})[0].time


def test_what_a_person_reads_of_an_answer() -> None:
    """Its text, what its calls do, and why it failed; thoughts and picture bytes are left out."""
    content = [
        {"type": "thinking", "thinking": "hmm"},
        {"type": "text", "text": "Look:"},
        {"type": "toolCall", "id": "1", "name": "bash", "arguments": {"command": "ls"}},
        {"type": "toolCall", "id": "2", "name": "ask", "arguments": {"q": "é"}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ]
    line = message("a", None, 1, "assistant", content=content, stopReason="error", errorMessage="overloaded")

    assert read_all(line)[0].text == 'Look:\nbash ls\nask {"q": "é"}\n[image]\noverloaded'


# ---- any input


LINES = [line for path in sorted(SAMPLES.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def mutate(value: Any, draw: Any) -> Any:
    """The same value with one of its parts, at any depth, put in place by something else."""
    if isinstance(value, dict) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value)))
        return {**value, key: mutate(value[key], draw)}
    if isinstance(value, list) and value and draw(st.integers(0, 3)):
        place = draw(st.integers(0, len(value) - 1))
        return [*value[:place], mutate(value[place], draw), *value[place + 1 :]]
    return draw(JSON)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=5))
def test_no_bytes_raise(lines: list[bytes]) -> None:
    """Any line gets an answer, before and after a header."""
    reader = PiReader()

    for line in [*lines, dumped(HEADER), *lines]:
        assert isinstance(reader.read(line), Record | BadLine)
        assert isinstance(SOURCE.claims(Path("x"), line), bool)


@settings(max_examples=250, deadline=None)
@given(st.data())
def test_no_mutated_entry_raises(data: st.DataObject) -> None:
    """Whatever stands in place of a known key, the answer can be stored: valid text, times in 64 bits."""
    reader = PiReader()
    reader.read(dumped(HEADER))
    whole = json.loads(data.draw(st.sampled_from(LINES)))
    line = dumped(mutate(whole, data.draw))

    answer = reader.read(line[: data.draw(st.integers(0, len(line)))] if data.draw(st.booleans()) else line)

    assert isinstance(answer, Record | BadLine)
    if isinstance(answer, Record):
        answer.text.encode()
        times = [call.at_ns for call in answer.calls] + [end.at_ns for end in answer.returns]
        assert all(time is None or 0 <= time < 2**63 for time in times)
