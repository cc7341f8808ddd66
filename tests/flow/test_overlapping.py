"""Sessions whose work trees meet: one names a file of another's tree, one tree lies in the other, both name
the same file elsewhere. Whose a change is, and what a rewind of each may touch."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from projections import changes
from projections.history import tree_history
from recorder.planning.spans import SLACK
from tests.capture.helpers import commit_all, make_repository, run_git
from tests.flow.agents import Claude, Pi
from tests.flow.within import APART, Watcher, Within

Agent = Pi | Claude
KINDS = pytest.mark.parametrize("kind", ["pi", "claude"])


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Within:
    return Within(tmp_path / "recorder", monkeypatch)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return project(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return project(tmp_path / "there")


def project(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "x.txt").write_text("one\n")
    (folder / "own.txt").write_text("mine\n")
    return folder


def start(watcher: Watcher, *agents: Agent) -> None:
    """A first prompt each, that does nothing: their trees are recorded from here on."""
    for agent in agents:
        watcher.prompt(agent, "hello")
    time.sleep(APART)


def opened(watcher: Watcher, *agents: Agent) -> None:
    """A prompt each, whose run stays open."""
    for agent in agents:
        agent.give("work")
        watcher.look(agent)
    time.sleep(APART)


def settled(watcher: Watcher, *agents: Agent) -> None:
    time.sleep(APART)
    for agent in agents:
        agent.done()
        watcher.look(agent)


def files_of(within: Within, agent: Agent, number: str, cwd: Path) -> dict[str, str]:
    """Whose each change is, by path, as `show` has it."""
    shown = within.json("show", number, "--session", agent.session, cwd=cwd)
    return {one["path"]: one["by"] for one in shown["files"]}


def rewind(within: Within, agent: Agent, cwd: Path, *words: str, check: int = 0, to: str = "2") -> Any:
    return within.json(
        "rewind", to, "--files", "--session", agent.session, "--while-running", *words, cwd=cwd, check=check
    )


def owners(within: Within, tree: Path) -> list[tuple[str, str, str | None]]:
    """Path, owner and session of each change in the history of the work tree at a folder."""
    from cli.files import attributed_in

    with within.recording() as recording:
        row = recording.views.connection.execute(
            "SELECT tree FROM trees WHERE path = ?", (str(tree).encode(),)
        ).fetchone()
        names = {
            one["stream"]: one["session"]
            for one in recording.views.connection.execute("SELECT stream, session FROM sessions")
        }
        found = attributed_in(recording, row["tree"])
    return [(change.path.decode(), change.by, names.get(change.session or "")) for change in found]


@KINDS
def test_what_another_tree_s_session_names_is_its_own(
    kind: str, within: Within, here: Path, there: Path
) -> None:
    """Written while a shell ran in the file's own tree: that tree's session leaves it, the writer takes it
    back, and whatever was the shell's own goes back with its session."""
    a, b = within.agent(kind, here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(str(there / "x.txt"), "one\n"))
        time.sleep(APART)
        opened(watcher, a, b)

        def build() -> None:
            time.sleep(APART)
            a.write(str(there / "x.txt"), "two\n")
            watcher.look(a)
            time.sleep(APART)
            (there / "own.txt").write_text("built\n")

        b.shell("make", build)
        settled(watcher, a, b)

    assert ("x.txt", "session", a.session) in owners(within, there)
    assert files_of(within, b, "2", there) == {"own.txt": "session"}
    done = rewind(within, b, there)
    assert done["files"]["write"] == ["own.txt"]
    assert (there / "x.txt").read_text() == "two\n"
    done = rewind(within, a, here, to="3")
    assert done["files"]["write"] == [str(there / "x.txt")]
    assert (there / "x.txt").read_text() == "one\n"


@KINDS
def test_what_both_trees_sessions_name_is_a_conflict_for_both(
    kind: str, within: Within, here: Path, there: Path
) -> None:
    """Two writes between two captures cannot be told apart; neither session takes the other's away."""
    a, b = within.agent(kind, here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(str(there / "x.txt"), "one\n"))
        time.sleep(APART)
        opened(watcher, a, b)
        b.write("x.txt", "two\n")
        time.sleep(APART)
        a.write(str(there / "x.txt"), "three\n")
        watcher.look(a)
        settled(watcher, b, a)

    assert files_of(within, b, "2", there) == {"x.txt": "shared"}
    assert rewind(within, b, there, check=4)["status"] == "refused"
    assert rewind(within, a, here, check=4, to="3")["status"] == "refused"
    assert (there / "x.txt").read_text() == "three\n"


def test_a_file_named_through_a_link(within: Within, here: Path, there: Path) -> None:
    """The name that the tool used says nothing of the tree; the real file is what both captured."""
    (here.parent / "alias").symlink_to(there)
    a, b = within.agent("pi", here), within.agent("pi", there)
    alias = str(here.parent / "alias" / "x.txt")
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(alias, "one\n"))
        time.sleep(APART)
        opened(watcher, a, b)
        b.shell("make", lambda: (time.sleep(APART), a.write(alias, "two\n"), time.sleep(APART)))
        settled(watcher, a, b)

    assert ("x.txt", "session", a.session) in owners(within, there)
    assert rewind(within, b, there)["status"] == "noop"
    assert (there / "x.txt").read_text() == "two\n"


@KINDS
def test_a_rewind_of_another_tree_is_a_rewind_here(
    kind: str, within: Within, here: Path, there: Path
) -> None:
    """Its write falls into a shell's window of this tree's session, and is not that session's."""
    a, b = within.agent(kind, here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(str(there / "x.txt"), "one\n"))
        time.sleep(APART)
        watcher.prompt(a, "edit", lambda one: one.write(str(there / "x.txt"), "two\n"))
        opened(watcher, b)
        b.shell("sleep", lambda: (rewind(within, a, here, to="3"), time.sleep(APART)))
        settled(watcher, b)

    assert (there / "x.txt").read_text() == "one\n"
    assert [one for one in owners(within, there) if one[0] == "x.txt"] == [
        ("x.txt", "session", a.session), ("x.txt", "rewind", None),
    ]  # fmt: skip
    assert rewind(within, b, there)["status"] == "noop"
    assert rewind(within, b, there, to="1")["status"] == "noop"
    assert (there / "x.txt").read_text() == "one\n"


def test_a_rewind_here_is_a_rewind_for_whoever_named_the_file_elsewhere(
    within: Within, here: Path, there: Path
) -> None:
    """The other direction: the file's own tree was rewound while a shell of the other session ran."""
    a, b = within.agent("pi", here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(str(there / "x.txt"), "one\n"))
        time.sleep(APART)
        watcher.prompt(b, "edit", lambda one: one.write("x.txt", "two\n"))
        time.sleep(APART)
        opened(watcher, a)
        a.shell("sleep", lambda: (rewind(within, b, there), time.sleep(APART)))
        settled(watcher, a)

    assert (there / "x.txt").read_text() == "one\n"
    assert rewind(within, a, here, to="3")["status"] == "noop"
    assert (there / "x.txt").read_text() == "one\n"


def test_what_the_own_tree_saw_in_between_is_not_taken_back(within: Within, here: Path, there: Path) -> None:
    """The outer session's tree saw the file go from one to three; the file's own tree saw a person's two in
    between: that comes back, not the one."""
    a, b = within.agent("pi", here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(str(there / "x.txt"), "one\n"))
        time.sleep(APART)
        opened(watcher, a)
        (there / "x.txt").write_text("two\n")
        time.sleep(APART)
        watcher.prompt(b, "look")
        a.write(str(there / "x.txt"), "three\n")
        settled(watcher, a)

    done = rewind(within, a, here, to="3", check=0)
    assert done["files"]["write"] == [str(there / "x.txt")]
    assert (there / "x.txt").read_text() == "two\n"


def test_git_s_work_in_the_own_tree_is_git_s_for_whoever_named_the_file(
    within: Within, here: Path, tmp_path: Path
) -> None:
    """A checkout by hand in the file's repository, while a shell of the outer session ran."""
    there = make_repository(project(tmp_path / "there"))
    commit_all(there)
    run_git(there, "checkout", "-q", "-b", "next")
    (there / "x.txt").write_text("next\n")
    commit_all(there)
    run_git(there, "checkout", "-q", "-")
    a, b = within.agent("pi", here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "look", lambda one: one.write(str(there / "x.txt"), "one\n"))
        time.sleep(APART)
        opened(watcher, a)
        a.shell("sleep", lambda: (run_git(there, "checkout", "-q", "next"), time.sleep(APART)))
        watcher.prompt(b, "look")
        settled(watcher, a)

    assert (str(there / "x.txt"), "git", None) in owners(within, here)
    assert rewind(within, a, here, to="3")["status"] == "noop"
    assert (there / "x.txt").read_text() == "next\n"


def nested(within: Within, here: Path, *, linked: bool) -> Path:
    """A work tree inside another one that is recorded by itself."""
    make_repository(here)
    commit_all(here)
    if linked:
        run_git(here, "worktree", "add", "-q", "sub")
    else:
        make_repository(project(here / "sub"))
        commit_all(here / "sub")
    return here / "sub"


@pytest.mark.parametrize("linked", [False, True])
def test_shells_of_both_of_two_nested_trees_at_once(linked: bool, within: Within, here: Path) -> None:
    """Either may have written, in the inner tree or in the outer one: no rewind takes it back unasked."""
    sub = nested(within, here, linked=linked)
    a, b = within.agent("pi", here), within.agent("pi", sub)
    with within.watching() as watcher:
        start(watcher, b, a)
        opened(watcher, a, b)

        def work() -> None:
            time.sleep(APART)
            (sub / "x.txt").write_text("two\n")
            (here / "x.txt").write_text("two\n")
            time.sleep(APART)

        a.shell("make", lambda: b.shell("make", work))
        settled(watcher, a, b)

    assert files_of(within, b, "2", sub) == {"x.txt": "shared"}
    assert files_of(within, a, "2", here) == {"x.txt": "shared"}
    for agent, cwd in ((a, here), (b, sub)):
        assert rewind(within, agent, cwd, check=4)["files"]["conflict"][0]["path"] == "x.txt"
    assert (sub / "x.txt").read_text() == (here / "x.txt").read_text() == "two\n"


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("captured", [True, False])
@pytest.mark.parametrize("outer", [True, False])
def test_what_a_shell_did_in_a_tree_that_is_recorded_by_itself_is_said(
    linked: bool, captured: bool, outer: bool, within: Within, here: Path
) -> None:
    """The tree's own session leaves it; the one whose shell it was cannot reach it, and says so, in its
    rewind and in `show`; whether that tree was captured since or not."""
    sub = nested(within, here, linked=linked)
    a, b = within.agent("pi", here), within.agent("pi", sub)
    (doer, cwd), (other, place) = ((a, here), (b, sub)) if outer else ((b, sub), (a, here))
    with within.watching() as watcher:
        start(watcher, b, a)
        opened(watcher, doer, *([other] if captured else []))
        doer.shell(
            "sed", lambda: ((place / "x.txt").write_text("two\n"), (cwd / "own.txt").write_text("2\n"))
        )
        settled(watcher, doer, *([other] if captured else []))

    path = "sub/x.txt" if outer else str(place / "x.txt")
    if captured:
        assert ("x.txt", "session", doer.session) in owners(within, place)
    assert rewind(within, other, place, to="1")["status"] == "noop"
    shown = within.json("show", "2", "--session", doer.session, cwd=cwd)
    assert path in {one["path"]: one["why"] for one in shown["skipped"]}
    done = rewind(within, doer, cwd)
    assert done["files"]["write"] == ["own.txt"]
    (told,) = [one["message"] for one in done["warnings"] if one["code"] == "other_tree"]
    assert path in told and str(place) in told
    assert (place / "x.txt").read_text() == "two\n"
    again = within.json("rewind", "--undo", "--files", "--session", doer.session, cwd=cwd)
    assert again["warnings"] == []


def test_a_shell_elsewhere_is_no_reason_to_doubt(within: Within, here: Path, there: Path) -> None:
    """Trees that do not meet: what changed while both sessions' shells ran is the tree's own session's."""
    a, b = within.agent("pi", here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        opened(watcher, a, b)
        a.shell("make", lambda: b.shell("make", lambda: (there / "x.txt").write_text("two\n")))
        settled(watcher, a, b)

    assert files_of(within, b, "2", there) == {"x.txt": "session"}
    assert rewind(within, b, there)["files"]["write"] == ["x.txt"]


def test_a_session_that_nobody_watched_worked_in_its_folder(within: Within, here: Path) -> None:
    """Its log is imported afterwards: what changed in its shell's window as well as in another's is not that
    one's alone."""
    a, b = within.agent("pi", here), within.agent("pi", here)
    with within.watching() as watcher:
        start(watcher, a)
        opened(watcher, a)
        b.give("work")
        a.shell("make", lambda: b.shell("make", lambda: (here / "x.txt").write_text("two\n")))
        settled(watcher, a)
    assert files_of(within, a, "2", here) == {"x.txt": "session"}
    b.done()
    within.run("import", str(b.log), cwd=here)

    assert files_of(within, a, "2", here) == {"x.txt": "shared"}
    assert rewind(within, a, here, check=4)["status"] == "refused"


def test_running_sessions_of_other_trees_are_seen(within: Within, here: Path, there: Path) -> None:
    """A rewind that would write a file which another tree's running session has touched is refused."""
    a, b = within.agent("pi", here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "edit", lambda one: one.write(str(there / "x.txt"), "two\n"))
        time.sleep(APART)
        watcher.prompt(a, "edit", lambda one: one.write(str(there / "x.txt"), "three\n"))
        opened(watcher, b)
        b.call("bash", {"command": "make"})
        watcher.look(b)
        answer = within.run("rewind", "3", "--files", "--session", a.session, "--json", cwd=here, check=None)

    assert answer.code == 4 and answer.json["error"]["code"] == "other_session_running"
    assert (there / "x.txt").read_text() == "three\n"


def test_only_what_concerns_a_tree_is_read(within: Within, here: Path, there: Path) -> None:
    """A tree's history has no run and no window of sessions that never came near it."""
    a, b = within.agent("pi", here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, a, b)
        watcher.prompt(a, "edit", lambda one: one.write("x.txt", "two\n"))
        watcher.prompt(b, "edit", lambda one: one.write("x.txt", "two\n"))
        connection = watcher.recording.views.connection
        tree = connection.execute("SELECT tree FROM trees WHERE path = ?", (str(here).encode(),)).fetchone()
        history = tree_history(connection, tree["tree"])
        mine = set(changes.sessions_of(connection, tree["tree"]))

    assert {run.session for run in history.runs} == {window.session for window in history.windows} == mine
    assert history.sightings == () and history.elsewhere == ()


def test_a_neighbour_counts_while_something_changed(within: Within, here: Path) -> None:
    """A session of a nested tree that ran when something changed in the outer one is in its history."""
    sub = nested(within, here, linked=False)
    a, b, c = within.agent("pi", here), within.agent("pi", sub), within.agent("pi", sub)
    with within.watching() as watcher:
        start(watcher, b, c, a)
        watcher.prompt(b, "work", lambda one: one.shell("make", lambda: time.sleep(APART)))
        time.sleep(5 * APART)
        opened(watcher, a, c)
        c.shell("make", lambda: a.write("x.txt", "two\n"))
        settled(watcher, a, c)
        connection = watcher.recording.views.connection
        tree = connection.execute("SELECT tree FROM trees WHERE path = ?", (str(here).encode(),)).fetchone()
        history = tree_history(connection, tree["tree"])
        names = {row["stream"]: row["session"] for row in connection.execute("SELECT * FROM sessions")}

    near = 2 * SLACK
    changing = [(one.since - near, one.until + near) for one in history.transitions]
    sessions = {names[run.session] for run in history.runs}
    at_work = {
        names[run.session]
        for run in history.runs
        for since, until in changing
        if run.began_at <= until and since <= (run.ended_at or run.last_sign_at)
    }
    assert {a.session, c.session} <= at_work <= sessions


@KINDS
def test_a_session_that_nobody_watched_still_named_the_file(
    kind: str, within: Within, here: Path, there: Path
) -> None:
    """It works elsewhere and was never captured: its imported log alone says that the write was its own."""
    a, b = within.agent(kind, here), within.agent("pi", there)
    with within.watching() as watcher:
        start(watcher, b)
        opened(watcher, b)
        a.give("work")
        b.shell("make", lambda: a.write(str(there / "x.txt"), "two\n"))
        a.done()
        settled(watcher, b)
    assert files_of(within, b, "2", there) == {"x.txt": "session"}
    within.run("import", str(a.log), cwd=here)

    assert ("x.txt", "session", a.session) in owners(within, there)
    assert rewind(within, b, there)["status"] == "noop"
    assert (there / "x.txt").read_text() == "two\n"
