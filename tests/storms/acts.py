"""What agents, people and git do in a storm, one act each: the model is told of every write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tests.flow.agents import Pi
from tests.flow.conftest import snapshot
from tests.storms.contents import SLOTS, differing, edited, is_text
from tests.storms.model import Run, above

if TYPE_CHECKING:
    from tests.storms.storm import Storm


def prompt(storm: Storm, session: str) -> None:
    agent = storm.agents[session]
    storm.apart(session)
    storm.tell(f"{session}: prompt {len(storm.model.prompts[session]) + 1}")
    storm.entries.append((session, agent.leaf))
    agent.give(f"prompt {len(storm.model.prompts[session]) + 1}")
    storm.look(session, beside=storm.chance.random() < 0.15)
    storm.runs[session] = storm.model.prompted(session, snapshot(storm.root))
    storm.captures = storm.count_captures()
    if (dead := storm.unended.pop(session, None)) is not None:
        end(storm, dead, storm.model.now)


def steer(storm: Storm, session: str) -> None:
    """Another prompt while the run goes on: its run is another one."""
    run = storm.runs[session]
    assert run is not None
    prompt(storm, session)
    new = storm.runs[session]
    assert new is not None
    storm.steered[new] = [run]


def shell(storm: Storm, session: str) -> None:
    storm.apart(session)
    storm.model.cell.calls.add(session)
    agent, run = storm.agents[session], storm.runs[session]
    agent.shell("…", lambda: storm.write(session, run, storm.hands.work))
    storm.look(session)


def tool(storm: Storm, session: str) -> None:
    """A tool writes one file: as it was with one slot edited, or anew. At times a formatter of the agent's is
    at it before the tool is done."""
    target = storm.hands.target()
    if target is None or not _readable(target):
        return
    storm.apart(session)
    agent, run = storm.agents[session], storm.runs[session]
    name, words = str(target.relative_to(storm.root)), _words(storm, target)
    formatted = storm.chance.random() < 0.2

    def act() -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if not formatted:
            agent.write(name, words)
        elif isinstance(agent, Pi):
            agent.use("write", {"path": name, "content": words}, save)
        else:
            agent.use("Write", {"file_path": str(target), "content": words}, save)

    def save() -> None:
        target.write_text(words)
        target.write_text(_words(storm, target))

    changed = storm.write(session, run, act)
    # A call names one name of a file that has several: that the others changed with it nobody tells.
    storm.model.muddled |= changed - {name, *above(name)}
    storm.look(session)


def _words(storm: Storm, target: Path) -> str:
    """What the tool is to write; nothing is changed yet."""
    content = target.read_bytes() if target.exists() else b""
    if is_text(content) and b"\r" not in content:
        return edited(content, storm.chance.randrange(SLOTS), storm.hands.word()).decode()
    return f"{storm.hands.word()}\n"


def done(storm: Storm, session: str) -> None:
    run = storm.runs[session]
    assert run is not None
    storm.tell(f"{session}: done")
    storm.agents[session].done()
    run.ended = storm.model.tick()
    end(storm, run, run.ended)
    storm.look(session)
    storm.runs[session] = None


def abort(storm: Storm, session: str) -> None:
    """The person breaks the run off; the agent lives."""
    run, agent = storm.runs[session], storm.agents[session]
    assert run is not None
    storm.tell(f"{session}: aborted")
    if isinstance(agent, Pi):
        agent._message({"role": "assistant", "content": [], "stopReason": "aborted"})
    else:
        said = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}
        agent._write(agent._chained("user", message=said))
    run.ended = storm.model.tick()
    storm.look(session)
    storm.unended[session] = run
    storm.runs[session] = None


def kill(storm: Storm, session: str) -> None:
    """The agent dies between two tools: its run has no end."""
    run = storm.runs[session]
    assert run is not None
    storm.tell(f"{session}: killed")
    storm.unended[session] = run
    storm.runs[session] = None


def hang(storm: Storm) -> None:
    """The agent dies while a shell runs: the call never returns, and what it did may be anybody's."""
    session = storm.chance.choice("ab")
    agent, run = storm.agents[session], storm.runs[session]
    if run is None or not isinstance(agent, Pi):
        return
    storm.apart(session)
    storm.tell(f"{session}: hangs")
    storm.model.hanging.add(session)
    storm.model.cell.calls.add(session)
    agent.call("bash", {"command": "sleep 1000"})
    storm.write(session, run, storm.hands.work)
    storm.look(session)
    kill(storm, session)


def crossed_calls(storm: Storm) -> None:
    """Both shells run at the same time: what they do may be either's."""
    if None in storm.runs.values() or not all(isinstance(one, Pi) for one in storm.agents.values()):
        return
    a, b = storm.agents["a"], storm.agents["b"]
    assert isinstance(a, Pi) and isinstance(b, Pi)
    storm.apart("a")
    storm.tell("both call a shell")
    calls = {"a": a.call("bash", {"command": "…"}), "b": b.call("bash", {"command": "…"})}
    storm.model.cell.calls |= {"a", "b"}
    before = snapshot(storm.root)
    storm.hands.work()
    after = snapshot(storm.root)
    storm.tell_writes("both", before, after)
    storm.model.muddled |= differing(before, after)
    for session, agent in (("a", a), ("b", b)):
        agent.returned(calls[session], "bash")
        storm.look(session)
    storm.last_hand = "both"


def navigate(storm: Storm) -> None:
    """The conversation alone goes back to a place before some prompt."""
    session, entry = storm.chance.choice(storm.entries)
    if storm.runs[session] is None:
        storm.tell(f"{session}: navigates")
        storm.agents[session].navigate(entry)


def end(storm: Storm, run: Run, now: int) -> None:
    run.closed = now
    for other in storm.steered.pop(run, []):
        end(storm, other, now)


def person(storm: Storm) -> None:
    storm.apart("person")
    storm.write("person", None, storm.hands.save)


def use_git(storm: Storm) -> None:
    storm.apart("git")
    storm.write("git", None, storm.hands.use_git)


def prune(storm: Storm) -> None:
    """At times so that old checkpoints are let go: what is kept must stay whole."""
    kept = storm.chance.choice([100, 100, 4])
    os.environ["RECORDER_MAX_CHECKPOINTS"] = str(kept)
    try:
        pruned = storm.within.json("prune", cwd=storm.root)
    finally:
        del os.environ["RECORDER_MAX_CHECKPOINTS"]
    names = {agent.session: session for session, agent in storm.agents.items()}
    gone = {(names[one["session"]], one["number"]) for one in pruned["retired"]}
    storm.tell(f"prune: {sorted(gone)}")
    storm.retired |= gone


def _readable(target: Path) -> bool:
    """Whether a tool that works on texts works on it."""
    try:
        if target.exists():
            target.read_text()
    except UnicodeDecodeError:
        return False
    return True
