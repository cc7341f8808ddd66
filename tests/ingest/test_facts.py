"""Which facts the lines of a log become."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recorder.events import (
    BranchLeft,
    Compacted,
    EntryAdded,
    LabelSet,
    LeafSet,
    LineUnread,
    PromptGiven,
    RunSettled,
    RunStarted,
    SessionDescribed,
    SessionEnded,
    SessionForked,
    SessionStarted,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolReturned,
    session_stream,
)
from recorder.log import EventLog
from recorder.reading import tail
from recorder.reading.moments import ROUNDING
from recorder.sources.base import Call, FileNamed, Record, Return
from tests.ingest.driving import Driven, all_facts, fields, names, of
from tests.ingest.simple import entry, header, iso, line, lines, now, prompt
from tests.ingest.test_tail import append

SECRET = "sk-ant-api03-" + "a1B2" * 20


@pytest.fixture
def driven(log: EventLog, logs: Path) -> Iterator[Driven]:
    driven = Driven(log, logs)
    driven.poll()
    yield driven
    driven.close()


@pytest.fixture
def one_leaf(log: EventLog, logs: Path) -> Iterator[Driven]:
    driven = Driven(log, logs, one_leaf=True)
    driven.poll()
    yield driven
    driven.close()


# ---- the session


def test_a_session_starts_with_all_that_its_first_lines_know(driven: Driven) -> None:
    """Its first fact is version 1 and holds what the first piece says; later news are described."""
    time = iso(now())
    facts = driven.write(
        header(), entry("1", cwd="/w", agent_version="9", time=time), entry("2", name="called")
    )
    [started] = of(SessionStarted, facts)

    assert facts[0] is started
    assert (session_stream("simple", "s-1"), 1, "simple", "s-1", "9", "/w", True, time) == fields(
        started,
        "originator_id",
        "originator_version",
        "agent",
        "session",
        "agent_version",
        "cwd",
        "live",
        "time",
    )
    assert str(driven.folder / "a.jsonl").encode() == started.log
    assert [fact.name for fact in of(SessionDescribed, facts)] == ["called"]


def test_only_news_are_described(driven: Driven) -> None:
    """Each line may repeat the folder and the version; a fact says what changed, and that alone."""
    driven.write(header(cwd="/w", agent_version="9"))
    facts = driven.each(
        entry("1", cwd="/w", agent_version="9"),
        entry("2", cwd="/other", agent_version="9"),
        entry("3", cwd="/other", agent_version="10", name="n"),
        entry("4", foreign="it ran in a container", name="n"),
        entry("5", name=""),
    )
    wanted = "cwd", "agent_version", "name", "foreign", "log"

    assert [fields(fact, *wanted) for fact in of(SessionDescribed, facts)] == [
        ("/other", None, None, None, None),
        (None, "10", "n", None, None),
        (None, None, None, "it ran in a container", None),
        (None, None, "", None, None),
    ]


def test_a_log_that_moved_is_described(driven: Driven) -> None:
    """The session's log is where its conversation goes on; a child agent's own file is not it."""
    driven.write(header(), entry("1"))
    (driven.folder / "a.jsonl").rename(driven.folder / "b.jsonl")
    moved = driven.write(entry("2"), name="b.jsonl")
    child = driven.write(
        header(), entry("3", within="call"), Record(entry="4", kind="note", raw_type="x"), name="child.jsonl"
    )

    assert [str(driven.folder / "b.jsonl").encode()] == [fact.log for fact in of(SessionDescribed, moved)]
    assert of(SessionDescribed, child) == []


def test_a_session_that_ends(driven: Driven) -> None:
    """The log may say so."""
    assert [
        fact.reason for fact in of(SessionEnded, driven.write(header(), entry("1", ends_session="left")))
    ] == ["left"]


# ---- forks


def test_a_fork_names_its_parent_by_id(driven: Driven) -> None:
    """Once, though every copied line may say it; never itself."""
    facts = driven.write(
        header(),
        entry("1", parent_session="p-0"),
        entry("2", parent_session="p-0"),
        entry("3", parent_session="s-1"),
    )
    assert [fact.parent_session for fact in of(SessionForked, facts)] == ["p-0"]
    assert of(SessionStarted, facts)[0].parent == "p-0"


def test_a_path_of_origin_is_resolved_by_that_logs_own_header(driven: Driven, tmp_path: Path) -> None:
    """Not by its name; a path whose file is gone, or is no log, stays a path."""
    parent, gone, other = tmp_path / "name-lies.jsonl", tmp_path / "gone_id.jsonl", tmp_path / "other"
    append(parent, line(header("real-id")))
    append(other, b"no log\n")
    facts = driven.write(
        header(parent_session=str(parent)),
        entry("1", parent_session=str(gone)),
        entry("2", parent_session=str(other)),
    )

    assert ["real-id", str(gone), str(other)] == [fact.parent_session for fact in of(SessionForked, facts)]
    assert str(parent) == of(SessionStarted, facts)[0].parent


def test_copied_lines_start_nothing(driven: Driven) -> None:
    """A fork's inherited prompts are given, but their runs, steps and calls were another session's."""
    old = iso(now() - 10**15)
    facts = driven.write(
        header(),
        prompt("p", copied=True, time=old),
        entry(
            "a",
            "answer",
            parent="p",
            copied=True,
            time=old,
            step="a",
            settles="done",
            calls=(Call("c", "bash", "any"),),
        ),
        entry("r", "result", parent="a", copied=True, time=old, returns=(Return("c"),)),
    )
    [given] = of(PromptGiven, facts)

    assert names(facts) == ["SessionStarted", "PromptGiven"]
    assert (given.copied, all(fact.copied for fact in of(EntryAdded, facts)[1:])) == (True, True)
    assert old == iso(given.at)


# ---- entries


def test_every_line_is_an_entry_with_its_redacted_line(driven: Driven) -> None:
    """The raw line is kept, without secrets; the excerpt too has none."""
    record = entry("1", "answer", text=f"the key is {SECRET}", time="2026-01-01T00:00:00Z")
    fact = of(EntryAdded, driven.write(header(), record))[1]
    body = driven.log.body(fact.body.digest)

    assert ("1", None, "answer", "answer", True, False, True, record.time) == fields(
        fact, "entry", "parent", "kind", "raw_type", "in_tree", "copied", "understood", "time"
    )
    assert b"the key is" in body and SECRET.encode() not in body
    assert "the key is" in fact.excerpt and SECRET not in fact.excerpt
    assert len(body) == fact.body.size


def test_a_cut_parent_is_the_logical_one(driven: Driven) -> None:
    """After a compaction the conversation goes on from before it."""
    facts = driven.write(header(), entry("1"), entry("2", "compaction", logical_parent="1", kept_from="1"))

    assert of(EntryAdded, facts)[-1].parent == "1"
    assert [fields(fact, "entry", "kept_from") for fact in of(Compacted, facts)] == [("2", "1")]


def test_labels_and_leaves(driven: Driven) -> None:
    """What the log itself says of its entries."""
    facts = driven.write(
        header(),
        entry("1", label=("0", "good")),
        entry("2", label=("0", None)),
        entry("3", leaf=("1",)),
        entry("4", leaf=(None,)),
    )
    assert [fields(fact, "entry", "label") for fact in of(LabelSet, facts)] == [("0", "good"), ("0", None)]
    assert [fact.entry for fact in of(LeafSet, facts)] == ["1", None]


def test_lines_that_are_no_records_are_kept_and_counted(driven: Driven) -> None:
    """Each counts once, also when two are the same; the lines around them are read."""
    append(
        driven.folder / "a.jsonl",
        line(header()) + b"not json %s\n" % SECRET.encode() + b"\n\n" + line(entry("1")),
    )
    driven.poll()
    unread = of(LineUnread, all_facts(driven.log))

    assert fields(driven.counts, "entries", "new", "bad_lines", "duplicates") == (5, 2, 3, 0)
    assert 3 == len({fact.line for fact in unread}) == len(unread)
    assert all("it is no record" in fact.why for fact in unread)
    assert b"not json" in driven.log.body(unread[0].body.digest)
    assert SECRET.encode() not in driven.log.body(unread[0].body.digest)


def test_a_line_too_long_to_be_held(driven: Driven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size and digest are kept and how it begins; the lines around it are read."""
    monkeypatch.setattr(tail, "LONGEST", 5 << 20)
    long = b"begins so " + SECRET.encode() + b"x" * (7 << 20)
    append(driven.folder / "a.jsonl", line(header()) + long + b"\n" + line(entry("1")))
    driven.poll()
    [unread] = of(LineUnread, all_facts(driven.log))
    kept = driven.log.body(unread.body.digest)

    assert fields(driven.counts, "entries", "new", "bad_lines") == (3, 2, 1)
    assert f"{len(long)} bytes, sha256 {hashlib.sha256(long).hexdigest()}" in unread.why
    assert kept.startswith(b"begins so ") and SECRET.encode() not in kept
    assert len(kept) < 70_000


def test_records_not_understood_are_kept_and_counted_apart(driven: Driven) -> None:
    """By their raw type."""
    odd = [entry(f"{number}", "unknown", understood=False) for number in range(3)]
    facts = driven.write(header(), *odd)

    assert [fact.understood for fact in of(EntryAdded, facts)] == [True, False, False, False]
    assert fields(driven.counts, "entries", "new", "not_understood") == (4, 1, {"unknown": 3})


def test_what_is_known_is_a_duplicate(driven: Driven) -> None:
    """The same entry again, in the same file, in another file, or after a rewrite, adds nothing."""
    driven.write(header(), entry("1"), entry("1"))
    driven.write(header(), entry("1"), entry("2"), name="copy.jsonl")
    (driven.folder / "a.jsonl").write_bytes(lines([header(), entry("2"), entry("3"), entry("1")]))
    driven.poll()

    assert [fact.entry for fact in of(EntryAdded, all_facts(driven.log))] == ["h-s-1", "1", "2", "3"]
    assert fields(driven.counts, "entries", "new", "duplicates") == (10, 4, 6)


# ---- prompts and runs


def test_a_prompt_starts_a_run_that_settles(driven: Driven) -> None:
    """The run has the prompt's id, and its outcome is what the line says."""
    driven.write(header())
    facts = driven.each(prompt("p"), entry("a", "answer", parent="p", settles="done"))
    [given], [settled] = of(PromptGiven, facts), of(RunSettled, facts)

    assert names(facts) == ["PromptGiven", "RunStarted", "RunSettled"]
    assert fields(given, "entry", "how", "excerpt", "copied", "late") == (
        "p",
        "typed",
        "text of p",
        False,
        False,
    )
    assert driven.log.body(given.text.digest) == b"text of p"
    assert fields(settled, "run", "entry", "outcome") == ("p", "a", "done")


def test_a_run_that_goes_on_after_it_settled_settles_again(driven: Driven) -> None:
    """Later lines of the same run open it silently; what settles without them adds nothing."""
    driven.write(header())
    facts = driven.each(
        prompt("p"),
        entry("a", "answer", settles="error"),
        entry("s", "system", settles="done"),
        entry("b", "answer"),
        entry("c", "result"),
        entry("d", "answer", settles="done"),
    )
    assert [fields(fact, "run", "entry", "outcome") for fact in of(RunSettled, facts)] == [
        ("p", "a", "error"),
        ("p", "d", "done"),
    ]
    assert len(of(RunStarted, facts)) == 1


def test_nothing_settles_where_no_run_is(driven: Driven) -> None:
    """A greeting before the first prompt ends nothing."""
    assert of(RunSettled, driven.write(header(), entry("a", "answer", settles="done"))) == []


def test_a_prompt_alone_is_not_late(driven: Driven) -> None:
    """Changes may be the run's from when the line was written, less the agent's own delay."""
    driven.write(header())
    given = now() - 20 * 10**9
    [fact] = of(PromptGiven, driven.write(prompt("p", time=iso(given)), entry("n", "note")))
    written = (driven.folder / "a.jsonl").stat().st_mtime_ns

    assert (False, given, written - driven.source.flush_ns) == fields(fact, "late", "at", "reference_at")


@pytest.mark.parametrize("later", [entry("x", "answer"), entry("x", "result"), prompt("x")])
def test_a_prompt_read_with_its_run_is_late(driven: Driven, later: object) -> None:
    """Then changes may be its run's from the agent's time on."""
    driven.write(header())
    given = now() - 5 * 10**9
    facts = driven.write(prompt("p", time=iso(given)), entry("n", "note"), later)  # type: ignore[arg-type]

    assert (True, given + ROUNDING) == fields(of(PromptGiven, facts)[0], "late", "reference_at")


def test_a_late_prompt_with_an_impossible_time(driven: Driven) -> None:
    """Changes may be its run's from the look at the file before."""
    driven.write(header())
    before = (driven.folder / "a.jsonl").stat().st_mtime_ns
    facts = driven.write(prompt("p", time="2020-01-01T00:00:00Z"), entry("a", "answer"))

    assert (True, before) == fields(of(PromptGiven, facts)[0], "late", "reference_at")


def test_a_childs_line_does_not_make_a_prompt_late(driven: Driven) -> None:
    """Nor is a child agent's prompt a prompt."""
    driven.write(header())
    facts = driven.write(prompt("p"), entry("x", "answer", within="c"), prompt("child", within="c"))

    assert [fields(fact, "entry", "late") for fact in of(PromptGiven, facts)] == [("p", False)]


# ---- steps and tools


def test_steps_and_their_calls(driven: Driven) -> None:
    """A step ends with its last sign, told when the next one begins or the run settles."""
    start = now() - 10 * 10**9
    at = [iso(start + number * 10**9) for number in range(6)]
    driven.write(header())
    facts = driven.write(
        prompt("p", time=at[0]),
        entry("a", "answer", step="A", time=at[1], calls=(Call("1", "bash", "any"),)),
        entry("b", "answer", step="A", time=at[1], calls=(Call("2", "edit", "named", background=True),)),
        entry("r", "result", time=at[2], returns=(Return("1"), Return("2", failed=True))),
        entry("c", "answer", step="B", time=at[4], settles="done"),
    )

    assert names(facts) == [
        "PromptGiven", "RunStarted", "StepStarted", "ToolCalled", "ToolCalled", "ToolReturned",
        "ToolReturned", "StepEnded", "StepStarted", "StepEnded", "RunSettled",
    ]  # fmt: skip
    assert [("p", "A", at[1]), ("p", "B", at[4])] == [
        (fact.run, fact.step, iso(fact.at)) for fact in of(StepStarted, facts)
    ]
    assert [(fact.step, iso(fact.at), fact.time) for fact in of(StepEnded, facts)] == [
        ("A", at[2], at[2]),
        ("B", at[4], at[4]),
    ]
    assert [
        fields(fact, "run", "step", "call", "tool", "writes", "background") for fact in of(ToolCalled, facts)
    ] == [("p", "A", "1", "bash", "any", False), ("p", "A", "2", "edit", "named", True)]
    assert [fields(fact, "run", "call", "failed") for fact in of(ToolReturned, facts)] == [
        ("p", "1", False),
        ("p", "2", True),
    ]


def test_a_step_ends_at_the_next_prompt(driven: Driven) -> None:
    """A run that was killed has no other end."""
    driven.write(header())
    facts = driven.each(
        prompt("p"),
        entry("a", "answer", parent="p", step="A", calls=(Call("1", "bash", "any"),)),
        prompt("q", "a"),
    )

    assert names(facts)[-3:] == ["StepEnded", "PromptGiven", "RunStarted"]
    assert fields(of(StepEnded, facts)[0], "run", "step") == ("p", "A")


def test_windows_have_the_tools_own_times_where_they_are_known(driven: Driven) -> None:
    """By the same rule as every other time."""
    driven.write(header())
    moment = now() - 3 * 10**9
    facts = driven.each(
        prompt("p"),
        entry(
            "a",
            "answer",
            time=iso(moment),
            calls=(Call("1", "bash", "any", at_ns=moment - 10**9), Call("2", "bash", "any")),
        ),
        entry(
            "r", "result", time=iso(moment), returns=(Return("1", at_ns=moment + 10**9), Return("2", at_ns=1))
        ),
    )
    written = (driven.folder / "a.jsonl").stat().st_mtime_ns

    assert [moment - 10**9, moment] == [fact.at for fact in of(ToolCalled, facts)]
    assert [moment + 10**9, written] == [fact.at for fact in of(ToolReturned, facts)]


def test_a_call_and_its_return_come_once(driven: Driven) -> None:
    """Also where lines repeat them, or a return comes without a call."""
    driven.write(header())
    facts = driven.each(
        prompt("p"),
        entry("a", "answer", calls=(Call("1", "bash", "any"),)),
        entry("b", "answer", calls=(Call("1", "bash", "any"),), returns=(Return("9"),)),
        entry("c", "result", returns=(Return("1"),)),
        entry("d", "result", returns=(Return("1"), Return("9"))),
    )
    assert [fact.call for fact in of(ToolCalled, facts)] == ["1"]
    assert [fields(fact, "run", "call") for fact in of(ToolReturned, facts)] == [("p", "9"), ("p", "1")]


def test_a_childs_work_belongs_to_the_run_of_its_call(driven: Driven) -> None:
    """Though its lines come when another run is under way, and the child has steps of its own."""
    driven.write(header())
    driven.each(
        prompt("p"),
        entry("a", "answer", step="A", calls=(Call("agent", "Agent", "any", background=True),)),
        entry("b", "answer", step="B", settles="done"),
        prompt("q", "b"),
        entry("c", "answer", step="C"),
    )
    facts = driven.write(
        header(),
        entry("x", "answer", within="agent", step="X", cwd="/elsewhere", calls=(Call("1", "bash", "any"),)),
        entry("y", "result", within="agent", returns=(Return("1"),)),
        entry("z", "answer", within="agent", step="Z", settles="done", calls=(Call("2", "bash", "any"),)),
        name="child.jsonl",
    )

    assert names(facts) == ["ToolCalled", "ToolReturned", "ToolCalled"]
    assert [fields(fact, "run", "step", "call") for fact in of(ToolCalled, facts)] == [
        ("p", "A", "1"),
        ("p", "A", "2"),
    ]
    assert of(ToolReturned, facts)[0].run == "p"
    assert not any(fact.in_tree for fact in of(EntryAdded, facts))


def test_files_that_a_tool_names(driven: Driven, tmp_path: Path) -> None:
    """Their contents become git's own ids; what stood there is kept byte for byte, secrets too."""
    before = b"before \xff" + SECRET.encode()
    (tmp_path / "f").write_bytes(before)
    git = subprocess.run(
        ["git", "hash-object", tmp_path / "f"], capture_output=True, text=True, check=True
    ).stdout.strip()
    files = (
        FileNamed(b"/w/f", before=before, after=b"", fragment=b"some text"),
        FileNamed(b"/w/new", absent_before=True, fragment=SECRET.encode()),
        FileNamed(b"/w/plain"),
    )
    driven.write(header())
    facts = driven.each(
        prompt("p"),
        entry("a", "answer", calls=(Call("1", "edit", "named", files=files),)),
        entry("r", "result", returns=(Return("1", files=files[:1]),)),
    )
    [called], [returned] = of(ToolCalled, facts), of(ToolReturned, facts)
    first, new, plain = called.files

    assert (b"/w/f", git, hashlib.sha1(b"blob 0\0").hexdigest()) == (first.path, first.before, first.after)
    assert first.before_body is not None and before == driven.log.body(first.before_body.digest)
    assert first.fragment is not None and driven.log.body(first.fragment.digest) == b"some text"
    assert (new.before, new.after, new.before_body, new.fragment) == ("absent", None, None, None)
    assert (plain.before, plain.after, plain.before_body, plain.fragment) == (None, None, None, None)
    assert (first,) == returned.files


# ---- branches


def left(facts: object) -> list[tuple[object, ...]]:
    return [fields(fact, "leaf", "to") for fact in of(BranchLeft, facts)]  # type: ignore[arg-type]


def test_a_prompt_that_goes_on_is_no_rewind(driven: Driven) -> None:
    """Parallel tools fork the tree; only a prompt that does not descend from the last one tells."""
    driven.write(header())
    facts = driven.each(
        prompt("p"),
        entry("a", "answer", parent="p"),
        entry("b", "answer", parent="a"),
        entry("ra", "result", parent="a"),
        entry("rb", "result", parent="b"),
        entry("c", "answer", parent="ra"),
        prompt("q", "c"),
    )
    assert left(facts) == []


def test_a_prompt_from_before_the_last_one_is_a_rewind(driven: Driven) -> None:
    """The newest entry is the leaf that was left; also back to the very start."""
    driven.write(header(), entry("0"), prompt("p", "0"), entry("a", "answer", parent="p"))
    first = driven.write(prompt("q", "0"))
    second = driven.write(prompt("r"))

    assert left(first) == [("a", "0")]
    assert names(first) == ["BranchLeft", "PromptGiven", "RunStarted"]
    assert left(second) == [("q", None)]


def test_a_compaction_is_no_rewind(driven: Driven) -> None:
    """The path goes on over the logical parent."""
    driven.write(header(), prompt("p"), entry("a", "answer", parent="p"))
    facts = driven.write(
        entry("s", "compaction", logical_parent="a"), entry("t", "summary", parent="s"), prompt("q", "t")
    )
    assert left(facts) == []


def test_a_broken_path_is_no_rewind(driven: Driven) -> None:
    """Where a parent is missing, or the path is a cycle, nobody can say."""
    driven.write(header(), prompt("p"), entry("a", "answer", parent="p"))
    facts = driven.each(
        prompt("q", "gone"),
        prompt("r", "r"),
        entry("x", parent="y"),
        entry("y", parent="x"),
        prompt("t", "x"),
    )
    assert left(facts) == []


def test_an_absorbed_prompt_is_not_on_the_path(driven: Driven) -> None:
    """It has no node of its own, so the next prompt cannot descend from it; it has a run."""
    driven.write(header(), prompt("p"), entry("a", "answer", parent="p"))
    facts = driven.each(
        Record(entry="q", kind="prompt", raw_type="queued", prompt="absorbed", text="x"),
        entry("b", "answer", parent="a"),
        prompt("r", "b"),
    )
    assert left(facts) == []
    assert [fact.run for fact in of(RunStarted, facts)] == ["q", "r"]


def test_with_one_leaf_any_entry_elsewhere_leaves_the_branch(one_leaf: Driven) -> None:
    """A summary, a label, a command or an extension's entry tells it as well as a prompt."""
    one_leaf.write(
        header(),
        entry("0"),
        prompt("p", "0"),
        entry("a", "answer", parent="p"),
        entry("r", "result", parent="a"),
    )
    facts = one_leaf.each(
        entry("s", "summary", parent="0"),
        entry("l", "label", parent="s"),
        entry("n", "note", parent="a"),
        prompt("q", "n"),
        entry("x", "command", parent="p"),
        entry("root"),
    )
    assert left(facts) == [("r", "0"), ("l", "a"), ("q", "p"), ("x", None)]


def test_with_one_leaf_a_missing_parent_tells_nothing(one_leaf: Driven) -> None:
    """The line between may have been unreadable."""
    one_leaf.write(header(), entry("0"))
    assert left(one_leaf.each(entry("2", parent="1"), entry("3", parent="2"))) == []
