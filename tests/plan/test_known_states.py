"""What is known of a file besides its own work tree's captures: by other trees' captures and sessions, and by
the agents' logs. One table for each rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest

from recorder.events import Body, FileStep, NamedFile
from recorder.history import Change, Operation, Reach, Run, Transition, TreeHistory, Window
from recorder.planning.attribution import attribute, unseen_writes
from recorder.planning.plan import Disk, Target, plan_rewind
from recorder.states import ABSENT, SKIPPED, UNKNOWN, PathState
from tests.plan.test_attribution import (
    V0,
    V1,
    V2,
    called,
    changed,
    named,
    ran,
    rewound,
    wrote,
)
from tests.plan.world import DIR, SECOND, World, file, oid, relative_to

ROOT = b"/w"
V3 = file("3")


def history_of(
    transitions: Sequence[Transition],
    runs: Sequence[Run] = (),
    windows: Sequence[Window] = (),
    *,
    sightings: Sequence[Transition] = (),
    elsewhere: Sequence[Operation] = (),
    looks: Sequence[tuple[int, float]] = (),
) -> TreeHistory:
    return TreeHistory(
        tuple(transitions),
        tuple(runs),
        tuple(windows),
        (),
        root=ROOT,
        sightings=tuple(sightings),
        elsewhere=tuple(elsewhere),
        looks=tuple((position, int(at * SECOND)) for position, at in looks),
    )


def attributed(history: TreeHistory) -> list[Change]:
    return attribute(history, locate=relative_to(ROOT), contains=lambda blob, text: blob == oid(text.digest))


def standing(state: PathState) -> Disk:
    """A disk with this at every path."""
    return replace(World().now(), state=lambda _: state)


def reaching(one: Window, *places: bytes) -> Window:
    """The same call of a session of another work tree."""
    return msgspec.structs.replace(one, reach=frozenset(places))


# ---- sessions of other work trees


@pytest.mark.parametrize(
    ("path", "reach", "expected"),
    [
        (b"f", {b"/w"}, "shared"),
        (b"d/f", {b"/w"}, "shared"),
        (b"f", {b"/w/f"}, "shared"),
        (b"d/f", {b"/w/d"}, "shared"),
        (b"f", {b"/w/g"}, "session"),
        (b"f", {b"/v"}, "session"),
        (b"ff", {b"/w/f"}, "session"),
        (b"/v/f", {b"/v"}, "shared"),
        (b"/v/f", {b"/w"}, "session"),
    ],
)
def test_a_call_of_another_tree_counts_where_it_reaches(path: bytes, reach: Reach, expected: str) -> None:
    """At or below the places of its reach, of files in the work tree and of those outside."""
    windows = [called(40, 60), reaching(called(40, 60, session="B"), *reach)]

    (change,) = attributed(history_of([changed(path=path)], [ran("A"), ran("B")], windows))

    assert change.by == expected


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (reaching(called(40, 60, session="B"), b"/w"), ("session", "B", "window")),
        (reaching(wrote(40, 60, named(after=oid("1")), session="B")), ("session", "B", "named")),
        (reaching(called(40, 60, session="B"), b"/v"), ("other", None, "between")),
    ],
)
def test_alone_it_is_that_session_s(window: Window, expected: tuple[str, str | None, str]) -> None:
    """So it is nobody's here to take back; what it names counts wherever its session reaches."""
    run = msgspec.structs.replace(ran("B"), reach=window.reach)

    (change,) = attributed(history_of([changed()], [run], [window]))

    assert (change.by, change.session, change.evidence) == expected


def test_a_deletion_is_suspected_of_neighbours_only_at_its_time() -> None:
    """Its time is the latest that it can have: calls of the own sessions before that may have done it, those
    of another tree's only at that very time."""
    gone = changed(V0, ABSENT, at=80)
    own = called(78, 82)

    def by(window: Window) -> str:
        (change,) = attributed(history_of([gone], [ran("A"), ran("B")], [own, window]))
        return change.by

    assert by(called(40, 45, session="B")) == "shared"
    assert by(reaching(called(40, 45, session="B"), b"/w")) == "session"
    assert by(reaching(called(79, 81, session="B"), b"/w")) == "shared"


def test_out_of_sight_only_sessions_that_reach_the_file_are_suspected() -> None:
    """A change that nobody saw is nobody's where another session could have made it meanwhile."""
    story = [changed(V0, UNKNOWN, number=1), changed(UNKNOWN, V1, number=2)]

    def by(*reach: bytes) -> str:
        other = msgspec.structs.replace(ran("B"), reach=frozenset(reach))
        return attributed(history_of(story, [ran("A"), other], [called(40, 60)]))[0].by

    assert (by(b"/w"), by(b"/w/f"), by(b"/w/g")) == ("other", "other", "session")


def test_a_rewind_of_another_tree_wrote_it() -> None:
    """Its own write is the rewind's; only what came on top is looked at further."""
    history = history_of(
        [changed(V1, V2)], [ran()], [called(40, 60)], elsewhere=[rewound(FileStep(b"f", V1, V0))]
    )

    assert [(c.by, c.before, c.after) for c in attributed(history)] == [
        ("rewind", V1, V0),
        ("session", V0, V2),
    ]


# ---- captures of other work trees


def seen(before: PathState, after: PathState, at: float, number: int = 0, **more: object) -> Transition:
    """What another work tree's capture saw before this one's."""
    one = changed(before, after, at=at, since=0, until=at + 1, **more)  # type: ignore[arg-type]
    return msgspec.structs.replace(one, id=f"other{number}:0", position=number)


@pytest.mark.parametrize(
    ("sightings", "expected"),
    [
        ([], [(V0, V2, "B")]),
        ([seen(V0, V1, 20, 1)], [(V0, V1, "A"), (V1, V2, "B")]),
        ([seen(V0, V1, 20, 1), seen(V1, V2, 50, 2)], [(V0, V1, "A"), (V1, V2, "B")]),
        ([seen(V0, V2, 50, 1)], [(V0, V2, "B")]),
        ([seen(V1, V0, 20, 1)], [(V0, V2, "B")]),
        ([seen(V0, V1, 20, 11)], [(V0, V2, "B")]),
        ([seen(V0, UNKNOWN, 20, 1), seen(UNKNOWN, V1, 21, 2)], [(V0, V2, "B")]),
        ([seen(V0, V1, 20, 1), seen(V1, V3, 22, 2)], [(V0, V1, "A"), (V1, V3, None), (V3, V2, "B")]),
    ],
)  # fmt: skip
def test_a_change_is_as_fine_as_all_captures_saw_it(sightings: list[Transition], expected: list) -> None:
    """Steps that lead on from what is known here, seen before this capture; the last one keeps the id, so
    that what was taken back of it stays so."""
    windows = [called(19, 20.5), called(40, 60, session="B")]
    whole = changed(V0, V2)

    found = attributed(history_of([whole], [ran("A"), ran("B")], windows, sightings=sightings))

    assert [(c.before, c.after, c.session) for c in found] == expected
    assert found[-1].id == whole.id and len({c.id for c in found}) == len(found)


@pytest.mark.parametrize(
    ("twin", "expected"),
    [
        (seen(V0, V1, 50, 1, by_git=True), "git"),
        (seen(V0, V1, 50, 30, by_git=True), "git"),
        (seen(V0, V1, 50, 1), "session"),
        (seen(V0, V2, 50, 30, by_git=True), "session"),
        (seen(V0, V1, 500, 30, by_git=True), "session"),
    ],
)
def test_what_git_did_in_the_file_s_own_tree_git_did_here(twin: Transition, expected: str) -> None:
    """The very same change, whenever it was captured there; git wins over a window and over a name."""
    for window in (called(40, 60), wrote(40, 60, named(after=oid("1")))):
        (change,) = attributed(history_of([changed()], [ran()], [window], sightings=[twin]))
        assert change.by == expected


def test_git_wins_over_every_other_evidence() -> None:
    """Also where a session named the file and where two could have written it."""
    for windows in (
        [wrote(40, 60, named(after=oid("1")))],
        [called(40, 60), called(40, 60, session="B")],
        [wrote(40, 60, named(after=oid("2"))), wrote(40, 60, named(after=oid("1")), session="B")],
    ):
        (change,) = attributed(history_of([changed(by_git=True)], [ran("A"), ran("B")], windows))
        assert (change.by, change.session) == ("git", None)


# ---- the agent's log


def told(
    before: str | None, after: str | None = oid("1"), *, body: bool = True, path: bytes = b"f"
) -> NamedFile:
    """What the log says of a file from before and after a call."""
    content = Body("b", 1) if before not in (None, "absent") and body else None
    return NamedFile(ROOT + b"/" + path, before, after, content)


CREATED = told("absent")


@pytest.mark.parametrize(
    ("first", "windows", "before"),
    [
        (changed(SKIPPED, V1), [wrote(40, 60, CREATED)], ABSENT),
        (changed(UNKNOWN, V1), [wrote(40, 60, CREATED)], ABSENT),
        (changed(SKIPPED, V1), [wrote(40, 60, told(oid("0")))], V0),
        (changed(SKIPPED, file("1", 0o755)), [wrote(40, 60, told(oid("0")))], file("0", 0o755)),
        (changed(SKIPPED, V1, since=70, until=90, at=50), [wrote(40, 60, CREATED)], ABSENT),
        (changed(SKIPPED, V2, at=65), [wrote(40, 45, CREATED), wrote(60, 70, told(oid("1"), oid("2")))],
         ABSENT),
        (changed(SKIPPED, V1), [wrote(40, 60, told(None))], None),
        (changed(SKIPPED, V1), [wrote(40, 60, told(oid("0"), body=False))], None),
        (changed(SKIPPED, V2), [wrote(40, 60, CREATED)], None),
        (changed(SKIPPED, V2), [wrote(40, 45, CREATED), wrote(48, 60, named(part="2"))], None),
        (changed(SKIPPED, V1), [wrote(40, None, CREATED)], None),
        (changed(SKIPPED, V1), [wrote(40, 60, CREATED, failed=True)], None),
        (changed(SKIPPED, V1, at=30), [wrote(40, 60, CREATED)], None),
        (changed(SKIPPED, DIR), [wrote(40, 60, CREATED)], None),
        (changed(SKIPPED, V1), [called(40, 60)], None),
    ],
)  # fmt: skip
def test_the_log_proves_what_stood_there_before_a_call(
    first: Transition, windows: list[Window], before: PathState | None
) -> None:
    """Nothing, or a content that it has in full; only where the last call that names the file returned, and
    left what stands there byte for byte. Else the write stays unrecovered."""
    history = history_of([first], [ran(ended=None) if windows[0].ended_at is None else ran()], windows)

    found = attributed(history)

    assert [(c.before, c.session, c.evidence) for c in found] == (
        [] if before is None else [(before, "A", "named")]
    )
    unseen = unseen_writes(history, found, locate=relative_to(ROOT))
    assert (unseen == []) == (before is not None or first.changed_at < 40 * SECOND or not named_by(windows))


def named_by(windows: list[Window]) -> bool:
    return any(window.files and not window.failed for window in windows)


def test_two_sessions_that_named_it_share_what_only_the_log_knows() -> None:
    """Neither may remove the file as its own."""
    windows = [wrote(40, 45, CREATED), wrote(50, 60, told(None), session="B")]

    (change,) = attributed(history_of([changed(SKIPPED, V1)], [ran("A"), ran("B")], windows))

    assert (change.by, change.sessions) == ("shared", frozenset("AB"))


def test_an_earlier_write_that_nothing_is_known_of_stays_unrecovered() -> None:
    """The proof is of the call that has it and those after it."""
    windows = [wrote(20, 30, told(None)), wrote(40, 60, CREATED)]
    history = history_of([changed(SKIPPED, V1)], [ran()], windows)

    found = attributed(history)

    assert [c.before for c in found] == [ABSENT]
    assert [one.at for one in unseen_writes(history, found, locate=relative_to(ROOT))] == [20 * SECOND]


@pytest.mark.parametrize(
    ("target", "at", "expected"),
    [
        (5, 10, "delete"),
        (20, 46, "conflict"),
        (30, 75, "nothing"),
    ],
)
def test_a_file_that_was_first_captured_long_after_it_was_made(target: int, at: float, expected: str) -> None:
    """Made in the first run, changed in the second, captured in the third: taken back to before the first it
    goes, to before the second it is a conflict, to before the third it stays."""
    windows = [
        wrote(40, 45, CREATED, run="p"),
        wrote(60, 70, told(oid("1"), oid("2")), run="q"),
    ]
    runs = [ran(began=30, ended=47, run="p"), ran(began=50, ended=72, run="q")]
    first = changed(SKIPPED, V2, at=65, number=4, since=76, until=80)
    history = history_of([first], runs, windows, looks=[(5, 10), (20, 48), (30, 75), (40, 79)])
    found = attributed(history)

    plan = plan_rewind(
        found,
        [],
        standing(V2),
        session="A",
        target=Target(target, int(at * SECOND)),
        unseen=unseen_writes(history, found, locate=relative_to(ROOT)),
    )

    assert (plan.delete, bool(plan.conflict), plan.unrecovered) == (
        (b"f",) if expected == "delete" else (),
        expected == "conflict",
        (),
    )


# ---- overlapping runs


@pytest.mark.parametrize(
    ("began", "ended", "contested"),
    [(5, 50, True), (39, 99, True), (41, 99, False), (30.5, 39, True)],
)
def test_changes_of_one_file_in_overlapping_runs_are_contested(
    began: float, ended: float, contested: bool
) -> None:
    """Although each is one session's alone. Runs one after the other are not."""
    story = [changed(V0, V1, at=35, number=1), changed(V1, V2, at=45, number=2)]
    windows = [called(34, 36), called(44, 46, session="B")]
    if not began < 45 < ended:
        story, windows = story[:1], windows
        story.append(changed(V1, V2, at=38, number=2))
        windows[1] = called(37.5, 38.5, session="B")

    first, second = attributed(history_of(story, [ran("A", 30, 40), ran("B", began, ended)], windows))

    assert (first.session, second.session) == ("A", "B")
    assert (first.contested, second.contested) == (((second.id,), (first.id,)) if contested else ((), ()))


def test_a_contested_file_is_a_conflict_until_the_other_s_change_is_taken_back() -> None:
    """Whatever stands there, and whoever was first."""
    story = [changed(V0, V1, at=35, number=1), changed(V1, V2, at=45, number=2)]
    windows = [called(34, 36), called(44, 46, session="B")]
    found = attributed(history_of(story, [ran("A", 30, 50), ran("B", 31, 50)], windows))

    def plan(session: str, here: PathState, *operations: Operation) -> object:
        made = plan_rewind(
            found,
            operations,
            standing(here),
            session=session,
            target=Target(5, 0),
        )
        return made.conflict[0].why if made.refused else [step.after for step in made.steps]

    why = "two sessions changed it in overlapping runs"
    assert plan("A", V2) == plan("B", V2) == why
    undone = msgspec.structs.replace(rewound(position=30), session="B", takes_back=(found[1].id,))
    assert plan("A", V1, undone) == [V0]


def test_folders_of_two_sessions_are_not_contested() -> None:
    """Who made a folder and who removed it is no quarrel: it goes when it is empty."""
    story = [
        changed(ABSENT, DIR, at=35, number=1, path=b"d"),
        changed(DIR, ABSENT, at=45, number=2, path=b"d", since=40),
    ]
    windows = [called(34, 36), called(44, 46, session="B")]

    found = attributed(history_of(story, [ran("A", 30, 50), ran("B", 31, 50)], windows))

    assert [c.contested for c in found] == [(), ()]
