"""Where transcripts lie, whether a session is open, and how its conversation can be moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recorder.sources.base import Root
from recorder.sources.claude import SOURCE, slug
from recorder.sources.claude_live import domain_here, start_of

SAMPLES = Path(__file__).parents[1] / "samples" / "claude"
SESSION = "7d9e1dce-8144-4b7a-9b55-d80bd3ae5978"
LONG = SAMPLES / "interactive_long_rewind_subagents_compact_queue_bang_interrupt.jsonl"
linux = pytest.mark.skipif(sys.platform != "linux", reason="start times of processes are Linux's")

Register = Callable[..., Path]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A real transcript at its place in an agent's folder, last written long ago."""
    path = tmp_path / "config" / "projects" / slug("/home/dev/int") / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copyfile(LONG, path)
    os.utime(path, (1, 1))
    return path


@pytest.fixture
def register(tmp_path: Path) -> Register:
    """Writes an entry of the registry, like the real one but for what is given."""

    def write(pid: int, **keys: Any) -> Path:
        entry = json.loads((SAMPLES / "sessions_pid.json").read_text()) | {"pid": pid} | keys
        folder = tmp_path / "config" / "sessions"
        folder.mkdir(exist_ok=True)
        path = folder / f"{pid}.json"
        path.write_text(json.dumps(entry))
        return path

    return write


@pytest.fixture
def dead() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_folders_of_the_logs(tmp_path: Path) -> None:
    """The agent's own folder, or the one that its environment names; transcripts and child agents' logs."""
    patterns = ["????????-????-????-????-????????????.jsonl", "agent-*.jsonl"]
    default = [Root(tmp_path / ".claude" / "projects", pattern) for pattern in patterns]
    named = [Root(Path("/c/projects"), pattern) for pattern in patterns]

    assert SOURCE.roots({}, tmp_path) == default
    assert SOURCE.roots({"CLAUDE_CONFIG_DIR": "/c"}, tmp_path) == named


def test_the_patterns_find_logs_and_nothing_else(log: Path) -> None:
    """Spilled outputs, titles and the history of prompts are left alone."""
    config = log.parents[2]
    child = log.with_suffix("") / "subagents" / "agent-a1.jsonl"
    child.parent.mkdir(parents=True)
    for path in (
        child,
        config / "history.jsonl",
        log.parent / "notes.jsonl",
        child.with_suffix(".meta.json"),
    ):
        path.write_text("")
    found = {
        path
        for root in SOURCE.roots({"CLAUDE_CONFIG_DIR": str(config)}, Path())
        for path in root.folder.rglob(root.pattern)
    }

    assert found == {log, child}


@pytest.mark.parametrize(
    ("name", "line", "claimed"),
    [
        (f"projects/-w/{SESSION}.jsonl", b'{"parentUuid":nul', True),
        (f"projects/-w/{SESSION}/subagents/agent-a1.jsonl", b"", True),
        (f"elsewhere/{SESSION}.jsonl", b'{"parentUuid":nul', False),
        ("x.jsonl", b'{"type":"summary","summary":"s","leafUuid":"u"}', True),
        ("x.jsonl", b'{"type":"file-history-snapshot","messageId":"m","snapshot":{}}', True),
        ("x.jsonl", b'{"type":"mode","mode":"normal","sessionId":"s"}', True),
        ("x.jsonl", b'{"type":"mode","mode":"normal"}', False),
        ("x.jsonl", b'{"type":"user","id":"1","sessionId":"s"}', False),
        ("x.jsonl", b'{"type":"session","version":3,"id":"x","cwd":"/w"}', False),
        ("x.jsonl", b'{"timestamp":"t","type":"session_meta","payload":{}}', False),
        ("x.jsonl", b"not json", False),
    ],
)
def test_what_is_claimed(name: str, line: bytes, claimed: bool) -> None:
    """A file at its place by its name, any other by its first line."""
    assert SOURCE.claims(Path("/home/dev/.claude") / name, line) is claimed


def test_a_transcript_is_named_by_its_session() -> None:
    """Its own name wins over what lines taken from elsewhere say; a child agent's log has its parent's."""
    lines = [b"torn", b'{"type":"mode","sessionId":"of-the-line"}']

    assert SOURCE.session_of(Path(f"/p/{SESSION}.jsonl"), lines) == SESSION
    assert SOURCE.session_of(Path("/p/agent-a1.jsonl"), lines) == "of-the-line"
    assert SOURCE.session_of(Path("/p/agent-a1.jsonl"), lines[:1]) is None


@pytest.mark.parametrize(("status", "busy"), [("busy", True), ("idle", False), (None, None)])
@linux
def test_a_registered_live_process_has_the_session_open(
    log: Path, register: Register, status: str | None, busy: bool | None
) -> None:
    """Its pid lives and began when the entry says; whether a run is under way is the entry's
    status, where it has one."""
    register(os.getpid(), procStart=start_of(os.getpid()), status=status)
    found = SOURCE.closed(log, SESSION)

    assert (found.state, found.busy) == ("open", busy)


@linux
def test_a_pid_given_out_again_has_nothing_open(log: Path, register: Register) -> None:
    """A live process that began at another time is not the one that registered."""
    register(os.getpid(), procStart="1")

    assert SOURCE.closed(log, SESSION).state == "closed"


def test_a_dead_process_has_nothing_open(log: Path, register: Register, dead: int) -> None:
    """An entry that a crash left behind is stale."""
    register(dead)

    assert SOURCE.closed(log, SESSION).state == "closed"


@linux
def test_a_process_that_nobody_collected_has_nothing_open(log: Path, register: Register) -> None:
    """It has ended, though its pid is still taken."""
    with subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE) as process:
        began = start_of(process.pid)
        register(process.pid, procStart=began)
        assert process.stdout is not None
        process.stdout.read()
        while start_of(process.pid) is not None:
            time.sleep(0.01)

        assert began and SOURCE.closed(log, SESSION).state == "closed"


def test_a_dead_process_of_a_log_that_grows_may_run_elsewhere(
    log: Path, register: Register, dead: int
) -> None:
    """In a container the pid is another one's; the growing log tells that somebody writes."""
    register(dead)
    os.utime(log)
    found = SOURCE.closed(log, SESSION)

    assert found.state == "unknown" and "container" in found.why


@linux
def test_an_entry_of_another_machine_proves_nothing(log: Path, register: Register, dead: int) -> None:
    """Newer versions write the machine and the pid namespace."""
    register(dead, pidDomain="linux:0123:pid:[1]")
    assert SOURCE.closed(log, SESSION).state == "unknown"

    register(dead, pidDomain=domain_here())
    os.utime(log)
    assert SOURCE.closed(log, SESSION).state == "closed"


def test_a_version_that_registers_and_did_not_has_it_closed(log: Path, register: Register) -> None:
    """No registry at all, and one with other sessions only, both prove it; keys are never opened."""
    assert SOURCE.closed(log, SESSION).state == "closed"

    entry = register(os.getpid(), sessionId="another", procStart=None)
    (entry.parent / "1.abc.key").mkdir()
    assert SOURCE.closed(log, SESSION).state == "closed"


def test_what_cannot_be_proved_is_unknown(log: Path, register: Register, tmp_path: Path) -> None:
    """An older version, one that is not told, an entry that cannot be read, a log somewhere else."""
    log.write_bytes(LONG.read_bytes().replace(b'"version":"2.1.332"', b'"version":"2.0.14"'))
    assert "2.0.14 is not known to register" in SOURCE.closed(log, SESSION).why
    log.write_text('{"type":"mode"}\n')
    assert SOURCE.closed(log, SESSION).state == "unknown"

    shutil.copyfile(LONG, log)
    register(1).write_text("{")
    assert SOURCE.closed(log, SESSION).state == "unknown"
    moved = shutil.copyfile(LONG, tmp_path / f"{SESSION}.jsonl")
    assert SOURCE.closed(moved, SESSION).state == "unknown"


def parent_of(path: Path, text: str) -> tuple[str | None, str]:
    """The parent and the id of the prompt that begins so."""
    for line in map(json.loads, path.read_text().splitlines()):
        message = line.get("message") or {"content": (line.get("attachment") or {}).get("prompt")}
        if isinstance(message["content"], str) and message["content"].startswith(text):
            return line["parentUuid"], line["uuid"]
    raise AssertionError(text)


def test_a_move_is_one_explicit_pointer(log: Path) -> None:
    """The place to keep, and the command that goes on from there in the folder that the log belongs to."""
    keep, prompt = parent_of(log, "slow two")
    moved = SOURCE.move(log, SESSION, keep, prompt, "/home/dev/int/deeper")

    assert moved.line is not None and moved.line.endswith(b"\n")
    assert json.loads(moved.line) == {
        "type": "last-prompt",
        "leafUuid": keep,
        "explicit": True,
        "sessionId": SESSION,
    }
    assert moved.resume == f"cd /home/dev/int && claude --resume {SESSION}"


def test_a_move_before_the_first_prompt_points_at_nothing(log: Path) -> None:
    """Null is the place before everything."""
    _, prompt = parent_of(log, "first prompt")
    moved = SOURCE.move(log, SESSION, None, prompt, None)

    assert moved.line is not None and json.loads(moved.line)["leafUuid"] is None


def test_a_move_behind_a_torn_line_begins_on_its_own(log: Path) -> None:
    """A last line without its newline would swallow the pointer."""
    keep, prompt = parent_of(log, "slow two")
    with log.open("ab") as file:
        file.write(b'{"type":"mo')
    moved = SOURCE.move(log, SESSION, keep, prompt, None)

    assert moved.line is not None and moved.line.startswith(b'\n{"type":"last-prompt"')


@pytest.mark.parametrize(
    ("text", "why"),
    [("second prompt", "compacted"), ("fifth", "compacted"), ("queued while busy", "running turn")],
)
def test_a_move_that_the_agent_would_not_follow_is_not_offered(log: Path, text: str, why: str) -> None:
    """What stands before a compaction is forgotten on resume (measured: it would silently go on from the
    end), and an absorbed prompt has no place of its own."""
    moved = SOURCE.move(log, SESSION, *parent_of(log, text), None)

    assert moved.line is None and moved.resume is None
    assert moved.why is not None and why in moved.why


def test_what_a_compaction_kept_can_be_gone_back_to(tmp_path: Path) -> None:
    """A summary from here keeps what stands before it, word for word (measured: the agent goes there)."""
    log = SAMPLES / "interactive_summarize_from_here.jsonl"

    assert SOURCE.move(log, SESSION, *parent_of(log, "prompt 2"), None).line is not None
    assert SOURCE.move(log, SESSION, *parent_of(log, "prompt 3"), None).line is None


def test_a_move_to_an_entry_that_is_not_there_is_refused(log: Path, tmp_path: Path) -> None:
    """An unknown entry and a missing file are told."""
    assert "not in the transcript" in (SOURCE.move(log, SESSION, "gone", "p", None).why or "")
    assert "cannot be read" in (SOURCE.move(tmp_path / "gone", SESSION, None, "p", None).why or "")


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/home/dev/a.b_c", "-home-dev-a-b-c"),
        ("/é/世/😀", "---------"[:7]),
        ("/" + "x" * 199, "-" + "x" * 199),
    ],
)  # fmt: skip
def test_the_name_of_a_projects_folder(folder: str, expected: str) -> None:
    """Each UTF-16 unit but ASCII letters and digits becomes a dash."""
    assert slug(folder) == expected


def test_the_name_of_a_long_folder_is_cut_and_hashed() -> None:
    """The hash is Java's of a string, unsigned, in base 36, computed here another way."""
    folder = "/" + "deep/" * 60
    total = sum(ord(letter) * 31 ** (len(folder) - 1 - at) for at, letter in enumerate(folder)) % 2**32
    total = total - 2**32 if total >= 2**31 else total

    name, _, digits = slug(folder).rpartition("-")
    assert name == slug(folder)[:200] and len(name) == 200
    assert int(digits, 36) == abs(total)


def test_looking_for_liveness_is_quick(log: Path, register: Register, dead: int) -> None:
    """A big log is not read for it."""
    with log.open("ab") as file:
        file.write(b" " * 20_000_000 + b"\n" + LONG.read_bytes())
    register(dead)
    began = time.monotonic()

    SOURCE.closed(log, SESSION)
    assert time.monotonic() - began < 0.5
