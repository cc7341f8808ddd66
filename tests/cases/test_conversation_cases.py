"""Conversation and files: they go together or not at all, by identity, and survive what agents do to logs."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from recorder.sources.base import Closed
from tests.cases.stage import Agent, Stage
from tests.flow.agents import Pi, append, now
from tests.flow.conftest import snapshot
from tests.flow.within import APART


@pytest.fixture(autouse=True)
def no_pi_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may work with pi at the same time, which might have any session open."""
    monkeypatch.setattr("recorder.sources.pi.closed", lambda *_: Closed("closed", "none runs"))


def leaf(stage: Stage, agent: Agent) -> str | None:
    """Where the conversation goes on, as the recorder has it from the agent's log."""
    stage.within.run("watch", "--once", cwd=stage.folder)
    return stage.json("tree", agent.session)["leaf"]


def chain(agent: Agent) -> list[dict[str, Any]]:
    """The lines that the agent sends to its model when it goes on, read from its log without the recorder."""
    lines = [json.loads(line) for line in agent.log.read_bytes().splitlines()]
    key, parent = ("id", "parentId") if agent.agent == "pi" else ("uuid", "parentUuid")
    by_id = {line[key]: line for line in lines if line.get(key)}
    last = lines[-1]
    at = last.get("leafUuid") if last.get("type") == "last-prompt" else last.get(key)
    found = []
    while at is not None:
        found.append(by_id[at])
        at = by_id[at].get(parent)
    return found[::-1]


def spoken(agent: Agent) -> str:
    return json.dumps([line for line in chain(agent) if line.get("message")])


def test_case_41_editing_an_earlier_message_writes_no_file(stage: Stage) -> None:
    """A run appends to a file, a person edits it, the earlier message is sent again in other words, and the
    session forked: nothing but the agent writes, and the person's edit stands."""
    agent, mine = stage.agent(), stage.folder / "notes.md"
    before_first = agent.leaf
    stage.play(agent, (stage.write("notes.md", "mine\nby the run\n"),))
    mine.write_text("mine\nby the run\nby hand\n")
    stands = snapshot(stage.folder)
    agent.navigate(before_first)
    stage.play(agent, ())
    fork = _forked(stage, agent)
    stage.play(fork, ())
    assert snapshot(stage.folder) == stands
    assert len(stage.json("checkpoints", agent.session, "--all-branches")) == 2
    assert len(stage.json("checkpoints", agent.session)) == 1


def _forked(stage: Stage, agent: Agent) -> Agent:
    """A session of its own that begins with what was said so far."""
    fork = stage.agent()
    lines = [json.loads(line) for line in agent.log.read_bytes().splitlines()]
    if isinstance(agent, Pi):
        lines = [line for line in lines if line["type"] != "session"]
        header = json.loads(fork.log.read_bytes())
        fork.log.write_text(json.dumps({**header, "parentSession": str(agent.log)}) + "\n")
    else:
        lines = [{**line, "sessionId": fork.session, "forkedFrom": agent.session} for line in lines]
    append(fork.log, *lines)
    fork.leaf = agent.leaf
    return fork


def test_case_42_every_step_back_and_forth_is_exact(stage: Stage) -> None:
    """Three runs, back to the first, and undo, redo, undo: files and the place in the conversation match at
    every step."""
    agent, states = stage.agent(), []
    for number in range(3):
        stage.play(agent, (stage.write("notes.md", f"{number}\n"), stage.write(f"new-{number}", "1\n")))
        states.append((snapshot(stage.folder), leaf(stage, agent)))
    end = states[-1]
    stage.json("rewind", "1", "--both")
    start = (snapshot(stage.folder), spoken(agent))
    assert start[1] == "[]" and "new-0" not in start[0]
    for words, expected in (("--undo", end), ("--redo", None), ("--undo", end)):
        done = stage.json("rewind", words)
        assert (done["status"], done["conversation"]["status"]) == ("done", "done"), words
        if expected is None:
            assert (snapshot(stage.folder), spoken(agent)) == start
        else:
            assert snapshot(stage.folder) == expected[0]
            assert "prompt 1" in spoken(agent) and spoken(agent).count("done") >= 3


def test_case_54_a_prompt_is_found_by_its_identity(stage: Stage) -> None:
    """The second run changes nothing: to go to it is nothing to do for the files, whatever the clocks say and
    wherever the conversation stands; the third one's changes are not mixed up with it."""
    agent = stage.agent()
    entries = stage.play(agent, (stage.write("f", "1"),), (), (stage.write("f", "3"),))
    found = {one["number"]: one for one in stage.json("checkpoints")}
    assert [found[n]["changes"] for n in (1, 2)] == [
        {"added": 1, "modified": 0, "deleted": 0},
        {"added": 0, "modified": 0, "deleted": 0},
    ]
    assert found[2]["entry_id"] == entries[1]
    stage.rewind("3")
    assert stage.rewind("2")["status"] == "noop"
    assert (stage.folder / "f").read_text() == "1"


def test_case_55_the_place_is_kept_when_everything_is_closed(stage: Stage) -> None:
    """Files and conversation go back, and what reads them next finds both at the same place: the recorder
    from the agent's log, and the agent, whose next prompt goes on from there."""
    agent = stage.agent()
    entries = stage.play(agent, (stage.write("f", "1"),), (stage.write("f", "2"),))
    resume = stage.json("rewind", "2", "--both")["conversation"]
    assert resume["status"] == "done" and agent.session in resume["resume"]
    assert (stage.folder / "f").read_text() == "1"
    assert entries[1] not in [line.get("id", line.get("uuid")) for line in chain(agent)]
    on_path = [one["entry_id"] for one in stage.json("checkpoints", agent.session)]
    assert on_path == [entries[0]]
    agent.navigate(leaf(stage, agent))
    stage.play(agent, ())
    assert [one["number"] for one in stage.json("checkpoints", agent.session)] == [3, 1]


@pytest.mark.parametrize("fails", ["compacted", "gone", "broken off"])
def test_case_59_both_or_neither(fails: str, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conversation that is to go back was compacted since, or is gone, or fails at the last moment:
    either both went, or no file was touched, or the report says which half is done and how to undo it."""
    agent = stage.agent()
    stage.play(agent, (stage.write("f", "1"),), (stage.write("f", "2"),))
    if fails == "compacted":
        _compact(agent)
        stage.within.run("watch", "--once", cwd=stage.folder)
    elif fails == "gone":
        agent.log.unlink()
    before = snapshot(stage.folder)
    with monkeypatch.context() as patch:
        if fails == "broken off":
            patch.setattr("cli.going_back.take", lambda *_: "the agent's log cannot be written")
        done = stage.json("rewind", "2", "--both", check=None)
    status = done.get("conversation", {}).get("status")
    if status == "done":
        assert (snapshot(stage.folder)["f"][2], spoken(agent).count("prompt 2")) == (b"1", 0)
    elif fails == "broken off":
        assert (done["status"], status, done["undo"]) == ("partial", "failed", "recorder rewind --undo")
        stage.rewind("--undo")
        assert snapshot(stage.folder) == before
    else:
        assert done["error"]["code"] == "conversation_unavailable", done
        assert snapshot(stage.folder) == before


def _compact(agent: Agent) -> None:
    """What was said is summarised; the agent goes on after the summary."""
    if isinstance(agent, Pi):
        first = next(line["id"] for line in chain(agent) if line["type"] == "message")
        summary = {
            "type": "compaction", "id": "c0ffee00", "parentId": agent.leaf, "timestamp": now(),
            "summary": "they wrote f", "firstKeptEntryId": first, "tokensBefore": 1000,
        }  # fmt: skip
        append(agent.log, summary)
        agent.leaf = "c0ffee00"
    else:
        metadata = {"trigger": "manual", "preTokens": 1000}
        logical = agent.leaf
        agent.leaf = None
        agent._write(
            agent._chained(
                "system", subtype="compact_boundary", content="Conversation compacted",
                compactMetadata=metadata, logicalParentUuid=logical,
            )
        )  # fmt: skip
        summary = {"role": "user", "content": "they wrote f"}
        agent._write(agent._chained("user", message=summary, isCompactSummary=True))
    agent.done()


def test_case_64_a_run_under_way_is_refused_and_left_alone(stage: Stage) -> None:
    """A tool was called and has not returned: each way back is refused, says that it runs, and changes
    nothing; when it has ended the same command works."""
    agent, shell = stage.agent(), "bash" if stage.kind == "pi" else "Bash"
    with stage.within.watching() as watcher:
        agent.give("hang")
        watcher.look(agent)
        agent.write("f", "1")
        watcher.look(agent)
        call = _call_without_end(agent, shell)
        watcher.look(agent)
        before = (snapshot(stage.folder), agent.log.read_bytes())
        for words in (("rewind", "1", "--files"), ("rewind", "1"), ("undo", "--files"), ("revert", "1")):
            refused = stage.json(*words, check=4)["error"]
            assert refused["code"] == "running" and "returned" in refused["message"]
            assert (snapshot(stage.folder), agent.log.read_bytes()) == before
        _return(agent, call, shell)
        agent.done()
        watcher.look(agent)
    assert stage.json("revert", "1")["status"] == "done"
    assert not (stage.folder / "f").exists()


def _call_without_end(agent: Agent, tool: str) -> str:
    if isinstance(agent, Pi):
        return agent.call(tool, {"command": "sleep 1000"})
    block = {"type": "tool_use", "id": "toolu_hangs", "name": tool, "input": {"command": "sleep 1000"}}
    agent._write(agent._chained("assistant", message=agent._answer([block], "tool_use")))
    return "toolu_hangs"


def _return(agent: Agent, call: str, tool: str) -> None:
    if isinstance(agent, Pi):
        agent.returned(call, tool)
    else:
        content = [{"type": "tool_result", "tool_use_id": call, "content": "ok"}]
        agent._write(agent._chained("user", message={"role": "user", "content": content}, toolUseResult="ok"))


@pytest.mark.parametrize("how", ["settled", "interrupted"])
def test_case_71_what_was_taken_back_is_said_to_no_model(how: str, stage: Stage) -> None:
    """The second run is ended or broken off, then taken back: what the agent goes on with holds no word of
    it, neither in the log nor in a copy."""
    agent = stage.agent()
    stage.play(agent, (stage.write("f", "1"),))
    with stage.within.watching() as watcher:
        agent.give("the secret second prompt")
        watcher.look(agent)
        agent.write("f", "secret content")
        watcher.look(agent)
        if how == "settled":
            agent.done()
            watcher.look(agent)
    time.sleep(APART)
    assert "secret" in spoken(agent)
    done = stage.json("rewind", "2", "--both", "--while-running")
    assert done["conversation"]["status"] == "done"
    assert "secret" not in spoken(agent) and "prompt 1" in spoken(agent)


def test_case_93_the_agents_own_log_is_not_needed(stage: Stage) -> None:
    """The agent deletes its log: sessions, checkpoints, tree, show, diff, cat and the rewind of the files go
    on from the recorder's own; of the conversation it is said that it is gone."""
    agent = stage.agent()
    stage.play(agent, (stage.write("f", "1"),), (stage.write("f", "2"),))
    looking = [("sessions",), ("checkpoints",), ("tree",), ("log",), ("show", "1"), ("diff", "1", "2")]
    before = [stage.json(*words) for words in looking]
    agent.log.unlink()
    stage.within.run("watch", "--once", cwd=stage.folder)
    assert [stage.json(*words) for words in looking] == before
    assert stage.within.run("cat", "2", "f", cwd=stage.folder).out == b"1"
    done = stage.json("rewind", "2")
    assert done["status"] == "done" and (stage.folder / "f").read_text() == "1"
    assert done["conversation"]["status"] == "unavailable" and "gone" in done["conversation"]["why"]
