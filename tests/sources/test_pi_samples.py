"""What the reader says of whole session files of real pi releases (0.73.1 and 1.6.0)."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorder.sources.base import Record
from recorder.sources.pi import SOURCE

SAMPLES = Path(__file__).parent.parent / "samples" / "pi"

KINDS = {
    "session": "S",
    "system": "s",
    "prompt": "p",
    "answer": "a",
    "result": "r",
    "command": "c",
    "compaction": "C",
    "summary": "b",
    "label": "l",
    "name": "n",
    "note": "-",
}

# sample: the kinds of its lines in order; how its prompts were given (typed, steered, queued); how its
# runs settled (done, error, aborted); lines whose parent is not the line before, with that parent's
# place; how many lines are copies
EXPECTED: dict[str, tuple[str, str, str, dict[int, int], int]] = {
    "auto-compacted-v0.73.1": ("S--parapaCpa", "ttt", "ddd", {}, 0),
    "auto-compacted": ("S--sparapapa", "ttt", "ddd", {}, 0),
    "bash-tool-and-user-bash-v0.73.1": ("S--pararaccparrra", "tt", "dd", {}, 0),
    "bash-tool-and-user-bash": ("S--spararaccparrra", "tt", "dd", {}, 0),
    "branched-tree-v0.73.1": ("S--paraparaparalbpapaccpa", "tttttt", "dddddd", {11: 6, 16: 10, 19: 2}, 0),
    "branched-tree": ("S--sparaparaparalbpapaccpa", "tttttt", "dddddd", {12: 7, 17: 11, 20: 3}, 0),
    "cli-fork-v0.73.1": ("S--paraparapa", "ttt", "ddd", {}, 10),
    "cli-fork": ("S--sparaparapa", "ttt", "ddd", {}, 11),
    "cloned-v0.73.1": ("S--paraparapa", "ttt", "ddd", {}, 10),
    "cloned": ("S--sparaparapa", "ttt", "ddd", {}, 11),
    "codemode-nested-calls": ("S--spara", "t", "d", {}, 0),
    "compacted-v0.73.1": ("S--paraparaparaparaCpara", "ttttt", "ddddd", {}, 0),
    "compacted": ("S--sparaparaparaparaCpara", "ttttt", "ddddd", {}, 0),
    "context-edit": ("S--spa--a", "t", "dd", {}, 0),
    "extension-undo-redo-rewind-custom-entries": (
        "S--sparapara-----l-para",
        "ttt",
        "ddd",
        {13: 7, 14: 12, 15: 3},
        0,
    ),
    "fork-parent-v0.73.1": ("S--parapara", "tt", "dd", {}, 0),
    "fork-parent": ("S--sparapara", "tt", "dd", {}, 0),
    "forked-at-first-prompt-v0.73.1": ("S--pa", "t", "d", {}, 0),
    "forked-at-first-prompt": ("S--spa", "t", "d", {}, 3),
    "forked-interactive-v0.73.1": ("S--paccpa", "tt", "dd", {}, 6),
    "forked-interactive": ("S--spaccpa", "tt", "dd", {}, 7),
    "forked-v0.73.1": ("S--parapara", "tt", "dd", {}, 6),
    "forked": ("S--sparapara", "tt", "dd", {}, 7),
    "killed-mid-tool-sigkill": ("S--sparapa", "tt", "d", {}, 0),
    "killed-then-resumed": ("S--sparapapa", "ttt", "dd", {}, 0),
    "linear-v0.73.1": ("S--paraparara", "tt", "dd", {}, 0),
    "linear": ("S--sparaparara", "tt", "dd", {}, 0),
    "migrated-from-v1": ("Spa-", "t", "d", {}, 0),
    "misc-model-thinking-name-abort-error-steer-v0.73.1": (
        "S--pan-paraparrapaparpapa",
        "tttttsq",
        "ddaedd",
        {},
        0,
    ),
    "misc-model-thinking-name-abort-error-steer": (
        "S--span-paraparrapaparpapa",
        "tttttsq",
        "ddaedd",
        {},
        0,
    ),
    "parallel-tools-v0.73.1": ("S--parrra", "t", "d", {}, 0),
    "parallel-tools": ("S--sparrra", "t", "d", {}, 0),
    "provider-retry": ("S--spa-ara", "t", "ed", {}, 0),
    "resumed-v0.73.1": ("S--paraparapara", "ttt", "ddd", {}, 0),
    "resumed": ("S--sparaparapara", "ttt", "ddd", {}, 0),
}


def lines_of(sample: str) -> list[bytes]:
    return (SAMPLES / f"{sample}.jsonl").read_bytes().splitlines()


def read(lines: list[bytes]) -> list[Record]:
    reader = SOURCE.reader(Path("session.jsonl"))
    records = [reader.read(line) for line in lines]
    assert all(isinstance(record, Record) for record in records)
    return [record for record in records if isinstance(record, Record)]


def test_every_sample_is_in_the_table() -> None:
    """No sample goes unread."""
    assert {path.stem for path in SAMPLES.glob("*.jsonl")} == set(EXPECTED)


@pytest.mark.parametrize("sample", EXPECTED)
def test_sample(sample: str) -> None:
    """Each line of a real session is understood, with its kind, its parent, how its prompt was given, how
    its run settled, and whether it is a copy."""
    records = read(lines_of(sample))
    places = {record.entry: place for place, record in enumerate(records)}

    seen = (
        "".join(KINDS[record.kind] for record in records),
        "".join(record.prompt[0] for record in records if record.prompt),
        "".join(record.settles[0] for record in records if record.settles),
        {
            place: places[record.parent]
            for place, record in enumerate(records)
            if record.parent is not None and record.parent != records[place - 1].entry
        },
        sum(record.copied for record in records),
    )

    assert EXPECTED[sample] == seen
    assert [record.in_tree for record in records] == [False] + [True] * (len(records) - 1)


@pytest.mark.parametrize("sample", EXPECTED)
def test_windows_of_a_sample_are_whole(sample: str) -> None:
    """A tool's window opens with the answer that calls it and closes, at the end of its millisecond, not
    before; only a killed call stays open; every returned call was called before."""
    records = read(lines_of(sample))
    opened = {call.call: call for record in records for call in record.calls}
    closed = {returned.call: returned for record in records for returned in record.returns}

    still_open = set(opened) - set(closed)

    assert set(closed) <= set(opened)
    assert len(still_open) == (1 if sample.startswith("killed") else 0)
    for call, returned in closed.items():
        began, ended = opened[call].at_ns, returned.at_ns
        assert began is not None and ended is not None and began < ended
        assert (began % 1_000_000, ended % 1_000_000) == (0, 999_999)


def test_windows_take_the_times_of_the_messages() -> None:
    """A window opens at the answer's line and closes when the tool results were made (three parallel
    tools, the slowest of which took 0.4 s)."""
    records = read(lines_of("parallel-tools"))
    answer = next(record for record in records if record.calls)

    ends = [returned.at_ns for record in records for returned in record.returns]

    assert [call.at_ns for call in answer.calls] == [1796060181710_000_000] * 3
    assert ends == [1796060182126_999_999, 1796060182127_999_999, 1796060182127_999_999]


def test_calls_name_the_files_that_they_write() -> None:
    """`write` gives the whole content afterwards, `edit` a fragment of it, and a shell may write
    anywhere."""
    write, edit = [record.calls[0] for record in read(lines_of("branched-tree")) if record.calls][:2]
    shell = next(record.calls[0] for record in read(lines_of("bash-tool-and-user-bash")) if record.calls)

    assert (
        write.writes,
        write.files[0].path,
        write.files[0].after,
    ) == ("named", b"/home/dev/demo-branched/a.txt", b"1\n")
    assert (
        edit.writes,
        edit.files[0].path,
        edit.files[0].fragment,
        edit.files[0].after,
    ) == ("named", b"/home/dev/demo-branched/a.txt", b"2", None)
    assert (shell.writes, shell.files) == ("any", ())


def test_nested_calls_have_the_window_of_the_tool_that_made_them() -> None:
    """The write, the shell and the edit that codemode ran are calls of their own within its window."""
    records = read(lines_of("codemode-nested-calls"))
    outer = next(record.calls[0] for record in records if record.kind == "answer")
    result = next(record for record in records if record.kind == "result")

    calls = [(call.call, call.tool, call.writes, call.at_ns) for call in result.calls]

    assert [
        (f"{outer.call}/1", "write", "named", outer.at_ns),
        (f"{outer.call}/2", "bash", "any", outer.at_ns),
        (f"{outer.call}/3", "edit", "named", outer.at_ns),
    ] == calls
    assert [call.call for call in result.calls] + [outer.call] == [end.call for end in result.returns]
    assert len({end.at_ns for end in result.returns}) == 1


def test_a_failed_tool_returns_as_failed() -> None:
    """A non-zero exit, an unknown tool, a time-out: `isError` is the call's failure."""
    records = read(lines_of("bash-tool-and-user-bash"))

    failed = [returned.failed for record in records for returned in record.returns]

    assert failed == [False, True, True, True, True]


def test_a_fork_says_where_it_came_from() -> None:
    """The header of a fork names the file it was made from; copies keep the ids of their origin."""
    parent = {record.entry for record in read(lines_of("fork-parent"))}
    header, *entries = read(lines_of("forked"))

    assert header.parent_session is not None and header.parent_session.endswith(".jsonl")
    assert {record.entry in parent for record in entries if record.copied} == {True}
    assert {record.entry in parent for record in entries if not record.copied} == {False}


def test_labels_names_compactions_and_commands_are_read() -> None:
    """What a label is set on, a session's name, what a compaction keeps, and a person's own command."""
    labels = [record.label for record in read(lines_of("branched-tree")) if record.label]
    misc = read(lines_of("misc-model-thinking-name-abort-error-steer"))
    compaction = next(record for record in read(lines_of("compacted")) if record.kind == "compaction")
    command = next(record for record in read(lines_of("bash-tool-and-user-bash")) if record.kind == "command")

    assert labels == [("13f3043e", "good point")]
    assert [record.name for record in misc if record.name is not None] == ["My session"]
    assert compaction.kept_from == "a1f62b82"
    assert command.text == "echo user-made > user.txt; cat user.txt\nuser-made"
    assert command.prompt is None and command.calls == ()
