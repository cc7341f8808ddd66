"""What a rewind would do: the rules of the plan, and how other tools failed at them."""

from __future__ import annotations

import pytest

from recorder.events import FileStep, NamedFile
from recorder.history import Change, Operation, Unseen
from recorder.planning.applied import applied
from recorder.planning.plan import (
    Disk,
    Options,
    Plan,
    Target,
    moved,
    plan_inverse,
    plan_revert,
    plan_rewind,
    plan_tree,
    same,
)
from recorder.states import ABSENT, SKIPPED, UNKNOWN, GitPosition, PathState
from tests.plan.world import DIR, World, file, merge_texts, oid

V0, V1, V2, V3 = file("0"), file("1"), file("2"), file("3")
P0 = Target(5, 0)


def change(
    position: int,
    before: PathState,
    after: PathState,
    *,
    path: bytes = b"f",
    by: str = "session",
    evidence: str = "window",
    session: str = "A",
    run: str = "p",
    unknown_from: int | None = None,
) -> Change:
    owner = session if by == "session" else None
    sessions = [(session, run), ("B", "q")] if by == "shared" else [(session, run)] if session else []
    name = f"k{position}:{path.decode()}"
    why, runs = "because", tuple(sessions)
    return Change(
        name, position, path, before, after, by, owner, owner and run, evidence, why, runs, unknown_from
    )


def operation(
    position: int, *steps: FileStep, takes: tuple[str, ...] = (), puts: tuple[str, ...] = (), **more: object
) -> Operation:
    known = (f"o{position}", position, "rewind", "A", None, "k", steps, takes, puts)
    return Operation(*known, None, None, None, None, None, 0, **more)  # type: ignore[arg-type]


def disk(**states: PathState) -> Disk:
    """A disk by path, `__` for `/`."""
    there = {path.replace("__", "/").encode(): state for path, state in states.items()}
    present = [path for path, state in there.items() if state != ABSENT]
    return Disk(
        lambda path: there.get(path, ABSENT),
        lambda folder: [path for path in present if path.rpartition(b"/")[0] == folder],
        merge_texts,
        lambda _: "",
    )


def rewind(changes: list[Change], now: Disk, *, to: int = 5, **options: object) -> Plan:
    return plan_rewind(
        changes, (), now, session="A", target=Target(to, 0), options=Options(**options)  # type: ignore[arg-type]
    )  # fmt: skip


def steps(plan: Plan) -> list[tuple[bytes, PathState]]:
    return [(step.path, step.after) for step in plan.steps]


# ---- one path


@pytest.mark.parametrize(
    ("changes", "now", "goal"),
    [
        ([change(10, V0, V1)], V1, V0),
        ([change(10, V0, V1), change(20, V1, V2)], V2, V0),
        ([change(10, ABSENT, V1)], V1, ABSENT),
        ([change(10, V0, ABSENT)], ABSENT, V0),
        ([change(10, V0, file("0", 0o755))], file("0", 0o755), V0),
        ([change(5, V0, V1)], V1, None),
        ([change(10, V0, V1), change(20, V1, V2, by="other", evidence="between"), change(30, V2, V3)],
         V3, "conflict"),
        ([change(10, V1, V2, by="other", evidence="between"), change(20, V2, V3)], V3, V2),
        ([change(10, V0, V1), change(20, V1, V2, by="other", evidence="between")], V2, "conflict"),
        ([change(10, V0, V1)], file("1", 0o600), "conflict"),
        ([change(10, V0, V1)], V0, None),
        ([change(10, ABSENT, V1)], ABSENT, None),
        ([change(10, V0, V1), change(20, V1, V0)], V0, None),
        ([change(10, V0, V1, by="shared")], V1, "conflict"),
        ([change(10, V0, V1)], UNKNOWN, "conflict"),
        ([change(10, V0, V1)], SKIPPED, "conflict"),
        ([change(10, V0, V1, session="B")], V1, None),
        ([change(10, V0, V1, by="git", evidence="git")], V1, None),
        ([change(10, V0, V1, unknown_from=4)], V1, "conflict"),
        ([change(10, V0, V1, unknown_from=6)], V1, V0),
    ],
)  # fmt: skip
def test_one_path_goes_back(changes: list[Change], now: PathState, goal: PathState | str | None) -> None:
    """The content from before the first change that the session made since, where nobody else was there
    in between or after; else a conflict where nothing is to be merged, and the plan is refused."""
    plan = rewind(changes, disk(f=now), on_conflict="refuse")

    assert [state for _, state in steps(plan)] == ([goal] if isinstance(goal, PathState) else [])
    assert [conflict.path for conflict in plan.conflict] == ([b"f"] if goal == "conflict" else [])
    assert plan.refused == (goal == "conflict")


@pytest.mark.parametrize(
    ("changes", "now", "goal", "taken"),
    [
        ([change(10, V0, V1), change(20, V1, V2, by="other", evidence="between")], V2, V0, 1),
        ([change(10, ABSENT, V1), change(20, V1, V2, by="other", evidence="between")], V2, ABSENT, 1),
        ([change(10, V0, V1, by="shared")], V1, V0, 1),
        ([change(10, ABSENT, V1, by="shared")], V1, "kept", 0),
        ([change(10, ABSENT, V1), change(20, V1, ABSENT, by="other", evidence="between"),
          change(30, ABSENT, V2, by="other", evidence="between")], V2, "kept", 0),
        ([change(10, V0, V1)], UNKNOWN, "conflict", 0),
    ],
)  # fmt: skip
def test_overwriting_a_conflict(
    changes: list[Change], now: PathState, goal: PathState | str, taken: int
) -> None:
    """It restores the path whole, but removes no file that is not surely the session's, and writes over
    nothing that could not be captured."""
    plan = rewind(changes, disk(f=now), on_conflict="overwrite")

    assert [state for _, state in steps(plan)] == ([goal] if isinstance(goal, PathState) else [])
    assert [bool(plan.keep), bool(plan.conflict)] == [goal == "kept", goal == "conflict"]
    assert plan.refused == (goal == "conflict")
    assert len(plan.takes_back) == taken


def test_skipping_a_conflict_leaves_its_path_and_its_changes() -> None:
    """The rest is done; what was left does not count as taken back."""
    story = [change(10, V0, V1), change(10, V0, V1, path=b"g")]

    plan = rewind(story, disk(f=V2, g=V1), on_conflict="skip")

    assert (steps(plan), plan.refused) == ([(b"g", V0)], False)
    assert plan.takes_back == ("k10:g",)
    assert [conflict.path for conflict in plan.conflict] == [b"f"]


def test_a_refused_plan_still_shows_what_would_be_done() -> None:
    """For the dry run."""
    plan = rewind([change(10, V0, V1), change(10, V0, V1, path=b"g")], disk(f=V2, g=V1))

    assert (plan.refused, plan.write) == (True, (b"g",))


@pytest.mark.parametrize(
    ("changes", "options", "removed"),
    [
        ([change(10, ABSENT, V1)], {}, True),
        ([change(10, ABSENT, V1, evidence="named")], {}, True),
        ([change(10, ABSENT, V1, evidence="run")], {}, True),
        ([change(10, ABSENT, V1, evidence="open")], {}, False),
        ([change(10, ABSENT, V1)], {"new_files": "keep"}, False),
        ([change(10, ABSENT, V1), change(20, V1, ABSENT, by="other", evidence="between"),
          change(30, ABSENT, V1, by="other", evidence="between")], {}, False),
    ],
)  # fmt: skip
def test_what_may_be_removed(changes: list[Change], options: dict, removed: bool) -> None:
    """Only a file that the session surely made and nobody made again; what is kept is listed with the
    reason, and its changes stay applied."""
    plan = rewind(changes, disk(f=V1), **options)

    assert plan.delete == ((b"f",) if removed else ())
    assert [bool(note.why) for note in plan.keep] == ([] if removed else [True])
    assert bool(plan.takes_back) == removed
    assert not plan.refused


def test_open_evidence_brings_bytes_back() -> None:
    """A call that never returned may be taken back where that removes nothing."""
    plan = rewind(
        [change(10, V0, V1, evidence="open"), change(10, V0, ABSENT, path=b"g", evidence="open")], disk(f=V1)
    )

    assert steps(plan) == [(b"f", V0), (b"g", V0)]


def test_a_session_without_windows_is_warned_of() -> None:
    """A run that stands in for its windows is told of where it decides."""
    assert [w.code for w in rewind([change(10, V0, V1, evidence="run")], disk(f=V1)).warnings] == [
        "no_windows"
    ]
    assert rewind([change(10, V0, V1)], disk(f=V1)).warnings == ()


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ((b"d",), [b"d/f"]),
        ((b"d/",), [b"d/f"]),
        ((b"d/f", b"e"), [b"d/f", b"e"]),
        ((b"/outside/f",), [b"/outside/f"]),
        ((b".",), [b"/outside/f", b"d/f", b"dd", b"e"]),
        ((b"nothing",), []),
    ],
)
def test_only_the_named_paths(named: tuple[bytes, ...], expected: list[bytes]) -> None:
    """`--path` takes files and folders; the changes of others stay applied."""
    paths = [b"d/f", b"dd", b"e", b"/outside/f"]
    story = [change(10, V0, V1, path=path) for path in paths]
    now = Disk(
        lambda path: DIR if path in (b"d", b"/outside") else V1, lambda _: [], merge_texts, lambda _: ""
    )

    plan = rewind(story, now, paths=named)

    assert sorted(step.path for step in plan.steps) == expected
    assert len(plan.takes_back) == len(expected)


# ---- folders and order


def test_the_order_is_safe_to_apply() -> None:
    """Folders before what lies in them, all that is written before what is removed, deepest first; a
    folder that loses the permission to write comes last of all."""
    closed = PathState("dir", 0o555)
    story = [
        change(10, ABSENT, DIR, path=b"n"),
        change(10, ABSENT, V1, path=b"n/f"),
        change(10, closed, DIR, path=b"c"),
        change(10, V0, V1, path=b"c/f"),
        change(10, DIR, ABSENT, path=b"a"),
        change(10, DIR, ABSENT, path=b"a/b"),
        change(10, V0, ABSENT, path=b"a/b/f"),
    ]

    plan = rewind(story, disk(n=DIR, n__f=V1, c=DIR, c__f=V1))

    assert [s.path for s in plan.steps] == [b"a", b"a/b", b"a/b/f", b"c/f", b"n/f", b"n", b"c"]
    assert (plan.write, plan.delete) == ((b"a/b/f", b"c/f"), (b"n/f",))


def test_a_folder_that_becomes_a_file_is_emptied_first() -> None:
    """And is a conflict where something of others is in it."""
    story = [
        change(10, V0, DIR, path=b"d"),
        change(10, ABSENT, V1, path=b"d/f"),
    ]

    assert steps(rewind(story, disk(d=DIR, d__f=V1))) == [(b"d/f", ABSENT), (b"d", V0)]
    assert [c.path for c in rewind(story, disk(d=DIR, d__f=V1, d__g=V1)).conflict] == [b"d"]


def test_a_file_that_becomes_a_folder_comes_before_what_lies_in_it() -> None:
    """As when the session put a file in the place of a folder."""
    story = [change(10, DIR, V1, path=b"d"), change(10, V0, ABSENT, path=b"d/f")]

    assert steps(rewind(story, disk(d=V1))) == [(b"d", DIR), (b"d/f", V0)]


def test_a_folder_with_something_in_it_stays_without_a_word() -> None:
    """Whoever that is of, captured or not; it stays applied."""
    story = [change(10, ABSENT, DIR, path=b"d"), change(10, ABSENT, V1, path=b"d/f")]

    plan = rewind(story, disk(d=DIR, d__f=V1, d__ignored=SKIPPED))

    assert steps(plan) == [(b"d/f", ABSENT)]
    assert (plan.keep, plan.conflict, plan.takes_back) == ((), (), ("k10:d/f",))


def test_a_folder_stays_for_what_comes_back_into_it() -> None:
    """The session made the folder, and removed a file that somebody else had put there."""
    story = [
        change(10, ABSENT, DIR, path=b"d"),
        change(20, ABSENT, V0, path=b"d/f", by="other", evidence="between"),
        change(30, V0, ABSENT, path=b"d/f"),
    ]

    plan = rewind(story, disk(d=DIR))

    assert steps(plan) == [(b"d/f", V0)]
    assert plan.takes_back == ("k30:d/f",)


@pytest.mark.parametrize("mode", ["merge", "skip", "refuse"])
def test_a_folder_is_no_conflict_where_it_is_made_again(mode: str) -> None:
    """The session changed a folder and what lies in it, and somebody removed what was left of it: it comes
    back with its files, and the undo takes away both."""
    private = PathState("dir", 0o700)
    story = [
        change(10, DIR, private, path=b"d"),
        change(10, V0, ABSENT, path=b"d/f"),
        change(20, private, ABSENT, path=b"d", by="other", evidence="between", session=""),
    ]

    plan = rewind(story, disk(), on_conflict=mode)

    assert [path for path, _ in steps(plan)] == [b"d", b"d/f"]
    assert (plan.conflict, plan.refused) == ((), False)
    assert {"k10:d", "k10:d/f"} == set(plan.takes_back)


def test_the_folders_that_a_file_needs_are_made_again() -> None:
    """With the permissions that they had, when somebody else removed them."""
    private = PathState("dir", 0o700)
    story = [
        change(10, V0, V1, path=b"d/e/f"),
        change(20, V1, ABSENT, path=b"d/e/f"),
        change(30, DIR, ABSENT, path=b"d/e", by="other", evidence="between"),
        change(30, private, ABSENT, path=b"d", by="other", evidence="between"),
    ]

    plan = rewind(story, disk())

    assert steps(plan) == [(b"d", private), (b"d/e", DIR), (b"d/e/f", V0)]
    assert plan.write == (b"d/e/f",)


@pytest.mark.parametrize("blocking", [V1, PathState("link", 0, oid("x"))])
def test_nothing_is_written_below_what_is_no_folder(blocking: PathState) -> None:
    """Somebody put a file or a link where the folder was."""
    plan = rewind([change(10, V0, ABSENT, path=b"d/f")], disk(d=blocking))

    assert [conflict.path for conflict in plan.conflict] == [b"d/f"]
    assert plan.empty
    assert plan.refused


# ---- applied changes


def test_the_fold_of_applied_changes() -> None:
    """Own and shared changes up to a position; operations of whomever remove and add; what an operation
    left as it was does not count."""
    story = [change(n, V0, V1, path=b"%d" % n) for n in (10, 20, 30)]
    story += [
        change(15, V0, V1, session="B"),
        change(16, V0, V1, by="shared"),
        change(17, V0, V1, by="other"),
    ]
    back = operation(40, takes=("k20:20", "k30:30"))
    forth = operation(50, puts=("k20:20",))

    def numbers(*operations: Operation, **more: object) -> list[int]:
        return sorted(int(i[1:3]) for i in applied(story, operations, **more))  # type: ignore[arg-type]

    assert numbers(session="A") == [10, 16, 20, 30]
    assert numbers(session="B") == [15, 16]
    assert numbers() == [10, 15, 16, 20, 30]
    assert numbers(session="A", upto=20) == [10, 16, 20]
    assert numbers(back, session="A") == [10, 16]
    assert numbers(forth, back, session="A") == [10, 16, 20]
    assert numbers(back, forth, session="A", upto=40) == [10, 16]
    assert numbers(operation(40, takes=("k20:20", "k30:30"), left=(b"20",)), session="A") == [10, 16, 20]


def test_sideways_takes_back_one_branch_and_puts_on_the_other() -> None:
    """By what is applied on disk, and by nothing in the conversation's tree."""
    story = [change(10, V0, V1), change(30, V0, V2)]
    back = operation(20, FileStep(b"f", V1, V0), takes=("k10:f",))

    plan = plan_rewind(story, [back], disk(f=V2), session="A", target=Target(12, 0))

    assert steps(plan) == [(b"f", V1)]
    assert (plan.takes_back, plan.puts_on) == (("k30:f",), ("k10:f",))


def test_putting_a_deletion_on_again() -> None:
    """Redo removes what the session removed, unless somebody made it anew or it was never sure."""
    back = operation(20, FileStep(b"f", ABSENT, V0), takes=("k10:f",))

    def redo(*story: Change) -> Plan:
        return plan_rewind(story, [back], disk(f=V0), session="A", target=Target(12, 0))

    gone = change(10, V0, ABSENT)
    anew = [change(30, V0, ABSENT, by="other"), change(40, ABSENT, V0, by="other")]
    assert redo(gone).delete == (b"f",)
    assert redo(gone, *anew).delete == ()
    assert redo(change(10, V0, ABSENT, evidence="open")).delete == ()


def test_a_revert_takes_back_one_run_and_keeps_the_rest() -> None:
    """Of what is applied now; a path that a later run changed too is a conflict."""
    story = [
        change(10, V0, V1, run="p"),
        change(10, V0, V1, path=b"g", run="p"),
        change(10, V0, V1, path=b"h", run="p"),
        change(20, V1, V2, run="q"),
    ]
    back = operation(30, takes=("k10:h",))

    plan = plan_revert(
        story, [back], disk(f=V2, g=V1, h=V0), session="A", run="p", options=Options(on_conflict="skip")
    )

    assert steps(plan) == [(b"g", V0)]
    assert plan.takes_back == ("k10:g",)
    assert [conflict.path for conflict in plan.conflict] == [b"f"]


def test_a_revert_is_stopped_by_a_shared_change_of_the_run() -> None:
    """Shared changes count for every run that may have made them."""
    plan = plan_revert([change(10, V0, V1, by="shared")], [], disk(f=V1), session="B", run="q")

    assert plan.refused


def test_the_inverse_turns_the_steps_round() -> None:
    """Against what stands there now; what was changed since is a conflict, and left out with its ids."""
    story = [change(10, V0, V1), change(10, V0, V1, path=b"g"), change(10, V0, V1, path=b"h")]
    done = operation(
        20,
        *(FileStep(path, V1, V0) for path in (b"f", b"g", b"h")),
        takes=("k10:f", "k10:g", "k10:h"),
        left=(b"h",),
    )

    plan = plan_inverse(done, story, disk(f=V0, g=V2), options=Options(on_conflict="skip"))

    assert steps(plan) == [(b"f", V1)]
    assert plan.puts_on == ("k10:f", "k10:h")
    assert [conflict.path for conflict in plan.conflict] == [b"g"]


def test_the_inverse_removes_what_the_rewind_brought_back() -> None:
    """Unless somebody else made it again."""
    done = operation(20, FileStep(b"f", ABSENT, V0), takes=("k10:f",))
    story = [change(5, ABSENT, V0, by="other"), change(10, V0, ABSENT)]
    anew = [change(30, V0, ABSENT, by="other"), change(40, ABSENT, V0, by="other")]

    assert plan_inverse(done, story, disk(f=V0)).delete == (b"f",)
    assert plan_inverse(done, [*story, *anew], disk(f=V0)).delete == ()


# ---- the whole tree


@pytest.mark.parametrize(
    ("then", "now", "goal"),
    [
        (V0, V1, V0),
        (V0, V0, None),
        (V0, ABSENT, V0),
        (None, V1, ABSENT),
        (SKIPPED, V1, None),
        (UNKNOWN, V1, None),
        (V0, SKIPPED, "conflict"),
        (None, SKIPPED, None),
    ],
)
def test_tree_scope_for_one_path(
    then: PathState | None, now: PathState, goal: PathState | str | None
) -> None:
    """What differs is written, what was not there is removed, what was skipped or unknown is left."""
    plan = plan_tree({b"f": then} if then else {}, [b"f"], [], [], disk(f=now), target=P0)

    assert [state for _, state in steps(plan)] == ([goal] if isinstance(goal, PathState) else [])
    assert plan.refused == (goal == "conflict")
    assert bool(plan.keep) == (then == UNKNOWN)


def test_tree_scope_leaves_what_lies_in_a_skipped_folder_and_outside() -> None:
    """What the capture did not look into is not known to have been absent."""
    now = disk(node_modules=DIR, node_modules__x=V1, __outside=V1)
    paths = [b"node_modules", b"node_modules/x", b"/outside"]
    story = [change(10, ABSENT, V1, path=path) for path in paths[1:]]

    plan = plan_tree({b"node_modules": SKIPPED}, paths, story, [], now, target=P0)

    assert plan.empty
    assert plan.takes_back == ()


def test_tree_scope_can_keep_new_files() -> None:
    """With the reason."""
    plan = plan_tree({}, [b"f"], [], [], disk(f=V1), target=P0, options=Options(new_files="keep"))

    assert plan.empty
    assert [note.path for note in plan.keep] == [b"f"]


# ---- what a person is told


def test_what_others_changed_during_the_runs_is_told() -> None:
    """Loose changes one by one, with the reason; git's are counted; a person's between runs are not."""
    story = [
        change(10, V0, V1, path=b"loose", by="other", evidence="loose"),
        change(10, V0, V1, path=b"between", by="other", evidence="between", session=""),
        change(10, V0, V1, path=b"git1", by="git", evidence="git"),
        change(10, V0, V1, path=b"git2", by="git", evidence="git"),
        change(4, V0, V1, path=b"before", by="other", evidence="loose"),
        change(10, V0, V1, path=b"elsewhere", by="other", evidence="loose", session="B"),
    ]

    plan = rewind(story, disk())

    assert [note.path for note in plan.keep] == [b"loose"]
    assert plan.by_git == 2
    assert plan.empty


def test_what_cannot_be_recovered_is_told() -> None:
    """Files that the session's later runs wrote over without any capture knowing what was there."""
    unseen = [
        Unseen(b"seen", "A", "p", 10, True),
        Unseen(b"skipped", "A", "p", 10, False),
        Unseen(b"unchanged", "A", "p", 10, False),
        Unseen(b"other", "B", "p", 10, True),
        Unseen(b"earlier", "A", "p", 1, True),
    ]
    now = disk(skipped=SKIPPED, unchanged=V0)

    plan = plan_rewind([], [], now, session="A", target=Target(5, 5), unseen=unseen)

    assert [note.path for note in plan.unrecovered] == [b"seen", b"skipped"]


def test_two_plans_differ_where_their_steps_or_conflicts_do() -> None:
    """What was approved is compared with what is computed again under the lock."""
    story = [change(10, V0, V1), change(10, V0, V1, path=b"g")]
    plan = rewind(story, disk(f=V1, g=V1))

    assert same(plan, rewind(story, disk(f=V1, g=V1))) == []
    assert same(plan, rewind(story, disk(f=V2, g=V1))) == [b"f"]
    assert same(plan, rewind(story[:1], disk(f=V1, g=V1))) == [b"g"]
    assert same(rewind(story, disk(f=V2, g=V1)), rewind(story, disk(f=V3, g=V1))) == [b"f"]


@pytest.mark.parametrize(
    ("then", "now", "codes"),
    [
        (GitPosition("a", "refs/heads/m"), GitPosition("a", "refs/heads/m"), []),
        (GitPosition("a", "refs/heads/m"), GitPosition("b", "refs/heads/m"), ["head_moved"]),
        (GitPosition("a", "refs/heads/m"), GitPosition("a"), ["head_moved"]),
        (GitPosition("a"), GitPosition("a", None, "merge"), ["git_operation"]),
        (None, GitPosition("a"), []),
    ],
)
def test_a_repository_that_moved_is_warned_of(
    then: GitPosition | None, now: GitPosition, codes: list[str]
) -> None:
    """HEAD, branch or an operation in progress differ between target and now."""
    assert [warned.code for warned in moved(then, now)] == codes


# ---- how other tools failed


def test_files_that_others_made_stay() -> None:
    """An output of another process, written after the checkpoint, is no business of the rewind."""
    world = World()
    before = world.edits("A", b"f", "1")
    world.person(lambda: world.write(b"output/big.jsonl", "1 GB"))

    world.rewind("A", before)

    assert set(world.disk) == {b"output", b"output/big.jsonl"}


@pytest.mark.parametrize(("first", "undone"), [((ABSENT, V1), ABSENT), ((V0, V1), V0), ((V0, ABSENT), V0)])
def test_what_a_person_undid_by_hand_is_not_done_again(
    first: tuple[PathState, PathState], undone: PathState
) -> None:
    """A person takes back by hand what a run did; a rewind finds nothing to do there, and going forward again
    leaves it so; what the rewind itself took back is put on again."""
    done = [change(10, *first), change(11, V0, V1, path=b"g")]
    by_hand = change(20, first[1], undone, by="other", evidence="between", session="")
    back = rewind([*done, by_hand], disk(f=undone, g=V1))

    assert steps(back) == [(b"g", V0)] and back.takes_back == ("k11:g",)

    gone = operation(30, *back.steps, takes=back.takes_back)
    forward = plan_rewind([*done, by_hand], [gone], disk(f=undone, g=V0), session="A", target=Target(25, 0))
    assert steps(forward) == [(b"g", V1)]


def test_another_sessions_work_stays() -> None:
    """Two sessions in one tree: each rewind takes back its own; a session without changes none."""
    world = World()
    before = world.edits("A", b"a", "1")
    world.edits("B", b"b", "1")
    idle = world.act("C", lambda: None)

    assert world.rewind("C", idle).empty
    assert world.rewind("A", before).delete == (b"a",)
    assert set(world.disk) == {b"b"}


def test_one_file_of_two_sessions_is_refused() -> None:
    """And nothing is touched."""
    world = World()
    before = world.edits("A", b"f", "1")
    world.edits("B", b"f", "2")

    assert world.rewind("A", before).refused
    assert world.disk[b"f"] == V2


def test_a_run_that_changed_nothing_takes_nothing_back() -> None:
    """However dirty the tree is."""
    world = World()
    world.write(b"dirty", "1")
    before = world.act("A", lambda: None)
    world.person(lambda: world.write(b"dirty", "2"))

    assert world.rewind("A", before).empty


def test_a_file_that_the_agent_only_missed_stays() -> None:
    """Absent at the start of the run is not created by the run."""
    world = World()
    with world.run("A") as before:
        with world.tool(NamedFile(b"/w/f"), writes="none"):
            pass
        world.write(b"f", "of the user")

    plan = world.rewind("A", before)

    assert plan.empty
    assert [note.path for note in plan.keep] == [b"f"]
    assert world.disk[b"f"] == file("of the user")


def test_the_users_later_edit_is_never_lost() -> None:
    """It is flagged and refused; overwritten when asked for, and brought back by the undo."""
    world = World()
    world.write(b"f", "0")
    before = world.edits("A", b"f", "1")
    world.person(lambda: world.write(b"f", "2"))

    assert world.rewind("A", before).refused
    assert not world.rewind("A", before, on_conflict="overwrite").refused
    assert world.disk[b"f"] == V0
    world.take_back(world.operations[-1])
    assert world.disk[b"f"] == V2


def test_unchanged_files_are_not_written() -> None:
    """A file that is the same then and now is in no step, in either scope."""
    world = World()
    world.write(b"old", "2020")
    before = world.edits("A", b"f", "1")

    assert [step.path for step in world.plan("A", before).steps] == [b"f"]
    world.rewind_tree("A", before)
    assert [step.path for step in world.operations[-1].steps] == [b"f"]


def test_all_is_written_before_anything_is_removed() -> None:
    """So that a write that fails leaves everything in place."""
    world = World()
    world.write(b"z/m", "0")

    def work() -> None:
        world.write(b"a/n", "1")
        world.write(b"z/m", "1")

    before = world.act("A", work)

    assert [step.path for step in world.plan("A", before).steps] == [b"z/m", b"a/n", b"a"]


def test_uncommitted_work_from_before_the_session_comes_back_in_mid_run() -> None:
    """While a run is under way, to the state at its prompt."""
    world = World()
    world.write(b"f", "dirty")
    with world.run("A", settles=False) as before:
        with world.tool():
            world.write(b"f", "1")

        plan = world.rewind("A", before)

    assert (plan.refused, world.disk[b"f"]) == (False, file("dirty"))


def test_a_step_back_over_a_prompt_without_changes() -> None:
    """Going to a prompt whose run changed nothing, and whose predecessor's did, writes nothing."""
    world = World()
    world.edits("A", b"f", "1")
    second = world.act("A", lambda: None)

    assert world.rewind("A", second).empty


def test_a_rewind_that_lost_its_capture_is_still_told_apart() -> None:
    """A crash before the after-capture: the next capture shows the rewind's writes and a person's, and
    both keep their owners."""
    world = World()
    world.write(b"f", "0")
    before = world.edits("A", b"f", "1")
    world.apply(world.plan("A", before), "A", capture=False)
    world.person(lambda: world.write(b"f", "9"))
    world.capture()

    owners = [(c.by, c.before, c.after) for c in world.changes() if c.path == b"f"]

    assert owners[-2:] == [("rewind", V1, V0), ("other", V0, file("9"))]
    assert world.rewind("A", before).empty
