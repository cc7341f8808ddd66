"""Plans that merge: the session's changes go, what others changed stays, and all else is a conflict."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.events import FileStep
from recorder.planning.applied import applied
from recorder.planning.plan import Disk, Options, Plan, plan_inverse, plan_revert, same
from recorder.planning.routes import Route, Turn, Wanted, follow
from recorder.planning.threeway import Unmerged, three_way
from recorder.states import ABSENT, PathState
from tests.plan.test_plan import change, disk, operation, rewind, steps
from tests.plan.world import DIR, TEXTS, Checkpoint, World, file, merge_texts

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

LINK, LINK2, LINK3 = (PathState("link", 0, file(target).oid) for target in ("one", "two", "three"))


def lines(*values: object, mode: int = 0o644) -> PathState:
    """A file with one value a line."""
    return file("\n".join(map(str, values)), mode)


def other(position: int, before: PathState, after: PathState, **more: object):
    return change(position, before, after, by="other", evidence="between", **more)  # type: ignore[arg-type]


# ---- one path, three states


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "merged"),
    [
        (lines(1, 1), lines(0, 1), lines(1, 2), lines(0, 2)),
        (lines(1, 1), lines(0, 1), lines(1, 1, mode=0o600), lines(0, 1, mode=0o600)),
        (lines(1, 1, mode=0o755), lines(1, 1), lines(1, 2, mode=0o755), lines(1, 2)),
        (lines(1, 1, mode=0o755), lines(1, 1), lines(1, 1, mode=0o700), lines(1, 1, mode=0o600)),
        (lines(1, 1, mode=0o755), lines(0, 1), lines(1, 2, mode=0o4711), lines(0, 2, mode=0o4600)),
        (lines(1, 1, mode=0o755), lines(1, 2), lines(1, 2, mode=0o700), lines(1, 2, mode=0o600)),
        (DIR, PathState("dir", 0o700), PathState("dir", 0o2755), PathState("dir", 0o2700)),
        (lines(1), lines(1), ABSENT, ABSENT),
        (lines(1), lines(1), lines(2), lines(2)),
        (lines(1), ABSENT, ABSENT, ABSENT),
    ],
)  # fmt: skip
def test_what_changed_on_one_side_only_wins(
    base: PathState, theirs: PathState, ours: PathState, merged: PathState
) -> None:
    """Content and each bit of the mode for themselves; and either side may be the one."""
    assert three_way(b"f", base, theirs, ours, merge_texts) == merged
    assert three_way(b"f", base, ours, theirs, merge_texts) == merged


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "why"),
    [
        (lines(1), lines(2), lines(3), "a line was changed on both sides"),
        (lines(1), ABSENT, lines(2), "changed again since"),
        (lines(1), ABSENT, lines(1, mode=0o600), "changed again since"),
        (lines(1), lines(2), ABSENT, "removed since"),
        (ABSENT, lines(1), lines(2), "made anew since"),
        (lines(1), lines(2), LINK, "a link since"),
        (lines(1), lines(2), DIR, "a folder since"),
        (LINK, LINK2, LINK3, "the link was changed"),
        (LINK, lines(1), LINK2, "changed again since"),
        (DIR, ABSENT, PathState("dir", 0o700), "changed again since"),
    ],
)
def test_what_cannot_be_merged(base: PathState, theirs: PathState, ours: PathState, why: str) -> None:
    """Each with its reason. Nobody is asked for the contents of anything but three files."""

    def merge(path: bytes, *oids: str) -> str | Unmerged:
        assert base.kind == theirs.kind == ours.kind == "file"
        return merge_texts(path, *oids)

    merged = three_way(b"f", base, theirs, ours, merge)
    assert isinstance(merged, Unmerged) and why in merged.why


# ---- one path, its whole way


V0, V1, V2 = lines(0, 0, 0), lines(1, 0, 0), lines(1, 2, 0)
BY_HAND = lines(1, 2, "hand")


@pytest.mark.parametrize(
    ("story", "now", "goal"),
    [
        ([change(10, V0, V1)], lines(1, 0, "hand"), lines(0, 0, "hand")),
        ([change(10, V0, V1), change(20, V1, V2)], BY_HAND, lines(0, 0, "hand")),
        ([change(10, V0, V1), other(20, V1, lines(1, "hand", 0)), change(30, lines(1, "hand", 0),
          lines(1, "hand", 3))], lines(1, "hand", 3), lines(0, "hand", 0)),
        ([change(10, V0, V1), change(20, V1, V2, session="B")], V2, lines(0, 2, 0)),
        ([change(10, V0, lines(1, 1, 1)), change(20, lines(1, 1, 1), V0)], lines("hand", 0, 0), None),
        ([change(10, V0, file("x\n" * 9)), change(20, file("x\n" * 9), V0)], lines("hand", 0, 0), None),
        ([change(10, V0, ABSENT), change(20, ABSENT, V1)], lines(1, 0, "hand"), lines(0, 0, "hand")),
        ([change(10, V0, V1), change(20, V1, V0)], ABSENT, None),
        ([change(10, V0, lines("a", 0, 0)), change(20, lines("a", 0, 0), lines("b", 0, 0))],
         lines("a", "hand", 0), lines(0, "hand", 0)),
    ],
)  # fmt: skip
def test_a_whole_way_is_merged(story: list, now: PathState, goal: PathState | None) -> None:
    """Turn by turn, with whomever's changes in between; what the session did and undid itself, at whatever
    length, is in nobody's way; and a person may have taken back a part of it by hand."""
    plan = rewind(story, disk(f=now))

    assert not plan.refused
    assert steps(plan) == ([(b"f", goal)] if goal else [])
    assert plan.merge == ((b"f",) if goal else ())
    assert plan.write == plan.delete == ()
    assert set(plan.takes_back) == {c.id for c in story if c.by == "session" and c.session == "A"}


@pytest.mark.parametrize(
    ("story", "now"),
    [
        ([change(10, V0, V1)], lines("hand", 0, 0)),
        ([change(10, ABSENT, V1)], lines(1, "hand", 0)),
        ([change(10, ABSENT, V1), change(20, V1, V2)], BY_HAND),
        ([change(10, ABSENT, V1), change(20, V1, lines(2, 2, 0))], lines(1, 2, 0)),
        ([change(10, V0, ABSENT)], lines("anew", 0, 0)),
        ([change(10, V0, V1, by="shared")], lines(1, 0, "hand")),
        ([change(10, V0, V1, unknown_from=4)], lines(1, 0, "hand")),
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_nothing_is_done_where_that_is_not_clean(story: list, now: PathState, skip: bool) -> None:
    """The same lines; a file of the session's own that a person changed, were it only by taking some of it
    back; one that the session removed and a person made anew; what is shared or was out of sight."""
    plan = rewind(story, disk(f=now), on_conflict="skip" if skip else "merge")

    assert [conflict.path for conflict in plan.conflict] == [b"f"]
    assert (plan.empty, plan.refused, plan.takes_back) == (True, not skip, ())


@pytest.mark.parametrize("choice", ["refuse", "skip", "overwrite"])
def test_only_a_merge_merges(choice: str) -> None:
    """However easy it were."""
    now = disk(f=lines(1, 0, "hand"), g=lines(1, 0, 0, mode=0o600))

    plan = rewind([change(10, V0, V1), change(10, V0, V1, path=b"g")], now, on_conflict=choice)

    assert plan.merge == ()
    assert steps(plan) == ([(b"f", V0), (b"g", V0)] if choice == "overwrite" else [])


@pytest.mark.parametrize(
    ("story", "options", "why"),
    [
        ([change(10, ABSENT, V1)], {"new_files": "keep"}, "new files are kept"),
        ([change(10, ABSENT, V1, evidence="open")], {}, "not sure"),
        ([change(10, ABSENT, V1), other(20, V1, ABSENT), other(30, ABSENT, BY_HAND)], {}, "made it again"),
    ],
)
def test_a_file_that_would_stay_anyway_is_no_conflict(story: list, options: dict, why: str) -> None:
    """What may not be removed is kept as it stands, whatever a person made of it, and refuses nothing."""
    plan = rewind([*story, change(10, V0, V1, path=b"g")], disk(f=BY_HAND, g=V1), **options)

    assert [(note.path, why in note.why) for note in plan.keep] == [(b"f", True)]
    assert (plan.conflict, steps(plan)) == ((), [(b"g", V0)])


def test_what_was_merged_with_what_is_told_apart() -> None:
    """A merged path is in its own list; the order of steps is the usual one."""
    story = [change(10, V0, V1, path=path) for path in (b"a", b"b", b"c")] + [
        change(10, ABSENT, V1, path=b"d")
    ]

    plan = rewind(story, disk(a=V1, b=lines(1, 0, "hand"), c=V1, d=V1))

    assert (plan.write, plan.merge, plan.delete) == ((b"a", b"c"), (b"b",), (b"d",))
    assert [step.path for step in plan.steps] == [b"a", b"b", b"c", b"d"]


def test_what_was_approved_is_the_merge_too() -> None:
    """Another edit before the merge makes it another plan; one that only differs in a merge's result too."""
    story = [change(10, V0, V1)]
    plan = rewind(story, disk(f=lines(1, 0, "hand")))

    assert same(plan, rewind(story, disk(f=lines(1, 0, "hand")))) == []
    assert same(plan, rewind(story, disk(f=lines(1, 0, "later")))) == [b"f"]
    assert same(plan, rewind(story, disk(f=lines(1, 0, "hand")), on_conflict="overwrite")) == [b"f"]


@pytest.mark.parametrize("choice", ["merge", "refuse", "skip", "overwrite"])
def test_a_content_that_is_lost_costs_its_own_path_alone(choice: str) -> None:
    """What is no longer stored is found when planning; the other paths can still be had. What stands there
    already needs no stored content."""
    story = [
        change(10, V0, V1),
        change(10, V2, V1, path=b"g"),
        change(10, V0, lines(0, 0, 0, mode=0o600), path=b"m"),
    ]
    now = disk(f=V1, g=V1, m=lines(0, 0, 0, mode=0o600))
    poor = Disk(now.state, now.children, now.merge_texts, lambda oid: "it is lost" if oid == V0.oid else "")

    plan = rewind(story, poor, on_conflict=choice)

    assert [(conflict.path, conflict.why) for conflict in plan.conflict] == [(b"f", "it is lost")]
    assert steps(plan) == [(b"g", V2), (b"m", V0)]
    assert plan.refused == (choice != "skip")
    assert plan.takes_back == ("k10:m", "k10:g")


def test_a_merge_that_finds_a_lost_content_is_a_conflict() -> None:
    """With the merger's own reason."""
    outcome = follow(
        Route(b"f", (Turn(V1, V0),)), lines(1, 0, 9), lambda *_: Unmerged("it is lost")
    )  # fmt: skip

    assert not isinstance(outcome, Wanted) and outcome.why == "it is lost"


def test_a_revert_merges_what_later_runs_changed() -> None:
    """Its main use: one prompt goes, the later ones stay, of the same session or not."""
    story = [
        change(10, V0, V1, run="p"),
        change(20, V1, V2, run="q"),
        change(30, V2, lines(1, 2, 3), session="B"),
    ]

    plan = plan_revert(story, [], disk(f=lines(1, 2, 3)), session="A", run="p")

    assert steps(plan) == [(b"f", lines(0, 2, 3))]
    assert (plan.merge, plan.takes_back) == ((b"f",), ("k10:f",))


def test_the_inverse_merges_what_came_since() -> None:
    """A person's edit between a rewind and its undo stays, and so it does in the redo of it."""
    merged = lines(0, 0, "hand")
    done = operation(20, FileStep(b"f", lines(1, 0, "hand"), merged), takes=("k10:f",))

    def inverse(now: PathState, **options: str) -> Plan:
        return plan_inverse(done, [change(10, V0, V1)], disk(f=now), options=Options(**options))

    assert steps(inverse(merged)) == [(b"f", lines(1, 0, "hand"))]
    assert inverse(merged).merge == ()
    again = inverse(lines(0, "again", "hand"))
    assert (steps(again), again.merge) == ([(b"f", lines(1, "again", "hand"))], (b"f",))
    assert again.puts_on == ("k10:f",)
    assert inverse(lines("again", 0, "hand")).refused
    assert inverse(lines(0, "again", "hand"), on_conflict="refuse").refused


# ---- whatever happens


SLOTS = 6
"""Lines of a file: session A's, session B's and a person's by turns."""
ACT = st.one_of(
    st.tuples(st.sampled_from("ABP"), st.integers(0, 1), st.integers(1, 9)),
    st.tuples(st.sampled_from(["rewind", "undo"]), st.integers(0, 30), st.none()),
)


class Shared:
    """One file of three authors. `values` is what must stand in it, by the model's own account."""

    def __init__(self) -> None:
        self.world = World()
        self.values: dict[str, list[int]] = {who: [0, 0] for who in "ABP"}
        self.points: list[tuple[Checkpoint, list[int]]] = []
        self.undoable: list[int] | None = None
        self.world.write(b"f", self.text())
        self.world.capture()

    def text(self) -> str:
        return "\n".join(str(value) for pair in zip(*self.values.values(), strict=True) for value in pair)

    def edit(self, who: str, slot: int, value: int) -> None:
        before = list(self.values[who])
        self.values[who][slot] = value
        if who == "P":
            self.world.person(lambda: self.world.write(b"f", self.text()))
            return
        point = self.world.edits(who, b"f", self.text())
        if who == "A":
            self.points.append((point, before))
            self.undoable = None

    def rewind(self, number: int) -> Plan:
        to, values = self.points[number % len(self.points)]
        plan = self.world.rewind("A", to)
        self.undoable, self.values["A"] = self.values["A"], list(values)
        return plan

    def undo(self) -> Plan:
        """The inverse of the newest rewind; then that of the inverse."""
        assert self.undoable is not None
        plan = self.world.take_back(self.world.operations[-1])
        self.undoable, self.values["A"] = self.values["A"], self.undoable
        return plan


@QUICK
@given(st.lists(ACT, min_size=2, max_size=12))
def test_everybody_keeps_their_lines(acts: list) -> None:
    """Among three authors of one file, each with lines of their own, in any order: a rewind of A, its undo
    and the undo of that move A's lines alone, and exactly where they belong; nothing is ever refused."""
    shared = Shared()
    for what, number, value in acts:
        plan = None
        if what in "ABP":
            shared.edit(what, number, value)
        elif what == "rewind" and shared.points:
            plan = shared.rewind(number)
        elif what == "undo" and shared.undoable is not None:
            plan = shared.undo()
        assert plan is None or not plan.refused
        assert TEXTS[shared.world.disk[b"f"].oid] == shared.text()


@QUICK
@given(st.lists(ACT, min_size=2, max_size=12))
def test_what_a_merge_took_back_is_taken_back(acts: list) -> None:
    """The changes that stand as applied after a merged rewind are those of the checkpoint."""
    shared = Shared()
    for what, number, value in acts:
        if what in "ABP":
            shared.edit(what, number, value)
        elif what == "rewind" and shared.points:
            to = shared.points[number % len(shared.points)][0]
            stood = applied(
                shared.world.changes(), shared.world.operations, session="A", upto=to.target.position
            )
            if not shared.rewind(number).empty:
                assert applied(shared.world.changes(), shared.world.operations, session="A") == stood
