"""Going back from inside a real pi: files and conversation in one, with no screen, by rpc."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.agents.pi.conftest import text_of
from tests.agents.pi.rpc import Rpc, rpc
from tests.agents.pi.test_extension import bash, edit, headless, recorder, turns, within, write
from tests.flow.conftest import Recorder
from tests.flow.within import Within

if TYPE_CHECKING:
    from tests.agents.pi.conftest import Pi

pytestmark = pytest.mark.agents

__all__ = ["edit", "recorder", "within"]


def command(driven: Rpc, text: str) -> str:
    """Give a command and return what it said in the end."""
    driven.send("prompt", message=text)
    said = driven.until(lambda event: event.get("method") == "notify")
    return str(said["message"])


def files(pi: Pi) -> dict[str, str]:
    return {path.name: path.read_text() for path in pi.project.iterdir() if path.is_file()}


def texts(pi: Pi) -> list[str]:
    """The conversation that the model was sent last, by the first word of each text."""
    return [text.split()[0] for text in pi.model.requests[-1]]


@pytest.fixture
def three(pi: Pi, recorder: Recorder) -> Any:
    """A pi with three prompts, each of which left its mark."""
    (pi.project / "a.txt").write_text("0")
    with rpc(pi) as driven:
        for number in (1, 2, 3):
            made = [write("a.txt", str(number)), bash(f"touch new{number}")]
            driven.prompt(f"P{number} {turns(made)}")
        yield driven


def test_rewind_undo_and_redo(pi: Pi, three: Rpc, within: Within) -> None:
    """Both move together, back and forth, and one counts from where the other led; the prompt comes back
    into the editor."""
    said = command(three, "/rewind 2")
    assert "conversation moved" in said, said
    assert files(pi) == {"a.txt": "1", "new1": ""}
    editor = [one for one in three.seen if one.get("method") == "set_editor_text"][-1]
    assert editor["text"].startswith("P2")

    assert "conversation moved" in command(three, "/undo")
    assert files(pi) == {"a.txt": "0"}
    assert "conversation moved" in command(three, "/redo 2")
    assert files(pi) == {"a.txt": "2", "new1": "", "new2": ""}
    assert "conversation moved" in command(three, "/redo")
    assert files(pi)["a.txt"] == "3"
    assert "redo" in command(three, "/redo")
    three.prompt("P4")
    assert texts(pi) == ["P1", "ok", "P2", "ok", "P3", "ok", "P4"]


def test_what_is_said_is_what_is_moved(pi: Pi, three: Rpc) -> None:
    """Files alone, the conversation alone; the last one is taken back."""
    assert "conversation" not in command(three, "/rewind 3 files")
    assert files(pi)["a.txt"] == "2"
    three.prompt("P4")
    assert texts(pi) == ["P1", "ok", "P2", "ok", "P3", "ok", "P4"]
    assert "conversation moved" in command(three, "/rewind 2 conversation")
    assert files(pi)["a.txt"] == "2"
    three.prompt("P5")
    assert texts(pi) == ["P1", "ok", "P5"]
    assert command(three, "/rewind 2 nothing").startswith("/rewind")


def test_the_last_rewind_is_taken_back(pi: Pi, three: Rpc, within: Within) -> None:
    """With its conversation, and as one operation."""
    command(three, "/rewind 1")
    assert files(pi) == {"a.txt": "0"}
    assert "conversation moved" in command(three, "/checkpoint undo")
    assert files(pi)["a.txt"] == "3"
    three.prompt("P4")
    assert texts(pi) == ["P1", "ok", "P2", "ok", "P3", "ok", "P4"]
    types = [one["type"] for one in within.json("log", cwd=pi.project)]
    assert types.count("RewindApplied") == 2


def test_a_rewind_outlives_pi(pi: Pi, recorder: Recorder) -> None:
    """The resumed conversation goes on from where it was brought."""
    with rpc(pi) as driven:
        driven.prompt("P1 " + turns([write("a.txt", "1")]))
        driven.prompt("P2 " + turns([write("a.txt", "2")]))
        command(driven, "/rewind 2")
    with rpc(pi, "-c") as driven:
        driven.prompt("P3")
    assert texts(pi) == ["P1", "ok", "P3"]


def test_the_stack_is_shown(pi: Pi, three: Rpc) -> None:
    """Newest first, with a line of usage; and the whole status."""
    lines = command(three, "/checkpoint").splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["#3", "#2", "#1"]
    assert lines[-1].startswith("/rewind")
    assert "checkpoints" in command(three, "/checkpoint status")


def test_without_a_screen(pi: Pi, recorder: Recorder) -> None:
    """In print mode a rewind that is spelled out is carried out; a menu is not opened, and why is said."""
    headless(pi, "-p", "P1 " + turns([write("a.txt", "1")]))
    headless(pi, "-p", "-c", "P2 " + turns([write("a.txt", "2")]))
    ran = headless(pi, "-p", "-c", "/rewind 2")
    assert (ran.returncode, files(pi)) == (0, {"a.txt": "1"}), ran
    headless(pi, "-p", "-c", "P3")
    assert texts(pi) == ["P1", "ok", "P3"]
    assert "no screen" in headless(pi, "-p", "-c", "/rewind").stderr


def test_from_another_terminal(pi: Pi, three: Rpc, recorder: Recorder) -> None:
    """A live pi is moved, after the run that it is in; before 0.84 only its own commands can, and that is
    said."""
    if "0.7" in str(pi.command[1]):
        refused = recorder.json("rewind", "2", "--both", cwd=pi.project, check=4)
        assert "from inside" in refused["error"]["message"]
        assert files(pi)["a.txt"] == "3"
        return
    three.send("prompt", message="P4 " + turns([bash("sleep 2")], [write("a.txt", "4")]))
    three.until(lambda event: event["type"] == "tool_execution_start")
    done = recorder.json("rewind", "2", "--both", cwd=pi.project)
    three.until(lambda event: event["type"] == "agent_end")
    assert (done["status"], done["conversation"]["status"]) == ("done", "done")
    assert files(pi) == {"a.txt": "1", "new1": ""}
    three.prompt("P5")
    assert texts(pi) == ["P1", "ok", "P5"]


def test_from_another_terminal_after_the_daemon_was_started_anew(
    pi: Pi, three: Rpc, recorder: Recorder
) -> None:
    """pi finds it again while it does nothing."""
    recorder.run("daemon", "stop", cwd=pi.project)
    recorder.run("daemon", "start", cwd=pi.project)
    time.sleep(7)
    if "0.7" in str(pi.command[1]):
        recorder.json("rewind", "2", "--both", cwd=pi.project, check=4)
        return
    assert recorder.json("rewind", "2", "--both", cwd=pi.project)["conversation"]["status"] == "done"


def test_without_a_log(pi: Pi, recorder: Recorder) -> None:
    """A session that pi keeps in its memory alone goes back all the same."""
    (pi.project / "a.txt").write_text("0")
    with rpc(pi, "--no-session") as driven:
        for number in (1, 2):
            driven.prompt(f"P{number} {turns([write('a.txt', str(number))])}")
        assert "conversation moved" in command(driven, "/undo")
        assert files(pi) == {"a.txt": "1"}
        driven.prompt("P3")
    assert texts(pi) == ["P1", "ok", "P3"]


def test_another_extension_with_the_same_commands(pi: Pi, recorder: Recorder) -> None:
    """Ours are still there by the recorder's own name."""
    other = "export default (pi) => { pi.registerCommand('undo', { handler: async () => {} }); };"
    (pi.agent / "extensions" / "another.ts").write_text(other)
    (pi.project / "a.txt").write_text("0")
    with rpc(pi) as driven:
        driven.prompt("P1 " + turns([write("a.txt", "1")]))
        assert "conversation moved" in command(driven, "/recorder undo")
    assert files(pi) == {"a.txt": "0"}


GO = """export default (pi) => { pi.registerCommand("go", { handler: async (id, ctx) => {
    const result = await ctx.navigateTree(id.trim(), { summarize: false });
    ctx.ui.notify(result.cancelled ? "stayed" : "gone");
} }); };"""
"""An extension that moves the conversation as /tree does."""


def choose(driven: Rpc, option: str) -> Any:
    """Answer the next list with an option that begins so; returns the list."""
    asked = driven.until(lambda event: event.get("method") == "select")
    value = next(one for one in asked["options"] if one == option or one.startswith(f"{option} "))
    driven.send("extension_ui_response", id=asked["id"], value=value)
    return asked


def entries(pi: Pi) -> dict[str, str]:
    """pi's ids of the prompts, by their first word, and of the last line."""
    lines = [json.loads(line) for line in pi.log().read_text().splitlines()]
    prompts = [one for one in lines if one.get("message", {}).get("role") == "user"]
    return {text_of(one["message"]).split()[0]: one["id"] for one in prompts} | {"last": lines[-1]["id"]}


def confirm(driven: Rpc, answer: bool = True) -> Any:
    asked = driven.until(lambda event: event.get("method") == "confirm")
    driven.send("extension_ui_response", id=asked["id"], confirmed=answer)
    return asked


def said(driven: Rpc) -> str:
    return str(driven.until(lambda event: event.get("method") == "notify")["message"])


def test_the_menu(pi: Pi, three: Rpc) -> None:
    """Newest first; the actions in their order; what will change is listed before it is done; the code
    actions are there only where something would change."""
    three.send("prompt", message="/rewind")
    listed = choose(three, "#2")
    assert [one.split()[0] for one in listed["options"]] == ["#3", "#2", "#1"]
    actions = choose(three, "Restore code and conversation")
    assert actions["options"] == [
        "Restore code and conversation",
        "Restore conversation",
        "Restore code",
        "Summarize from here",
        "Summarize up to here",
        "Never mind",
    ]
    question = confirm(three)
    assert "put back  a.txt" in question["message"] and "remove    new3" in question["message"]
    assert "conversation moved" in said(three)
    assert files(pi) == {"a.txt": "1", "new1": ""}

    three.prompt("P4")
    three.send("prompt", message="/rewind")
    choose(three, "#4")
    actions = choose(three, "↩ Undo last rewind")
    assert actions["options"] == [
        "Restore conversation",
        "Summarize from here",
        "Summarize up to here",
        "Never mind",
        "↩ Undo last rewind",
    ]
    assert "conversation moved" in said(three)
    assert files(pi)["a.txt"] == "3"


def test_never_mind(pi: Pi, three: Rpc) -> None:
    """Nor a question that is answered with no."""
    three.send("prompt", message="/rewind")
    choose(three, "#1")
    choose(three, "Never mind")
    three.send("prompt", message="/rewind")
    choose(three, "#1")
    choose(three, "Restore code")
    confirm(three, False)
    three.prompt("P4")
    assert files(pi)["a.txt"] == "3"
    assert texts(pi) == ["P1", "ok", "P2", "ok", "P3", "ok", "P4"]


def test_a_summary(pi: Pi, three: Rpc) -> None:
    """Of what comes after a prompt, made by pi; the files stay."""
    three.send("prompt", message="/rewind")
    choose(three, "#2")
    choose(three, "Summarize from here")
    three.until(lambda event: event.get("method") == "setStatus" or event.get("command") == "prompt")
    three.state()
    three.prompt("P4")
    assert files(pi)["a.txt"] == "3"
    conversation = " ".join(pi.model.requests[-1])
    assert "summary" in conversation and "P3" not in conversation and "P1" in conversation


def test_a_summary_of_what_came_before(pi: Pi, recorder: Recorder) -> None:
    """It is cut at the prompt that was picked; where pi makes none, its words are told."""
    with rpc(pi) as driven:
        driven.prompt("P1")
        driven.prompt("P2")
        driven.send("prompt", message="/rewind")
        choose(driven, "#1")
        choose(driven, "Summarize up to here")
        assert said(driven).startswith("pi made no summary: ")
        for number in (3, 4):
            driven.prompt(f"P{number} {'word ' * 30_000}")
        driven.send("prompt", message="/rewind")
        choose(driven, "#3")
        choose(driven, "Summarize up to here")
        assert said(driven) == "What came before is summarised."
        summarised = " ".join(pi.model.requests[-1])
        assert "P2" in summarised and "P3" not in summarised
        driven.prompt("P5")
    sent = texts(pi)
    assert "P2" not in sent and sent[-5:] == ["P3", "ok", "P4", "ok", "P5"]


def test_last_rewind_of_files_that_changed_since(pi: Pi, three: Rpc) -> None:
    """It is asked for, and done when the answer is yes."""
    command(three, "/rewind 1")
    (pi.project / "a.txt").write_text("mine")
    three.send("prompt", message="/checkpoint undo")
    assert "a.txt" in confirm(three, False)["message"]
    assert said(three) == "Nothing was changed."
    three.send("prompt", message="/checkpoint undo")
    confirm(three)
    assert "Code restored" in said(three)
    assert files(pi)["a.txt"] == "3"


def test_a_navigation_offers_the_code(pi: Pi, recorder: Recorder, within: Within) -> None:
    """Backward and forward; kept, restored or not gone at all; undo counts from where one went."""
    (pi.agent / "extensions" / "go.ts").write_text(GO)
    (pi.project / "a.txt").write_text("0")
    with rpc(pi) as driven:
        for number in (1, 2, 3):
            driven.prompt(f"P{number} {turns([write('a.txt', str(number))])}")
        second, tip = entries(pi)["P2"], entries(pi)["last"]

        driven.send("prompt", message=f"/go {second}")
        asked = choose(driven, "Cancel navigation")
        assert asked["options"] == [
            "Restore code and navigate",
            "Keep code and navigate",
            "Cancel navigation",
        ]
        assert "put back  a.txt" in asked["title"]
        assert said(driven) == "stayed"

        driven.send("prompt", message=f"/go {second}")
        choose(driven, "Keep code and navigate")
        assert said(driven) == "gone" and files(pi)["a.txt"] == "3"
        driven.send("prompt", message=f"/go {tip}")
        assert said(driven) == "gone", "nothing is asked where the code is there already"

        driven.send("prompt", message=f"/go {second}")
        choose(driven, "Restore code and navigate")
        assert "Code restored" in said(driven) and said(driven) == "gone"
        assert files(pi)["a.txt"] == "1"
        driven.send("prompt", message=f"/go {tip}")
        choose(driven, "Restore code and navigate")
        assert "Code restored" in said(driven) and said(driven) == "gone"
        assert files(pi)["a.txt"] == "3"
        assert "conversation moved" in command(driven, "/undo")
        assert files(pi)["a.txt"] == "2"
        driven.prompt("P4")
    assert texts(pi) == ["P1", "ok", "P2", "ok", "P4"]


def test_a_fork_offers_the_code(pi: Pi, three: Rpc, within: Within) -> None:
    """It follows once the fork is there."""
    three.send("fork", entryId=entries(pi)["P2"])
    choose(three, "Restore code and navigate")
    assert "Code restored" in said(three)
    assert files(pi) == {"a.txt": "1", "new1": ""}
    three.prompt("P4")
    assert texts(pi) == ["P1", "ok", "P4"]
    assert [one["prompt"].split()[0] for one in within.json("checkpoints", cwd=pi.project)] == ["P4", "P1"]


def test_undo_counts_from_where_one_went(pi: Pi, recorder: Recorder, within: Within) -> None:
    """Also where that stands in pi's memory alone."""
    (pi.agent / "extensions" / "go.ts").write_text(GO)
    with rpc(pi) as driven:
        for number in (1, 2, 3):
            driven.prompt(f"P{number}")
        assert command(driven, f"/go {entries(pi)['P3']}") == "gone"
        command(driven, "/undo")
        driven.prompt("P4")
    assert texts(pi) == ["P1", "ok", "P4"]


def test_it_is_json_alone_that_pi_prints(pi: Pi, recorder: Recorder) -> None:
    """In json mode no line of another kind stands between its events."""
    ran = headless(pi, "--mode", "json", "P1 " + turns([write("a.txt", "1")]))
    assert all(json.loads(line) for line in ran.stdout.splitlines())
