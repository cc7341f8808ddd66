"""Each line is recorded once, whoever reads it, how often, and whatever happens in between."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.errors import LogFailure
from recorder.events import EntryAdded, LineUnread, session_stream
from recorder.home import Home
from recorder.log import EventLog, open_log
from recorder.reading import ingest as ingest_module
from recorder.reading.ingest import Ingest
from recorder.reading.logfile import log_file
from recorder.reading.session import Session
from recorder.reading.tail import opened
from recorder.sources.base import Call, Record, Return
from tests.ingest.driving import Driven, all_facts, of
from tests.ingest.simple import SimpleSource, entry, header, line, lines, prompt
from tests.ingest.test_tail import append

ROOT = Path(__file__).parents[2]


def entries(log: EventLog) -> list[str]:
    return [fact.entry for fact in of(EntryAdded, all_facts(log))]


def start(home: Home, logs: Path) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("two_at_once.py")
    process = subprocess.Popen(
        [sys.executable, script, ROOT, home.folder, logs],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def history(logs: Path, sessions: int = 3, count: int = 900) -> int:
    """Some logs of one piece after the other, each of many pieces; how many lines they have."""
    for session in range(sessions):
        records = [header(f"s{session}")]
        for number in range(count // 3):
            records += [
                prompt(f"p{number}", f"r{number - 1}" if number else None),
                entry(
                    f"a{number}",
                    "answer",
                    parent=f"p{number}",
                    step=f"a{number}",
                    calls=(Call(f"c{number}", "bash", "any"),),
                ),
                entry(f"r{number}", "result", parent=f"a{number}", returns=(Return(f"c{number}"),)),
            ]
        append(logs / f"{session}.jsonl", lines(records) + b"no record\n")
    return sessions * (count + 2)


def test_two_processes_on_the_same_logs(home: Home, logs: Path) -> None:
    """Together they record every line once; each accounts for every line it was given."""
    total = history(logs)
    open_log(home).close()
    processes = [start(home, logs) for _ in range(2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0].split("\n")[-2].split() for process in processes]

    with open_log(home) as log:
        facts = all_facts(log)
        assert list(log.check()) == []
    assert len(of(EntryAdded, facts)) + len(of(LineUnread, facts)) == total
    assert len({(fact.originator_id, fact.entry) for fact in of(EntryAdded, facts)}) == total - 3
    counts = [list(map(int, words[1:])) for words in said]
    assert [all_lines for all_lines, *_ in counts] == [total, total]
    assert [new + duplicates + bad for _, new, duplicates, bad in counts] == [total, total]
    assert sum(new + bad for _, new, _, bad in counts) == total


def test_killed_and_gone_on(home: Home, logs: Path) -> None:
    """An import that is killed without warning goes on where it was; nothing is lost or doubled."""
    total = history(logs, sessions=2, count=1800)
    process = start(home, logs)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    for _ in range(4):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with open_log(home) as log:
        before = len(entries(log))
    assert 0 < before < total

    process = start(home, logs)
    words = process.communicate("go\n", timeout=60)[0].split("\n")[-2].split()
    with open_log(home) as log:
        found = [(fact.originator_id, fact.entry) for fact in of(EntryAdded, all_facts(log))]
        assert list(log.check()) == []
    assert len(found) == len(set(found)) == total - 2
    all_lines, new, duplicates, bad = map(int, words[1:])
    assert (all_lines, new + duplicates + bad) == (total, total)
    assert duplicates >= before


def taken(
    ingest: Ingest, log: EventLog, source: SimpleSource, path: Path, *, positions: Any = None
) -> list[Any]:
    with opened(str(path)) as content:
        file = log_file(str(path), content, positions or log, [source])
        assert file is not None
        return [ingest.take(file, some) for some in file.read(content)]


class Nowhere:
    """Positions of a process that has not heard of any."""

    def reached(self, generation: str) -> None:
        return None

    def all_reached(self) -> list[Any]:
        return []


def test_a_piece_recorded_meanwhile_is_all_duplicates(log: EventLog, logs: Path) -> None:
    """Where the position was reached by another process, nothing is decided again."""
    append(logs / "a.jsonl", lines([header(), entry("1"), entry("2")]))
    source = SimpleSource()
    taken(Ingest(log, [source]), log, source, logs / "a.jsonl")
    head = log.head()
    [outcome] = taken(Ingest(log, [source]), log, source, logs / "a.jsonl", positions=Nowhere())

    assert (outcome.facts, outcome.counts.entries, outcome.counts.duplicates) == ([], 3, 3)
    assert log.head() == head


def test_a_session_that_another_process_moved_on_is_decided_again(
    log: EventLog, logs: Path, home: Home
) -> None:
    """What it recorded is a duplicate, what it did not is new, with versions that fit."""
    source = SimpleSource()
    append(logs / "a.jsonl", lines([header(), entry("1")]))
    ingest = Ingest(log, [source])
    taken(ingest, log, source, logs / "a.jsonl")
    append(logs / "copy.jsonl", lines([header(), entry("1"), prompt("2")]))
    with open_log(home) as other:
        taken(Ingest(other, [source]), other, source, logs / "copy.jsonl")
    append(logs / "a.jsonl", lines([prompt("2"), entry("3", "answer", settles="done")]))
    [outcome] = taken(ingest, log, source, logs / "a.jsonl")

    assert [type(stored.fact).__name__ for stored in outcome.facts] == [
        "SessionDescribed",
        "EntryAdded",
        "RunSettled",
    ]
    assert (outcome.counts.new, outcome.counts.duplicates) == (1, 1)
    facts = all_facts(log)
    assert [fact.originator_version for fact in facts] == list(range(1, len(facts) + 1))
    assert entries(log) == ["h-s-1", "1", "2", "3"]


def test_what_could_not_be_stored_is_taken_later(
    log: EventLog, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that cannot be written (a full disk) loses nothing, and nothing is remembered of the attempt."""
    driven = Driven(log, logs)
    driven.write(header(), prompt("p"))
    append(logs / "a.jsonl", line(entry("1", "answer", settles="done")))

    def full(*_: object, **__: object) -> list[int]:
        raise LogFailure("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(log, "append", full)
        with pytest.raises(LogFailure):
            driven.poll()
    facts = driven.write(entry("2"))

    assert [type(fact).__name__ for fact in facts] == ["EntryAdded", "RunSettled", "EntryAdded"]
    assert entries(log) == ["h-s-1", "p", "1", "2"]
    driven.close()


def test_facts_have_their_positions_in_the_log(log: EventLog, logs: Path) -> None:
    """What is handed back is what was appended."""
    driven = Driven(log, logs)
    append(logs / "a.jsonl", lines([header(), prompt("p")]))
    [outcome] = driven.poll()
    assert outcome.facts == log.read()
    driven.close()


def test_pieces_are_one_transaction_each(log: EventLog, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The position of the file moves with its facts, some hundred lines at a time."""
    history(logs, sessions=1, count=900)
    sizes = []
    append_facts = log.append

    def spy(facts: Any, **also: Any) -> list[int]:
        sizes.append(len(facts))
        assert also["reached"].offset > 0
        return append_facts(facts, **also)

    monkeypatch.setattr(log, "append", spy)
    source = SimpleSource()
    taken(Ingest(log, [source]), log, source, logs / "0.jsonl")

    assert len(sizes) == 4
    assert max(sizes) < 800
    [reached] = log.all_reached()
    assert reached.offset == (logs / "0.jsonl").stat().st_size


def test_sessions_in_memory_are_bounded(log: EventLog, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those not used are let go, and come back the same from their streams."""
    monkeypatch.setattr(ingest_module, "SESSIONS", 3)
    driven = Driven(log, logs)
    for step in range(3):
        for number in range(6):
            records = [header(str(number)), prompt(f"{step}", f"{step - 1}" if step else None)]
            append(logs / f"{number}.jsonl", lines(records if step == 0 else records[1:]))
        driven.poll()
        assert len(driven.ingest._sessions) == 3
    monkeypatch.setattr(ingest_module, "ENTRIES", 5)
    driven.write(entry("x"), name="0.jsonl")
    assert len(driven.ingest._sessions) == 2

    assert sorted(entries(log)) == sorted([*(f"h-{n}" for n in range(6)), *"012" * 6, "x"])
    driven.close()


ids = st.sampled_from(["a", "b", "c", "d", "e"])
maybe = st.one_of(st.none(), ids)
times = st.sampled_from(
    ["", "2020-01-01T00:00:00Z", "2019-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "no time"]
)
records = st.builds(
    Record,
    entry=st.sampled_from([f"{letter}{number}" for letter in "abcde" for number in range(4)] + list("abcde")),
    kind=st.sampled_from(["prompt", "answer", "result", "compaction", "note"]),
    raw_type=st.just("x"),
    time=times,
    parent=maybe,
    logical_parent=maybe,
    in_tree=st.booleans(),
    copied=st.booleans(),
    understood=st.booleans(),
    cwd=maybe,
    name=maybe,
    parent_session=maybe,
    prompt=st.one_of(st.none(), st.just("typed")),
    step=maybe,
    settles=st.one_of(st.none(), st.just("done")),
    calls=st.lists(st.builds(Call, ids, ids, st.just("any")), max_size=2).map(tuple),
    returns=st.lists(st.builds(Return, ids), max_size=2).map(tuple),
    within=st.one_of(st.none(), st.none(), ids),
    leaf=st.one_of(st.none(), st.tuples(maybe)),
)


def known(session: Session) -> tuple[object, ...]:
    return session.state, session.entries, session.calls, session.returned, session.origins


numbers = itertools.count()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.lists(records, max_size=6), min_size=1, max_size=4), one_leaf=st.booleans())
def test_a_session_read_back_is_the_session_that_was_decided(
    log: EventLog, logs: Path, parts: list[list[Record]], one_leaf: bool
) -> None:
    """Whatever the lines say (cycles, missing parents, ids that come twice, clocks that run backwards),
    nothing is raised, every line is accounted for, and the fold of the stream is what ingest knows."""
    name = f"s{next(numbers)}"
    folder = logs / name
    folder.mkdir()
    driven = Driven(log, folder, one_leaf=one_leaf)
    driven.write(header(name))
    for part in parts:
        driven.write(*part)
    driven.close()
    counts = driven.counts
    facts = list(log.stream(session_stream("simple", name)))
    again = Session("simple", name)
    again.load(facts)
    added = [fact.entry for fact in of(EntryAdded, facts)]

    assert known(again) == known(driven.ingest._sessions["simple", name])
    assert counts.entries == 1 + sum(map(len, parts))
    not_understood = sum(counts.not_understood.values())
    assert counts.entries == counts.new + counts.duplicates + not_understood + counts.bad_lines
    assert counts.new + not_understood == len(added) == len(set(added))


def test_a_decision_taken_back_leaves_no_trace() -> None:
    """Going back to a mark restores everything that was known then."""
    from recorder.events import Body
    from recorder.reading.deciding import decide
    from recorder.reading.decision import Read
    from recorder.reading.moments import Clock
    from recorder.reading.tail import Lines

    def read(some: list[Record]) -> Read:
        raw: list[Any] = [line(record)[:-1] for record in some]
        origin: Callable[[str], str] = str
        return Read(b"/a", raw, some, 0, False, True, Clock(Lines([], 0, 0), 10), False, 0, origin)

    def body_of(content: bytes) -> Body:
        return Body("d", len(content))

    session, other = Session("simple", "s"), Session("simple", "s")
    first = [header(), prompt("p"), entry("a", "answer", step="A", calls=(Call("c", "t", "any"),))]
    more = [
        entry("r", "result", returns=(Return("c"),), parent_session="z"),
        prompt("q"),
        entry("b", step="B", cwd="/x"),
    ]
    decide(session, read(first), body_of)
    decide(other, read(first), body_of)
    mark = session.mark()
    decide(session, read(more), body_of)
    assert known(session) != known(other)
    session.back_to(mark)

    assert known(session) == known(other)
