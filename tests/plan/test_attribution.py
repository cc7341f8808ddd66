"""Whose a change is: one table for each rule."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from recorder.events import Body, FileStep, NamedFile
from recorder.history import Change, Operation, Run, Transition, TreeHistory, Window
from recorder.planning.attribution import attribute, unseen_writes
from recorder.states import ABSENT, SKIPPED, UNKNOWN, PathState
from tests.plan.world import DIR, SECOND, World, file, oid, relative_to

V0, V1, V2 = file("0"), file("1"), file("2")
MS = 1_000_000


def changed(
    before: PathState = V0,
    after: PathState = V1,
    *,
    at: float = 50,
    path: bytes = b"f",
    number: int = 1,
    by_git: bool = False,
    since: float = 0,
    until: float = 100,
) -> Transition:
    return Transition(
        id=f"k{number}:{path.decode()}",
        position=number * 10,
        path=path,
        before=before,
        after=after,
        changed_at=int(at * SECOND),
        by_git=by_git,
        since=int(since * SECOND),
        until=int(until * SECOND),
    )


def ran(
    session: str = "A", began: float = 1, ended: float | None = 99, sign: float = 99, run: str = "p"
) -> Run:
    end = None if ended is None else int(ended * SECOND)
    return Run(session, run, 1, int(began * SECOND), end, int(sign * SECOND))


def called(
    began: float,
    ended: float | None,
    *files: NamedFile,
    session: str = "A",
    run: str = "p",
    writes: str = "any",
    background: bool = False,
    failed: bool = False,
) -> Window:
    end = None if ended is None else int(ended * SECOND)
    began_at, call = int(began * SECOND), f"call at {began}"
    return Window(session, run, call, "tool", writes, began_at, end, background, files, failed)


def wrote(began: float, ended: float | None, *files: NamedFile, **more: object) -> Window:
    return called(began, ended, *files, writes="named", **more)  # type: ignore[arg-type]


def named(
    path: bytes = b"f", *, before: str | None = None, after: str | None = None, part: str | None = None
) -> NamedFile:
    return NamedFile(b"/w/" + path, before, after, None, Body(part, len(part)) if part else None)


def changes(
    transitions: Sequence[Transition],
    runs: Sequence[Run] = (ran(),),
    windows: Sequence[Window] = (),
    operations: Sequence[Operation] = (),
    windowless: frozenset[str] = frozenset(),
) -> list[Change]:
    """A fragment fits content `0`, `1` or `2` when its digest says that number."""
    return attribute(
        TreeHistory(tuple(transitions), tuple(runs), tuple(windows), tuple(operations)),
        locate=relative_to(b"/w"),
        contains=lambda blob, text: blob == oid(text.digest),
        windowless=windowless,
    )


def owner(transition: Transition, *windows: Window, runs: Sequence[Run] = (ran(),)) -> tuple[str, str, str]:
    """Whose, by what evidence, and of which sessions."""
    (change,) = changes([transition], runs, windows)
    return change.by, change.evidence, "".join(sorted(change.sessions))


BOTH = (ran("A"), ran("B"))


@pytest.mark.parametrize(
    ("transition", "windows", "expected"),
    [
        (changed(), [called(40, 60)], ("session", "window", "A")),
        (changed(at=60.04), [called(40, 60)], ("session", "window", "A")),
        (changed(at=39.96), [called(40, 60)], ("session", "window", "A")),
        (changed(at=39.96, until=39.97), [called(40, 60)], ("other", "loose", "A")),
        (changed(at=60.04, since=60.03), [called(40, 60)], ("other", "loose", "A")),
        (changed(at=60.06), [called(40, 60)], ("other", "loose", "A")),
        (changed(at=50), [called(40, 60, writes="none")], ("other", "loose", "A")),
        (changed(at=99.2), [called(40, 60)], ("other", "between", "")),
        (changed(by_git=True), [called(40, 60)], ("git", "git", "A")),
        (changed(at=0), [called(40, 60)], ("other", "loose", "A")),
    ],
)
def test_a_change_belongs_to_the_call_in_whose_window_it_lies(
    transition: Transition, windows: list[Window], expected: tuple
) -> None:
    """The change time decides, with 50 ms of slack, where no capture lies between call and change; between
    runs it is a person's; git's is git's."""
    assert owner(transition, *windows) == expected


@pytest.mark.parametrize(
    ("transition", "windows", "expected"),
    [
        (changed(), [wrote(40, 60, named(after=oid("1")))], ("session", "named", "A")),
        (changed(at=80), [wrote(40, 60, named(after=oid("1")))], ("session", "named", "A")),
        (changed(), [wrote(40, 60, named(b"g", after=oid("1")))], ("other", "loose", "A")),
        (changed(), [wrote(40, 60, named(part="1"))], ("session", "named", "A")),
        (changed(at=80), [wrote(40, 60, named(part="1"))], ("shared", "window", "A")),
        (changed(at=80), [wrote(40, 60, named(part="1")), called(70, 90)], ("session", "named", "A")),
        (changed(at=80), [wrote(40, 60, named(after=oid("2")))], ("shared", "window", "A")),
        (changed(at=50), [wrote(40, 60, named(after=oid("2")))], ("session", "window", "A")),
        (changed(at=80), [wrote(40, 60, named(after=oid("2"))), called(70, 90)], ("session", "window", "A")),
        (changed(at=80), [wrote(40, 60, named(after=oid("2")), failed=True)], ("other", "loose", "A")),
        (changed(at=20), [wrote(40, 60, named(after=oid("2")))], ("other", "loose", "A")),
        (changed(V0, file("0", 0o755), at=80), [wrote(40, 60, named(after=oid("0")))],
         ("other", "loose", "A")),
        (changed(at=80), [wrote(30, 40, named(after=oid("1"))), wrote(50, 60, named(after=oid("2")))],
         ("shared", "window", "A")),
        (changed(V0, ABSENT, at=50), [wrote(40, 45, named(after="absent"))], ("session", "named", "A")),
        (changed(V0, ABSENT, at=80), [wrote(40, 45, named(after=oid("1")))], ("shared", "window", "A")),
    ],
)  # fmt: skip
def test_a_call_that_names_the_path_owns_what_it_wrote(
    transition: Transition, windows: list[Window], expected: tuple
) -> None:
    """Whole content that fits holds at any later time; a part only where the session's own calls explain
    the time; what does not fit is shared with whoever came after; a failed call says nothing; neither
    does one that came later, nor one of the content where only the mode changed."""
    assert owner(transition, *windows) == expected


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([wrote(40, 60, named(before=oid("0"), after=oid("1")))], "session"),
        ([wrote(40, 60, named(before=oid("9"), after=oid("1")))], "shared"),
        ([called(20, 30), wrote(40, 60, named(before=oid("9"), after=oid("1")))], "session"),
        ([wrote(20, 30, named(before=oid("0"), after=oid("9"))),
          wrote(40, 60, named(before=oid("9"), after=oid("1")))], "session"),
    ],
)  # fmt: skip
def test_what_the_call_found_must_be_what_was_captured(windows: list[Window], expected: str) -> None:
    """Where the log has a file's content from before the call, and neither the capture before nor the
    session knows of it, somebody else changed the file in between."""
    assert owner(changed(), *windows)[0] == expected


@pytest.mark.parametrize(
    ("transition", "windows", "expected"),
    [
        (changed(), [called(40, 60), called(45, 55, session="B")], ("shared", "window", "AB")),
        (changed(), [wrote(40, 60, named(after=oid("1"))), called(45, 55, session="B")],
         ("session", "named", "A")),
        (changed(), [wrote(40, 60, named(after=oid("1"))), wrote(20, 30, named(after=oid("2")), session="B")],
         ("shared", "window", "AB")),
        (changed(at=70), [wrote(40, 60, named(part="1")), called(65, 75, session="B")],
         ("shared", "window", "AB")),
        (changed(V0, ABSENT, at=80), [called(40, 45), called(50, 55, session="B")],
         ("shared", "window", "AB")),
        (changed(), [called(40, 60, session="B")], ("session", "window", "B")),
    ],
)  # fmt: skip
def test_two_sessions_at_once_share_a_change(
    transition: Transition, windows: list[Window], expected: tuple
) -> None:
    """Named by both, or in the windows of both: shared. Whole content that one of them wrote is its own."""
    assert owner(transition, *windows, runs=BOTH) == expected


@pytest.mark.parametrize(
    ("at", "windows", "expected"),
    [
        (80, [called(40, 45)], ("session", "window", "A")),
        (80, [called(85, 90)], ("other", "loose", "A")),
        (80, [wrote(40, 45, named(b"g"))], ("other", "loose", "A")),
        (0, [called(40, 45)], ("session", "window", "A")),
        (99.5, [], ("other", "between", "")),
    ],
)
def test_the_time_of_a_deletion_is_an_upper_bound(at: float, windows: list[Window], expected: tuple) -> None:
    """A folder's time says when something last left it: any call before may have removed this path."""
    assert owner(changed(V0, ABSENT, at=at), *windows) == expected


def test_a_folder_belongs_to_the_call_that_wrote_into_it() -> None:
    """A named write makes its folders; a later file in them moves the folder's time, not its maker."""
    made = changed(ABSENT, DIR, path=b"d", at=80)

    assert owner(made, wrote(40, 60, named(b"d/e/f"))) == ("session", "window", "A")
    assert owner(made, wrote(40, 60, named(b"dd/f"))) == ("other", "loose", "A")


@pytest.mark.parametrize("written", [50, 299.98, 299.999])
def test_what_came_with_a_moved_folder_came_when_that_was_moved(written: float) -> None:
    """Files keep their times when a folder above them is moved: the folder's time counts, also where a file
    was written just before the capture that still had it in the old place."""
    moved = [
        changed(ABSENT, DIR, path=b"d", at=350, number=2, since=300, until=400),
        changed(ABSENT, V1, path=b"d/f", at=written, number=2, since=300, until=400),
    ]

    _, inside = changes(moved, [ran(), ran("B", 301, 399)], [called(40, 60), called(340, 360, session="B")])

    assert (inside.by, inside.session) == ("session", "B")


OPEN = ran(ended=None, sign=60)


@pytest.mark.parametrize(
    ("at", "runs", "windows", "expected"),
    [
        (70, [OPEN], [called(40, None)], ("session", "open", "A")),
        (659, [OPEN], [called(40, None)], ("session", "open", "A")),
        (661, [OPEN], [called(40, None)], ("other", "between", "")),
        (70, [OPEN, ran(began=65, run="q")], [called(40, None)], ("other", "loose", "A")),
        (70, [OPEN, ran("B")], [called(40, None), called(65, 75, session="B")], ("session", "window", "B")),
        (70, [OPEN], [wrote(40, None, named(after=oid("1")))], ("session", "named", "A")),
        (70, [OPEN], [wrote(40, None, named(after=oid("2")))], ("other", "between", "")),
        (55, [OPEN], [called(40, None)], ("session", "open", "A")),
        (55, [ran(ended=60)], [called(40, None)], ("session", "window", "A")),
        (70, [ran(ended=60)], [called(40, None)], ("other", "between", "")),
        (70, [OPEN], [called(40, 50)], ("other", "between", "")),
    ],
)
def test_a_call_that_never_returned(
    at: float, runs: list[Run], windows: list[Window], expected: tuple
) -> None:
    """In a run without an end it is open until the session's next run and for ten minutes at most, gives
    way to better evidence, and has not written what does not stand there; a run's end ends its calls."""
    assert owner(changed(at=at, until=700), *windows, runs=runs) == expected


@pytest.mark.parametrize(
    ("at", "ended", "expected"),
    [
        (50, None, ("session", "window", "A")),
        (150, None, ("other", "between", "")),
        (250, None, ("session", "open", "A")),
        (250, 220, ("other", "loose", "A")),
    ],
)
def test_a_call_in_the_background(at: float, ended: float | None, expected: tuple) -> None:
    """It is a window in its own run, open evidence in later ones, and nothing between runs."""
    runs = [ran(), ran(began=200, ended=299, run="q")]

    assert owner(changed(at=at, until=300), called(40, ended, background=True), runs=runs) == expected


def test_a_session_without_windows_owns_what_changed_during_its_runs() -> None:
    """Only where the caller says that the agent gives none, and none is there."""
    told = {"windowless": frozenset("A")}

    assert [c.evidence for c in changes([changed()], **told)] == ["run"]
    assert [c.evidence for c in changes([changed()])] == ["loose"]
    assert [c.evidence for c in changes([changed()], windows=[called(70, 80)], **told)] == ["loose"]
    assert [c.evidence for c in changes([changed(at=99.5)], **told)] == ["between"]


@pytest.mark.parametrize("hidden", [UNKNOWN, SKIPPED])
def test_a_change_exists_only_between_known_states(hidden: PathState) -> None:
    """Out of sight and back is one change from the last known state; what was never known before is no
    creation, what is not known again no deletion."""
    out, back = changed(V0, hidden, number=1), changed(hidden, V1, number=2)

    assert changes([changed(hidden, V1)]) == []
    assert changes([changed(hidden, ABSENT)]) == []
    assert changes([out]) == []
    assert changes([out, changed(hidden, V0, number=2)]) == []
    (change,) = changes([out, back], windows=[called(40, 60)])
    assert (change.before, change.after, change.position) == (V0, V1, 20)
    assert (change.by, change.unknown_from) == ("session", 10)


def test_a_change_out_of_sight_among_two_sessions_is_nobodys() -> None:
    """Nobody saw which of them made it, however early the other one's run was over."""
    story = [changed(V0, UNKNOWN, number=1), changed(UNKNOWN, V1, number=2, at=150, since=100, until=200)]

    (change,) = changes(story, [ran("B", 1, 50), ran("A", 101, 199)], [called(140, 160)])

    assert (change.by, change.evidence, change.unknown_from) == ("other", "loose", 10)


def rewound(*steps: FileStep, position: int = 5, left: tuple[bytes, ...] = ()) -> Operation:
    return Operation(
        f"o{position}",
        position,
        "rewind",
        "A",
        None,
        "k",
        steps,
        (),
        (),
        None,
        None,
        None,
        None,
        None,
        0,
        left,
    )


@pytest.mark.parametrize(
    ("transition", "operations", "expected"),
    [
        (changed(V1, V0), [rewound(FileStep(b"f", V1, V0))], ["rewind"]),
        (changed(V1, V2), [rewound(FileStep(b"f", V1, V0))], ["rewind", "session"]),
        (changed(V1, V2), [rewound(FileStep(b"f", V1, V0)), rewound(FileStep(b"f", V0, V2), position=6)],
         ["rewind", "rewind"]),
        (changed(V1, V0), [rewound(FileStep(b"f", V1, V0), position=11)], ["session"]),
        (changed(V1, V0), [rewound(FileStep(b"g", V1, V0))], ["session"]),
        (changed(V1, V0), [rewound(FileStep(b"f", V2, V0))], ["session"]),
        (changed(V1, V0), [rewound(FileStep(b"f", V1, V0), left=(b"f",))], ["session"]),
    ],
)  # fmt: skip
def test_what_a_rewind_wrote_is_the_rewinds(
    transition: Transition, operations: list[Operation], expected: list[str]
) -> None:
    """Only what came on top is looked at further, and it keeps the transition's id."""
    found = changes([transition], windows=[called(40, 60)], operations=operations)

    assert [change.by for change in found] == expected
    assert [change.id for change in found if change.by == "session"] in ([], [transition.id])
    assert found[0].before == transition.before
    assert found[-1].after == transition.after


def test_a_rewind_explains_only_the_first_change_after_it() -> None:
    """The same change of the same path later on is somebody's own."""
    story = [changed(V1, V0, number=1), changed(V0, V1, number=2), changed(V1, V0, number=3)]

    found = changes(story, operations=[rewound(FileStep(b"f", V1, V0))])

    assert [change.by for change in found] == ["rewind", "other", "other"]


def test_many_windows_and_a_long_one_are_all_found() -> None:
    """A call that lasts beyond many later ones still covers."""
    windows = [called(2, 90), *(called(3 + n / 100, 3.004 + n / 100) for n in range(500))]

    assert owner(changed(at=50), *windows) == ("session", "window", "A")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (changed(UNKNOWN, V1, at=50), [(b"f", True)]),
        (changed(UNKNOWN, V1, at=20), []),
        (changed(UNKNOWN, V1, at=39.98), [(b"f", True)]),
        (changed(UNKNOWN, V1, at=39.98, until=39.99), []),
        (changed(UNKNOWN, UNKNOWN, at=20, until=30), [(b"f", True)]),
        (changed(UNKNOWN, ABSENT), []),
        (changed(V0, UNKNOWN), []),
        (changed(V0, V1), []),
        (changed(path=b"g"), [(b"f", False)]),
    ],
)
def test_named_writes_over_what_nobody_captured(first: Transition, expected: list) -> None:
    """A file first seen when it was written has no state to go back to; one first seen as it was before
    the call has."""
    history = TreeHistory(
        (first,), (ran(),), (wrote(40, 60, named()), wrote(40, 60, named(b"h"), failed=True)), ()
    )

    found = unseen_writes(history, [], locate=relative_to(b"/w"))

    assert [(write.path, write.captured) for write in found] == expected


def test_a_world_run_is_its_sessions() -> None:
    """Files and folders that a run makes, changes, moves and removes are all its own."""
    world = World()
    world.write(b"old/f", "1")
    world.write(b"gone/f", "1")

    def work() -> None:
        world.write(b"new/g", "2")
        world.write(b"old/f", "3")
        world.remove(b"gone")

    world.act("A", work)

    assert {c.path for c in world.changes() if c.by == "session"} == {
        b"new", b"new/g", b"old/f", b"gone", b"gone/f",
    }  # fmt: skip
