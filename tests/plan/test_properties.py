"""Random histories of agents, a person and rewinds: what comes back is what was there."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recorder.planning.applied import applied
from recorder.states import ABSENT
from tests.plan.world import Checkpoint, World

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

PATHS = st.sampled_from([b"a", b"b", b"d/x", b"d/y", b"d/e/z", b"d", b"d/e"])
EDIT = st.one_of(
    st.tuples(st.just("write"), PATHS, st.sampled_from("123"), st.sampled_from([0o644, 0o755])),
    st.tuples(st.just("remove"), PATHS, st.none(), st.none()),
)
EDITS = st.lists(EDIT, min_size=1, max_size=4)
NUMBER = st.integers(0, 30)
TURN = st.tuples(st.sampled_from("ABPM"), EDITS)
"""One turn of session A, session B, a person between runs, or (M) A with a person at the same time."""


def do(world: World, edits: list[tuple]) -> None:
    """Edits that a disk does not allow (a file where a folder should be) are left out."""
    for what, path, text, mode in edits:
        if what == "remove":
            world.remove(path)
        elif not any(world.disk.get(above, ABSENT).kind == "file" for above in above_of(path)):
            world.write(path, text, mode)


def above_of(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:n]) for n in range(1, len(parts))]


def started(edits: list[tuple]) -> World:
    world = World()
    do(world, edits)
    world.capture()
    return world


@QUICK
@given(EDITS, st.lists(st.one_of(EDITS, NUMBER), min_size=1, max_size=9))
def test_alone_every_rewind_gives_the_very_disk(before: list, story: list) -> None:
    """With nobody else there, a rewind to any checkpoint (backward, sideways, forward, in any order and
    with new work in between) gives exactly the disk of that checkpoint, and its applied changes."""
    world, points = started(before), list[Checkpoint]()
    for act in story:
        if isinstance(act, list):
            points.append(world.act("A", lambda act=act: do(world, act)))
        elif points:
            to = points[act % len(points)]

            plan = world.rewind("A", to)

            assert not plan.refused
            assert world.disk == to.disk
            world.standing = dict(to.standing)
        assert applied(world.changes(), world.operations, session="A") == world.standing.get("A", frozenset())


@QUICK
@given(EDITS, st.lists(TURN, min_size=1, max_size=6), NUMBER, st.data())
def test_undoing_a_rewind_is_the_identity(
    before: list, story: list, number: int, data: st.DataObject
) -> None:
    """A rewind that was done, whatever it met, and its inverse leave disk and applied changes as they
    were; and so do the inverse's inverse, and the inverse of that."""
    world, told = play(started(before), story)
    if not told.points:
        return
    to = told.points[number % len(told.points)]
    choice = data.draw(st.sampled_from(["merge", "refuse", "skip", "overwrite"]))
    disks, sets = [dict(world.disk)], [standing(world)]
    if world.rewind("A", to, on_conflict=choice).refused:
        return
    disks, sets = [*disks, dict(world.disk)], [*sets, standing(world)]

    for turn in range(3):
        plan = world.take_back(world.operations[-1])

        assert not plan.refused
        assert world.disk == disks[turn % 2]
        assert standing(world) == sets[turn % 2]


@QUICK
@given(EDITS, st.lists(TURN, min_size=1, max_size=7), NUMBER, st.data())
def test_only_what_the_session_changed_is_touched(
    before: list, story: list, number: int, data: st.DataObject
) -> None:
    """Among another session and a person: a path that the session never changed is in no step, what
    another made is not deleted, what the session alone changed since comes back."""
    world, told = play(started(before), story)
    if not told.points:
        return
    to = told.points[number % len(told.points)]
    choice = data.draw(st.sampled_from(["merge", "refuse", "skip", "overwrite"]))
    disk = dict(world.disk)

    plan = world.rewind("A", to, on_conflict=choice)

    since = told.since(to)
    for step in plan.steps:
        assert "A" in since.get(step.path, "") or (step.before == ABSENT and step.after.kind == "dir")
        assert step.after.present or told.makers[step.path] == "A"
    if plan.refused:
        assert world.disk == disk
    elif choice in ("merge", "refuse"):
        for path in (path for path, who in since.items() if who == {"A"}):
            came = world.disk.get(path, ABSENT)
            assert came == to.disk.get(path, ABSENT) or _saved_into(path, since)


def _saved_into(folder: bytes, since: dict[bytes, set[str]]) -> bool:
    """Where somebody else put something into a folder, its time no longer tells who made it: it stays."""
    return any(path.startswith(folder + b"/") and who != {"A"} for path, who in since.items())


@QUICK
@given(EDITS, st.lists(TURN, min_size=1, max_size=7), NUMBER)
def test_the_whole_tree_comes_back(before: list, story: list, number: int) -> None:
    """Tree scope gives exactly the tree of the checkpoint, whoever changed it; its inverse gives back
    what was there; and the applied changes of every session are those of the checkpoint."""
    world, told = play(started(before), story)
    if not told.points:
        return
    to = told.points[number % len(told.points)]
    disk, sets = dict(world.disk), standing(world)
    stood = applied(world.changes(), world.operations, upto=to.target.position)

    world.rewind_tree("A", to)

    assert world.disk == to.disk
    assert applied(world.changes(), world.operations) == stood

    world.take_back(world.operations[-1])

    assert world.disk == disk
    assert standing(world) == sets


class Told:
    """Who changed and who made each path, by comparing the disk before and after each one's turn."""

    def __init__(self) -> None:
        self.points: list[Checkpoint] = []
        self.makers: dict[bytes, str] = {}
        self.turns: list[tuple[int, str, bytes]] = []

    def note(self, who: str, world: World, before: dict) -> None:
        for path in {*before, *world.disk}:
            if before.get(path) != world.disk.get(path):
                self.turns.append((world.clock, who, path))
                if path not in before:
                    self.makers[path] = who

    def since(self, to: Checkpoint) -> dict[bytes, set[str]]:
        found: dict[bytes, set[str]] = {}
        for at, who, path in self.turns:
            if at > to.target.at:
                found.setdefault(path, set()).add(who)
        return found


def play(world: World, story: list) -> tuple[World, Told]:
    told = Told()
    for who, edits in story:
        before = dict(world.disk)
        if who == "P":
            world.person(lambda edits=edits: do(world, edits))
        elif who == "M":
            told.points.append(together(world, told, edits))
            continue
        else:
            point = world.act(who, lambda edits=edits: do(world, edits))
            told.points += [point] if who == "A" else []
        told.note(who, world, before)
    return world, told


def together(world: World, told: Told, edits: list) -> Checkpoint:
    """A run of A in which a person saves files that A leaves alone, outside A's tools."""
    with world.run("A") as point:
        before = dict(world.disk)
        with world.tool():
            do(world, edits)
        told.note("A", world, before)
        before = dict(world.disk)
        world.tick()
        do(world, [("write", b"m", edits[0][1].decode(), 0o644), ("write", b"d/m", "1", 0o600)])
        told.note("P", world, before)
    return point


def standing(world: World) -> tuple[frozenset[str], ...]:
    return tuple(applied(world.changes(), world.operations, session=session) for session in "AB")
