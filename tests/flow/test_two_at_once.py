"""Several recorders at once on the same logs and in the same tree: one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from cli.files import stored_files
from projections.views import rebuild
from recorder.events import Captured, EntryAdded, Fact, RewindApplied, RewindPlanned
from tests.flow.agents import Pi
from tests.flow.conftest import ENTRY, Recorder, snapshot
from tests.flow.test_import import SAMPLES
from tests.flow.within import APART, Within, rows, whole


def start(recorder: Recorder, *words: str, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", str(ENTRY), *words],
        cwd=cwd, env=recorder.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    out, err = process.communicate(timeout=60)
    assert b"Traceback" not in err and b"internal error" not in err, err
    return process.returncode, out


def copies(folder: Path) -> Path:
    """Logs of real sessions, many enough that several readers meet."""
    folder.mkdir(parents=True)
    for number in range(6):
        for sample in ("branched-tree", "forked", "parallel-tools", "compacted"):
            lines = (SAMPLES / "pi" / f"{sample}.jsonl").read_text().splitlines(keepends=True)
            head = json.loads(lines[0])
            head["id"] = f"{head['id']}-{number}"
            (folder / f"{sample}-{number}.jsonl").write_text(json.dumps(head) + "\n" + "".join(lines[1:]))
    return folder


def by_stream(within: Within) -> dict[str, list[tuple[str, str]]]:
    """The observed facts of each session, in order, without what the recorder did itself."""
    with within.recording() as recording:
        assert list(recording.log.check()) == []
        found: dict[str, list[tuple[str, str]]] = {}
        for stored in whole(recording):
            name = type(stored.fact).__name__
            if not name.startswith("Capture"):
                found.setdefault(stored.fact.originator_id.hex, []).append((name, said(stored.fact)))
        return found


def said(fact: Fact) -> str:
    names = ("entry", "parent", "run", "step", "call", "label", "leaf", "to", "outcome")
    return str([getattr(fact, name) for name in names if hasattr(fact, name)])


def test_readers_of_the_same_logs(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher and two imports of one folder at once: each fact once, in the order of a single import."""
    logs = copies(tmp_path / "logs")
    processes = [
        start(recorder, "watch", "--once", str(logs), cwd=tmp_path),
        start(recorder, "import", str(logs), cwd=tmp_path),
        start(recorder, "import", str(logs), "--json", cwd=tmp_path),
    ]
    assert [ended(process)[0] for process in processes] == [0, 0, 0]

    together = Within(recorder.base, monkeypatch)
    found = by_stream(together)
    alone = Within(tmp_path / "alone", monkeypatch)
    alone.run("import", str(logs), cwd=tmp_path)
    assert found == by_stream(alone)
    assert all(
        count == 1
        for facts in found.values()
        for count in Counter(fact for fact in facts if fact[0] == EntryAdded.__name__).values()
    )


def recorded(within: Within, folder: Path) -> Pi:
    agent = Pi(within.pi_folder, folder)
    with within.watching() as watcher:
        watcher.prompt(agent, "first", lambda one: one.write("a.txt", "1\n"))
        time.sleep(APART)
        watcher.prompt(agent, "second", lambda one: one.write("b.txt", "2\n"))
        time.sleep(APART)
        watcher.prompt(agent, "third", lambda one: one.write("a.txt", "3\n"))
    return agent


def outcome(within: Within) -> list[str]:
    """Every plan has its outcome before the next one: nothing was interleaved."""
    with within.recording() as recording:
        names = [type(one.fact).__name__ for one in whole(recording)]
        recording.views.catch_up()
        live = rows(recording.views)
        rebuild(recording.views)
        recording.views.catch_up()
        assert rows(recording.views) == live
    return [name for name in names if name.startswith("Rewind")]


@pytest.mark.parametrize("second", [("rewind", "1"), ("rewind", "2"), ("undo",), ("revert", "2")])
def test_two_rewinds(
    second: tuple[str, ...], recorder: Recorder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commands in one tree come one after the other, or the second is refused, for it was meant before
    the first was done; what stands then is what one order of them gives."""
    within = Within(recorder.base, monkeypatch)
    start_state = snapshot(folder)
    recorded(within, folder)
    words = [
        ("rewind", "2", "--files", "--json"),
        (*second, *(["--files"] * (second[0] != "revert")), "--json"),
    ]
    processes = [start(recorder, *one, cwd=folder) for one in words]
    ends = [ended(process) for process in processes]

    assert {code for code, _ in ends} <= {0, 4}, ends
    documents = [json.loads(out) for _, out in ends]
    done = [one for one in documents if one.get("status") == "done"]
    assert done, documents
    names = outcome(within)
    assert names == [RewindPlanned.__name__, RewindApplied.__name__] * len(done)
    stands = {name: path.read_text() for name in ("a.txt", "b.txt") if (path := folder / name).exists()}
    assert stands in results(second, len(done)), (stands, documents)
    assert {path: one for path, one in snapshot(folder).items() if path not in stands} == start_state
    for _ in done:
        recorder.json("rewind", "--undo", "--files", cwd=folder)
    assert {name: (folder / name).read_text() for name in ("a.txt", "b.txt")} == {
        "a.txt": "3\n",
        "b.txt": "2\n",
    }


def results(second: tuple[str, ...], done: int) -> list[dict[str, str]]:
    """What may stand after a rewind to prompt 2 and another command: both done in any order, or one alone."""
    nothing, first, both = {}, {"a.txt": "1\n"}, {"a.txt": "1\n", "b.txt": "2\n"}
    without_second = {"a.txt": "3\n"}
    alone = {"undo": both, "revert": without_second, "rewind 1": nothing, "rewind 2": first}
    then = {"undo": [nothing, first], "revert": [first], "rewind 1": [nothing, first], "rewind 2": [first]}
    name = " ".join(second) if second[0] == "rewind" else second[0]
    return then[name] if done == 2 else [first, alone[name]]


def test_two_undos_of_one_rewind(recorder: Recorder, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewind is taken back once; the other command finds nothing to do, or nothing to take back."""
    within = Within(recorder.base, monkeypatch)
    recorded(within, folder)
    end = snapshot(folder)
    within.run("rewind", "1", "--files", cwd=folder)
    processes = [start(recorder, "rewind", "--undo", "--files", "--json", cwd=folder) for _ in range(2)]
    ends = [ended(process) for process in processes]

    assert sorted(code for code, _ in ends) in ([0, 3], [0, 4])
    statuses = [json.loads(out).get("status") for _, out in ends]
    assert statuses.count("done") == 1, statuses
    assert snapshot(folder) == end
    within.run("rewind", "--redo", "--files", cwd=folder)
    assert not (folder / "b.txt").exists()


def test_a_rewind_while_the_watcher_captures(
    recorder: Recorder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session's prompts are captured while a rewind is under way: both are whole, and neither holds
    half of the other."""
    within = Within(recorder.base, monkeypatch)
    recorded(within, folder)
    for number in range(40):
        (folder / f"file-{number}").write_text(f"{number}\n")
    before = snapshot(folder)
    with recorder.watching():
        other = recorder.pi(folder)
        stop = threading.Event()

        def prompt() -> None:
            while not stop.is_set():
                other.give("go on")
                other.done()
                time.sleep(0.02)

        thread = threading.Thread(target=prompt)
        thread.start()
        try:
            session = recorder.json("sessions", cwd=folder)[-1]["id"]
            for word in (("rewind", "1"), ("rewind", "--undo")) * 2:
                done = recorder.json(*word, "--files", "--session", session, cwd=folder)
                assert done["status"] == "done"
        finally:
            stop.set()
            thread.join()
    assert snapshot(folder) == before
    with within.recording() as recording:
        assert list(recording.log.check()) == []
        captured = [one.fact for one in whole(recording) if isinstance(one.fact, Captured)]
        with stored_files(recording, captured[0].originator_id.hex) as files:
            stood = [files.states(one.commit, [b"a.txt", b"b.txt"]).values() for one in captured[7:]]
    assert len(captured) > 14
    assert not [one for fact in captured for one in fact.delta if b".recorder-" in one.path]
    for kinds in ({state.kind for state in states if state.known} for states in stood):
        assert len(kinds) <= 1, kinds
