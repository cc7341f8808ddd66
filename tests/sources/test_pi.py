"""Where pi's session files lie, which files are pi's, and how a conversation is moved in place."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from recorder.sources.base import Move, Record, Source
from recorder.sources.pi import SOURCE

SAMPLES = Path(__file__).parent.parent / "samples" / "pi"
HOME = Path("/home/dev")


def folders(environment: dict[str, str], home: Path = HOME) -> list[str]:
    roots = SOURCE.roots(environment, home)
    assert {root.pattern for root in roots} == {"*.jsonl"}
    return [str(root.folder) for root in roots]


def records_of(log: Path) -> list[Record]:
    reader = SOURCE.reader(log)
    records = [reader.read(line) for line in log.read_bytes().splitlines()]
    return [record for record in records if isinstance(record, Record)]


def test_it_is_a_source() -> None:
    """The module's object has all that the protocol asks for."""
    source: Source = SOURCE

    assert source.agent == "pi"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ["/home/dev/.pi/agent/sessions"]),
        ({"PI_CODING_AGENT_DIR": "/agent"}, ["/agent/sessions"]),
        ({"PI_CODING_AGENT_DIR": "~/agent"}, ["/home/dev/agent/sessions"]),
        ({"PI_CODING_AGENT_DIR": "~"}, ["/home/dev/sessions"]),
        ({"PI_CODING_AGENT_DIR": ""}, ["/home/dev/.pi/agent/sessions"]),
        ({"PI_CODING_AGENT_SESSION_DIR": "/flat"}, ["/flat", "/home/dev/.pi/agent/sessions"]),
        ({"PI_CODING_AGENT_SESSION_DIR": "~/flat"}, ["/home/dev/flat", "/home/dev/.pi/agent/sessions"]),
        ({"PI_CODING_AGENT_SESSION_DIR": "relative"}, ["/home/dev/.pi/agent/sessions"]),
        ({"PI_CODING_AGENT_SESSION_DIR": "/a/sessions", "PI_CODING_AGENT_DIR": "/a"}, ["/a/sessions"]),
    ],
)
def test_roots_follow_the_environment(environment: dict[str, str], expected: list[str]) -> None:
    """The folders that pi's own variables name, `~` expanded, each once; older sessions stay in reach."""
    assert folders(environment) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('{"sessionDir": "~/mine"}', ["mine", ".pi/agent/sessions"]),
        ('{"sessionDir": 7}', [".pi/agent/sessions"]),
        ('{"sessionDir": ".pi/sessions"}', [".pi/agent/sessions"]),
        ("[]", [".pi/agent/sessions"]),
        ("not json", [".pi/agent/sessions"]),
        ("[" * 100_000, [".pi/agent/sessions"]),
        ("\udcff", [".pi/agent/sessions"]),
    ],
)
def test_roots_follow_the_settings(tmp_path: Path, settings: str, expected: list[str]) -> None:
    """`sessionDir` of the user's settings counts; settings that cannot be read are no obstacle."""
    agent = tmp_path / ".pi" / "agent"
    agent.mkdir(parents=True)
    (agent / "settings.json").write_bytes(settings.encode("utf-8", "surrogateescape"))

    assert folders({}, tmp_path) == [str(tmp_path / folder) for folder in expected]


@pytest.mark.parametrize(
    ("line", "claimed"),
    [
        (b'{"type":"session","version":3,"id":"a_b.c","timestamp":"","cwd":"/w"}', True),
        (b'{"type":"session","id":"v1","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w"}', True),
        (b'{"cwd":"/w","id":"x","type":"session"}\r', True),
        (b'{"type":"session","id":""}', False),
        (b'{"type":"session","version":3}', False),
        (b'{"type":"session_meta","id":"x","payload":{}}', False),
        (b'{"type":"user","sessionId":"x","uuid":"y"}', False),
        (b"", False),
        (b"\xff\x00", False),
        (b"[" * 100_000, False),
    ],
)
def test_a_session_is_claimed_by_its_header(line: bytes, claimed: bool) -> None:
    """Any file in any folder, by what its first line says and never by its name."""
    assert SOURCE.claims(Path("/anywhere/x"), line) is claimed


def test_the_session_is_that_of_the_header() -> None:
    """The name of the file says nothing; lines before the header are passed over, as pi does."""
    header = b'{"type":"session","version":3,"id":"from-header"}'

    assert SOURCE.session_of(Path("2026_other.jsonl"), [b"", b"{broken", header]) == "from-header"
    assert SOURCE.session_of(Path("2026_other.jsonl"), [b"", b"{broken"]) is None
    assert SOURCE.session_of(Path("2026_other.jsonl"), []) is None


# ---- moving the conversation


def move(log: Path, keep: str | None) -> Move:
    return SOURCE.move(log, records_of(log)[0].entry, keep, "the-prompt", "/w")


def sample(tmp_path: Path, name: str) -> Path:
    log = tmp_path / "a session's file.jsonl"
    log.write_bytes((SAMPLES / f"{name}.jsonl").read_bytes())
    return log


@pytest.mark.parametrize("keep", ["7619d087", None])
def test_a_move_appends_one_entry_at_the_place_to_go_on_from(tmp_path: Path, keep: str | None) -> None:
    """The line makes a new last entry, with an id of its own, below the one to keep; nothing is written
    by the source itself."""
    log = sample(tmp_path, "branched-tree")
    before = log.read_bytes()

    moved = move(log, keep)

    assert log.read_bytes() == before
    assert moved.line is not None and moved.line.endswith(b"}\n") and moved.line.count(b"\n") == 1
    entry = json.loads(moved.line)
    assert (entry["type"], entry["customType"], entry["parentId"]) == ("custom", "recorder", keep)
    assert len(entry["id"]) == 8 and entry["id"] not in {record.entry for record in records_of(log)}
    log.write_bytes(before + moved.line)
    last = records_of(log)[-1]
    assert (last.entry, last.parent, last.kind, last.understood) == (entry["id"], keep, "note", True)
    assert last.time == entry["timestamp"]


def test_a_move_says_how_to_resume(tmp_path: Path) -> None:
    """The command survives any path."""
    log = sample(tmp_path, "linear")

    moved = move(log, None)

    assert moved.resume is not None
    assert shlex.split(moved.resume) == ["pi", "--session", str(log)]


def test_a_last_line_without_a_newline_is_ended_first(tmp_path: Path) -> None:
    """The line of a killed pi is not run together with ours."""
    log = sample(tmp_path, "linear")
    log.write_bytes(log.read_bytes().removesuffix(b"\n"))

    moved = move(log, None)

    assert moved.line is not None and moved.line.startswith(b"\n{")


def test_a_taken_id_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that the file already has is passed over."""
    log = sample(tmp_path, "branched-tree")
    ids = iter(["7619d087", "00000001"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(ids))

    moved = move(log, None)

    assert moved.line is not None and json.loads(moved.line)["id"] == "00000001"


def test_a_migrated_file_is_moved_by_its_own_ids(tmp_path: Path) -> None:
    """The ids that were made for version 1 are not those that pi knows."""
    log = sample(tmp_path, "migrated-from-v1")
    answer = records_of(log)[2]

    moved = move(log, answer.entry)

    assert moved.line is not None and json.loads(moved.line)["parentId"] == "d9a685c4"


def test_a_file_of_version_1_cannot_be_moved(tmp_path: Path) -> None:
    """pi chains all its entries anew in file order when it opens it."""
    log = tmp_path / "v1.jsonl"
    log.write_text('{"type":"session","id":"s","cwd":"/w"}\n{"type":"message","message":{"role":"user"}}\n')

    moved = move(log, None)

    assert moved.line is None and moved.resume is None and "version 1" in (moved.why or "")


def test_obstacles_to_a_move_are_told(tmp_path: Path) -> None:
    """A missing entry, another session's file, a missing file, a file that is no session."""
    log = sample(tmp_path, "linear")
    other = tmp_path / "other"
    other.write_text("nothing\n")

    moves = [
        move(log, "nowhere"),
        SOURCE.move(log, "another", None, "p", None),
        SOURCE.move(tmp_path / "gone", "s", None, "p", None),
        SOURCE.move(other, "s", None, "p", None),
    ]

    assert [(moved.line, moved.resume) for moved in moves] == [(None, None)] * 4
    assert "nowhere" in (moves[0].why or "") and "another" in (moves[1].why or "")
    assert "cannot be read" in (moves[2].why or "") and "does not hold" in (moves[3].why or "")
