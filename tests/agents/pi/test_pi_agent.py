"""Real pi releases: a line appended from outside moves the conversation, and a live pi is seen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from recorder.sources.base import Record
from recorder.sources.pi import SOURCE

if TYPE_CHECKING:
    from tests.agents.pi.conftest import Pi

pytestmark = pytest.mark.agents

Wait = Callable[[Callable[[], object]], None]


def records_of(log: Path) -> list[Record]:
    reader = SOURCE.reader(log)
    records = [reader.read(line) for line in log.read_bytes().splitlines()]
    return [record for record in records if isinstance(record, Record)]


def prompt_of(log: Path, text: str) -> Record:
    return next(record for record in records_of(log) if record.prompt and record.text == text)


def path_to(log: Path, entry: str | None) -> list[str]:
    """The ids from an entry up to the root."""
    parents = {record.entry: record.parent for record in records_of(log)}
    path = []
    while entry is not None:
        path.append(entry)
        entry = parents[entry]
    return path


def append_move(log: Path, keep: str | None) -> str:
    """Append what the source says, and give the id of the new entry."""
    moved = SOURCE.move(log, records_of(log)[0].entry, keep, "prompt", None)
    assert moved.line is not None and moved.why is None
    with log.open("ab") as file:
        file.write(moved.line)
    return records_of(log)[-1].entry


@pytest.fixture
def talk(pi: Pi) -> Path:
    """A closed session with three prompts."""
    pi.ask("ONE")
    pi.ask("-c", "TWO")
    pi.ask("-c", "THREE")
    return pi.log()


def test_an_appended_entry_moves_the_conversation(pi: Pi, talk: Path, tmp_path: Path) -> None:
    """pi goes on below the appended entry, with `-c` and with `--session`, the latter from any folder: the
    next prompt hangs on it, and the model is sent what lies above it and nothing else."""
    entry = append_move(talk, prompt_of(talk, "TWO").parent)
    pi.ask("-c", "TWO AGAIN")
    assert prompt_of(talk, "TWO AGAIN").parent == entry
    assert pi.model.requests[-1] == ["ONE", "ok", "TWO AGAIN"]

    entry = append_move(talk, prompt_of(talk, "THREE").parent)
    pi.ask("--session", str(talk), "THREE AGAIN", cwd=tmp_path)
    assert prompt_of(talk, "THREE AGAIN").parent == entry
    assert pi.model.requests[-1] == ["ONE", "ok", "TWO", "ok", "THREE AGAIN"]
    assert pi.log() == talk


@pytest.mark.parametrize("option", ["-c", "--session"])
@pytest.mark.parametrize("root", [False, True])
def test_an_appended_entry_moves_it_to_before_the_first_prompt(
    pi: Pi, talk: Path, option: str, root: bool
) -> None:
    """Also where nothing was said yet, and where nothing at all is above: releases before 1.0, and any at
    the root, first write their set-up entries again, below the appended one."""
    entry = append_move(talk, None if root else prompt_of(talk, "ONE").parent)

    pi.ask(*([option] if option == "-c" else [option, str(talk)]), "ONE AGAIN")

    assert entry in path_to(talk, prompt_of(talk, "ONE AGAIN").entry)
    assert pi.model.requests[-1] == ["ONE AGAIN"]


def test_a_killed_run_does_not_stand_in_the_way(pi: Pi, wait_for: Wait) -> None:
    """The conversation can be moved to before a prompt whose tool never returned."""
    pi.ask("ONE")
    with pi.alive("-p", "-c", "TWO [[sleep 60]]") as process:
        assert process.stdin is not None
        process.stdin.close()
        wait_for(lambda: records_of(pi.log())[-1].calls and psutil.Process(process.pid).children())
        children = psutil.Process(process.pid).children()
    for child in children:
        child.kill()
    log = pi.log()

    entry = append_move(log, prompt_of(log, "TWO [[sleep 60]]").parent)
    pi.ask("-c", "THREE")

    assert prompt_of(log, "THREE").parent == entry
    assert pi.model.requests[-1] == ["ONE", "ok", "THREE"]


def only(monkeypatch: pytest.MonkeyPatch, pid: int) -> None:
    """Look at this process alone, for others of this machine may be pi too."""
    monkeypatch.setattr(psutil, "pids", lambda: [1, pid])


def test_pi_is_seen_from_its_first_moment_to_its_last(
    pi: Pi, talk: Path, monkeypatch: pytest.MonkeyPatch, wait_for: Wait
) -> None:
    """In rpc mode: before it has its title, with it, and no more once it has ended."""
    session = records_of(talk)[0].entry
    seen = set()
    with pi.alive("--mode", "rpc", "-c") as process:
        only(monkeypatch, process.pid)

        def titled() -> bool:
            seen.add(SOURCE.closed(talk, session).state)
            return psutil.Process(process.pid).name() == "pi"

        wait_for(titled)
        assert SOURCE.closed(talk, session).state == "unknown"

    assert seen == {"unknown"}
    assert SOURCE.closed(talk, session).state == "closed"


def test_a_print_run_is_seen(
    pi: Pi, monkeypatch: pytest.MonkeyPatch, wait_for: Wait, request: pytest.FixtureRequest
) -> None:
    """In print mode, while its shell tool runs; since 1.x the tool shows which session it is."""
    with pi.alive("-p", "ONE [[sleep 60]]") as process:
        assert process.stdin is not None
        process.stdin.close()
        wait_for(lambda: psutil.Process(process.pid).children())
        only(monkeypatch, process.pid)
        log = pi.log()
        wait_for(lambda: records_of(log)[-1].calls)
        children = psutil.Process(process.pid).children(recursive=True)

        state = SOURCE.closed(log, records_of(log)[0].entry).state
        other = SOURCE.closed(log, "another").state

    for child in children:
        child.kill()
    assert state == ("open" if "1.6.0" in request.node.name else "unknown")
    assert other == "unknown"


def test_a_terminal_is_seen(pi: Pi, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its full-screen mode, which it holds a terminal for."""
    session = records_of(talk)[0].entry
    with pi.terminal("-c", shows=b"THREE") as process:
        only(monkeypatch, process.pid)
        assert psutil.Process(process.pid).name() == "pi"
        assert SOURCE.closed(talk, session).state == "unknown"

    assert SOURCE.closed(talk, session).state == "closed"
