"""Whole histories: every line of every log, once, and each file accounted for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recorder.events import BranchLeft, PromptGiven, SessionForked, SessionStarted
from recorder.log import EventLog
from recorder.reading.importing import ImportReport, Progress, import_paths
from recorder.sources import all_sources
from tests.ingest.driving import all_facts, of
from tests.ingest.simple import SimpleSource, entry, header, line, lines
from tests.ingest.test_tail import append

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"


def imported(log: EventLog, *paths: Path) -> ImportReport:
    return import_paths(log, [SimpleSource()], paths)


def test_every_line_of_every_sample(log: EventLog) -> None:
    """New, duplicate, not understood and bad lines account for every line of the real agents' logs; a
    second import adds nothing."""
    first = import_paths(log, all_sources(), [SAMPLES / "pi", SAMPLES / "claude"])
    head = log.head()
    second = import_paths(log, all_sources(), [SAMPLES / "pi", SAMPLES / "claude"])

    refused = [Path(os.fsdecode(file.path)).name for file in first.files if file.error is not None]
    assert refused == ["history.jsonl"]
    for report in first, second:
        for file in report.files:
            found, counts = Path(os.fsdecode(file.path)).read_bytes().count(b"\n"), file.counts
            assert counts.entries == (0 if file.error else found)
            accounted = (
                counts.new + counts.duplicates + sum(counts.not_understood.values()) + counts.bad_lines
            )
            assert accounted == counts.entries
            assert file.waiting == 0
    assert first.totals.bad_lines == 0
    assert second.totals.new + second.totals.bad_lines + sum(second.totals.not_understood.values()) == 0
    assert log.head() == head
    assert list(log.check()) == []


@pytest.mark.parametrize(
    ("sample", "left"),
    [
        ("pi/linear.jsonl", 0),
        ("pi/parallel-tools.jsonl", 0),
        ("pi/compacted.jsonl", 0),
        ("pi/resumed.jsonl", 0),
        ("pi/branched-tree.jsonl", 3),
        ("claude/multi_tool_headless.jsonl", 0),
        ("claude/resumed_headless.jsonl", 0),
        ("claude/subagent_foreground_background_bash.jsonl", 0),
        ("claude/interactive_long_rewind_subagents_compact_queue_bang_interrupt.jsonl", 1),
        ("claude/interactive_summarize_from_here.jsonl", 0),
        ("claude/interactive_rewind.jsonl", 1),
        ("claude/v2.1.197_interactive_rewind.jsonl", 1),
        ("claude/sdk_checkpoints_rewind_files_resume_at.jsonl", 1),
    ],
)
def test_branches_left_in_real_sessions(log: EventLog, sample: str, left: int) -> None:
    """Only what the user did is a branch left: no parallel tool, no compaction, no resumed session."""
    import_paths(log, all_sources(), [SAMPLES / sample])

    assert len(of(BranchLeft, all_facts(log))) == left


def test_a_real_fork_belongs_to_its_parent(log: EventLog) -> None:
    """Its inherited prompts are copies, and it names the session it came from."""
    import_paths(log, all_sources(), [SAMPLES / "claude" / "forked_headless_then_continue.jsonl"])
    facts = all_facts(log)

    assert [fact.parent_session for fact in of(SessionForked, facts)] == [
        "b277bd53-05d1-4386-b8ab-cd3455532834"
    ]
    assert [fact.copied for fact in of(PromptGiven, facts)] == [True, True, False, False]


def test_imported_is_not_live(log: EventLog, logs: Path) -> None:
    """A history is not captured as if it happened now."""
    append(logs / "a.jsonl", line(header()))
    report = imported(log, logs)
    [started] = of(SessionStarted, all_facts(log))

    assert started.live is False
    [file] = report.files
    assert (file.path, file.agent, file.session) == (os.fsencode(logs / "a.jsonl"), "simple", "s-1")


def test_files_and_folders(log: EventLog, logs: Path) -> None:
    """Folders with everything below them, files of any name, each once."""
    (logs / "x" / "y").mkdir(parents=True)
    for number, path in enumerate([logs / "x" / "y" / "a.jsonl", logs / "x" / "b.jsonl", logs / "c.log"]):
        append(path, lines([header(f"s{number}"), entry("1")]))
    append(logs / "x" / "notes.txt", b"no log\n")
    report = imported(log, logs, logs / "x", logs / "c.log", logs / "c.log")

    names = [Path(os.fsdecode(file.path)).name for file in report.files]
    assert names == ["b.jsonl", "a.jsonl", "c.log"]
    assert (report.totals.entries, report.totals.new) == (6, 6)


def test_what_is_no_log_gets_a_sentence(log: EventLog, logs: Path) -> None:
    """Garbage, another program's file, an empty one, one that is not there: the others go on."""
    (logs / "garbage.jsonl").write_bytes(os.urandom(5000))
    append(logs / "other.jsonl", b'{"a": 1}\n')
    (logs / "empty.jsonl").touch()
    append(logs / "nameless.jsonl", b'{"entry":"x","kind":"session","raw_type":"session"}\n')
    append(logs / "log.jsonl", line(header()))
    os.mkfifo(logs / "pipe.jsonl")
    report = imported(log, logs, logs / "gone.jsonl")

    unknown = "is no session log of an agent that the recorder knows"
    said = {Path(os.fsdecode(file.path)).name: file.error for file in report.files}
    assert said.pop("log.jsonl") is None
    assert said.pop("garbage.jsonl") in (
        f"{logs}/garbage.jsonl {unknown}",
        f"{logs}/garbage.jsonl holds no complete line",
    )
    assert said == {
        "other.jsonl": f"{logs}/other.jsonl {unknown}",
        "empty.jsonl": f"{logs}/empty.jsonl holds no complete line",
        "nameless.jsonl": f"{logs}/nameless.jsonl does not say which session it belongs to",
        "pipe.jsonl": f"{logs}/pipe.jsonl cannot be read: it is not a regular file",
        "gone.jsonl": f"{logs}/gone.jsonl cannot be read: No such file or directory",
    }
    assert report.totals.entries == 1


def test_a_second_run_counts_what_is_recorded(log: EventLog, logs: Path) -> None:
    """As duplicates, with what is new counted apart."""
    append(logs / "a.jsonl", lines([header(), entry("1"), entry("2")]))
    imported(log, logs)
    append(logs / "a.jsonl", line(entry("3")))
    counts = imported(log, logs).totals

    assert (counts.entries, counts.new, counts.duplicates) == (4, 1, 3)


def test_a_last_line_without_its_newline(log: EventLog, logs: Path) -> None:
    """A whole record is taken, and is a duplicate once it is finished; half a record waits."""
    append(logs / "whole.jsonl", lines([header("w"), entry("1")])[:-1])
    append(logs / "half.jsonl", lines([header("h"), entry("1")])[:-9])
    half, whole = imported(log, logs).files

    assert (whole.counts.entries, whole.counts.new, whole.waiting) == (2, 2, 0)
    assert (half.counts.entries, half.counts.new, half.waiting) == (1, 1, len(line(entry("1"))) - 9)
    append(logs / "whole.jsonl", b"\n" + line(entry("2")))
    counts = imported(log, logs / "whole.jsonl").totals
    assert (counts.entries, counts.new, counts.duplicates) == (3, 1, 2)


def test_each_byte_is_read_once(log: EventLog, logs: Path) -> None:
    """Whatever the lines are like."""
    for number in range(5):
        append(
            logs / f"{number}.jsonl",
            lines(
                [header(f"s{number}"), *(entry(f"{size}", text="x" * size) for size in range(0, 30_000, 500))]
            ),
        )
    size = sum(path.stat().st_size for path in logs.iterdir())

    assert size <= imported(log, logs).bytes_read <= size + 5 * 1024


def test_progress_is_told(log: EventLog, logs: Path) -> None:
    """In bytes, rising to all of them."""
    for number in range(3):
        append(logs / f"{number}.jsonl", lines([header(f"s{number}"), *(entry(f"{n}") for n in range(600))]))
    told: list[Progress] = []
    import_paths(log, [SimpleSource()], [logs], told.append)
    size = sum(path.stat().st_size for path in logs.iterdir())

    assert [each.done for each in told] == sorted(each.done for each in told)
    assert {each.total for each in told} == {size}
    assert (told[0].done, told[-1].done) == (0, size)
    assert len({each.path for each in told}) == 3


MEMORY = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from recorder.home import open_home
from recorder.reading.importing import import_paths
from recorder.log import open_log
from recorder.sources import all_sources
with open_log(open_home(Path(sys.argv[2]))) as log:
    totals = import_paths(log, all_sources(), [Path(sys.argv[3])]).totals
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if (status := Path("/proc/self/status")).exists():
    # The system's own count starts with what the process was that this one was forked from.
    peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
print(totals.new, totals.bad_lines, peak // 1024)
"""


def test_memory_is_bounded(tmp_path: Path, logs: Path) -> None:
    """A line of 30 MB is read as a record and one of 100 MB is let go, in less than 300 MB of memory."""
    sample = (SAMPLES / "pi" / "linear.jsonl").read_bytes().splitlines(keepends=True)
    long = sample[4].replace(b"Create hello.py", b"Create hello.py " + b"and so on " * 3_000_000, 1)
    with (logs / "a.jsonl").open("wb") as file:
        file.writelines([*sample[:4], long, *sample[5:]])
        file.seek(100 << 20, os.SEEK_CUR)
        file.write(b"\n" + sample[-1].replace(b'"id":"', b'"id":"x', 1))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, ROOT, tmp_path / "home", logs],
        capture_output=True,
        text=True,
        check=True,
    )
    new, bad, peak = map(int, done.stdout.split())

    assert (new, bad) == (len(sample) + 1, 1)
    assert peak < 300
