"""Who else could write the files of a work tree: sessions of other trees, their rewinds, and what the
captures of other trees saw of the same files.

A call of a session of another tree counts for a file here

- that it names, wherever its session works;
- if it could write anything, where its session's tree contains the file, or where one of the two trees
  lies in the other: a shell started in `/p` reaches `/p/sub`, one started in `/p/sub` reaches `/p`; and
  for the files that its session names elsewhere.

A linked git work tree that lies beside is no nearer than any other folder: it was made so that its sessions
do not meet those of the other one. A session that was never captured works in its folder; one of another
machine nowhere.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from projections import changes, operations
from projections.changes import rows_with
from recorder.events import FileStep
from recorder.history import Operation, Reach, Transition, name_in, place_of
from recorder.planning.spans import OPEN_FOR, SLACK, parents


class Area(NamedTuple):
    """The files of a work tree by their real places: everything in some ranges of paths (from, up to but
    without), and single files that lie outside of them."""

    tree: str
    root: bytes
    per_file: bool
    ranges: list[tuple[bytes, bytes]]
    points: frozenset[bytes]

    def covers(self, place: bytes) -> bool:
        return place in self.points or _lies_in(place, self.ranges)

    def rows(self, connection: sqlite3.Connection, query: str, column: str) -> Iterator[sqlite3.Row]:
        """The rows of a query, whose condition is `{}`, that have one of these places in a column."""
        for low, high in self.ranges:
            yield from connection.execute(query.format(f"{column} >= ? AND {column} < ?"), (low, high))
        yield from rows_with(connection, query.format(column + " IN ({})"), self.points)


def area_of(connection: sqlite3.Connection, tree: str, places: Iterable[bytes]) -> Area:
    """A work tree's area: what lies below its root without the trees in it that are recorded by themselves,
    and those of `places` that lie elsewhere. Where it is recorded per file, only these `places`."""
    row = connection.execute("SELECT path, kind FROM trees WHERE tree = ?", (tree,)).fetchone()
    root, per_file = (row["path"], row["kind"] == "per-file") if row else (b"/", True)
    ranges = [] if per_file else list(_gaps(root, _trees_in(connection, root)))
    return Area(tree, root, per_file, ranges, frozenset(p for p in places if not _lies_in(p, ranges)))


def sightings_of(connection: sqlite3.Connection, area: Area) -> list[tuple[str, Transition]]:
    """What captures of other work trees saw of the same files, each with its tree, in log order; under the
    names that the files have here."""
    query = "SELECT * FROM transitions WHERE {}"
    rows = [row for row in area.rows(connection, query, "place") if row["tree"] != area.tree]
    return [
        (row["tree"], msgspec.structs.replace(changes.transition(row), path=name_in(area.root, row["place"])))
        for row in sorted(rows, key=lambda row: (row["position"], row["ordinal"]))
    ]


def operations_on(connection: sqlite3.Connection, area: Area) -> tuple[Operation, ...]:
    """The operations on other work trees that wrote files of this one: their steps there, as named here."""
    query = "SELECT DISTINCT operation FROM operation_places WHERE {}"
    names = {row["operation"] for row in area.rows(connection, query, "place")}
    return tuple(
        _seen_from(area, operation, changes.root_of(connection, tree))
        for tree, operation in operations.operations_by_id(connection, names)
        if tree != area.tree
    )


def reaches_of(
    connection: sqlite3.Connection,
    area: Area,
    sightings: Iterable[tuple[str, Transition]],
    times: Sequence[tuple[int, int]],
) -> dict[str, Reach | None]:
    """The sessions of other work trees that could write here, each with where its calls that name nothing
    count; None: everywhere. Those that name nothing here are left out where none of their runs meets one of
    these times, as `times_of` gives them."""
    found: dict[str, set[bytes]] = defaultdict(set)
    for stream, path in _names(connection, area):
        found[stream].add(path)
    trees = _trees_around(connection, area)
    near = dict(_sessions_in(connection, trees))
    near |= {stream: _reached(area, folder) for stream, folder in _uncaptured(connection, area)}
    for stream in _at_work(connection, near, times):
        found[stream].add(near[stream])
    for stream, place in _named_through_links(connection, area, sightings, found, trees):
        found[stream].add(place)
    for stream in {*_of_other_machines(connection, found), *changes.sessions_of(connection, area.tree)}:
        found.pop(stream, None)
    return {stream: None if b"/" in reach else frozenset(reach) for stream, reach in found.items()}


def times_of(transitions: Iterable[Transition]) -> list[tuple[int, int]]:
    """When somebody else's session could have had a part in these changes, as stretches of time (ns) that do
    not meet, in order."""
    found = []
    hidden: dict[bytes, tuple[int, int]] = {}
    for one in transitions:
        moments = {one.changed_at, one.above_changed_at} - {0} if one.changed_at else {one.until}
        found += [(moment - SLACK, moment + SLACK) for moment in moments]
        if not (one.before.known and one.after.known):
            since, until = hidden.get(one.path, (one.since, one.until))
            hidden[one.path] = (min(since, one.since), max(until, one.until))
    return list(_merged(sorted([*found, *hidden.values()])))


def trees_overlapping(connection: sqlite3.Connection, root: bytes) -> dict[str, bytes]:
    """The work trees that contain a folder, are at it, or lie in it, each with its root."""
    low, high = _below(root)
    below = connection.execute("SELECT tree, path FROM trees WHERE path >= ? AND path < ?", (low, high))
    return trees_at(connection, [root + b"/"]) | {row["tree"]: row["path"] for row in below}


def trees_at(connection: sqlite3.Connection, places: Iterable[bytes]) -> dict[str, bytes]:
    """The work trees that contain some of these places, each with its root."""
    folders = {folder for place in places for folder in (*parents(place), b"/")}
    rows = rows_with(connection, "SELECT tree, path FROM trees WHERE path IN ({})", folders)
    return {row["tree"]: row["path"] for row in rows}


def _names(connection: sqlite3.Connection, area: Area) -> Iterator[tuple[str, bytes]]:
    for row in area.rows(connection, "SELECT stream, path FROM named_paths WHERE {}", "path"):
        yield row["stream"], row["path"]


def _trees_around(connection: sqlite3.Connection, area: Area) -> dict[str, bytes]:
    """The other work trees that overlap with this one or contain a file of it that lies outside of it, with
    the folder in which their sessions' calls count."""
    found = trees_at(connection, {*area.points, area.root + b"/"})
    if not area.per_file:
        found |= {
            tree: _reached(area, path) for tree, path in trees_overlapping(connection, area.root).items()
        }
    found.pop(area.tree, None)
    return found


def _reached(area: Area, folder: bytes) -> bytes:
    """Of two folders of which one lies in the other, the upper one; else `folder`."""
    inside = folder.startswith(area.root.rstrip(b"/") + b"/")
    return area.root if inside and not area.per_file else folder


def _sessions_in(connection: sqlite3.Connection, trees: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for row in rows_with(connection, "SELECT stream, tree FROM session_trees WHERE tree IN ({})", trees):
        yield row["stream"], trees[row["tree"]]


def _uncaptured(connection: sqlite3.Connection, area: Area) -> Iterator[tuple[str, bytes]]:
    """Sessions that no capture bound to a work tree, and whose folder contains this tree or lies in it."""
    query = (
        "SELECT stream, cwd FROM sessions WHERE {}"
        " AND NOT EXISTS (SELECT 1 FROM session_trees WHERE session_trees.stream = sessions.stream)"
    )
    try:
        folders = [folder.decode() for folder in _folders(area.root)]
        low, high = (edge.decode() for edge in _below(area.root))
    except UnicodeDecodeError:
        return
    rows = list(rows_with(connection, query.format("cwd IN ({})"), folders))
    if not area.per_file:
        rows += connection.execute(query.format("cwd >= ? AND cwd < ?"), (low, high))
    for row in rows:
        yield row["stream"], row["cwd"].encode()


def _named_through_links(
    connection: sqlite3.Connection,
    area: Area,
    sightings: Iterable[tuple[str, Transition]],
    named: Mapping[str, set[bytes]],
    around: Mapping[str, bytes],
) -> Iterator[tuple[str, bytes]]:
    """The sessions of trees whose captures hold files of this one that no session there names by their real
    place: one of them named it through a link."""
    seen = {(tree, place_of(area.root, one.path)) for tree, one in sightings if tree not in around}
    trees = rows_with(connection, "SELECT stream, tree FROM session_trees WHERE stream IN ({})", named)
    for row in trees:
        seen -= {(row["tree"], place) for place in named[row["stream"]]}
    for tree, place in seen:
        for stream in changes.sessions_of(connection, tree):
            yield stream, place


def _at_work(
    connection: sqlite3.Connection, streams: Iterable[str], times: Sequence[tuple[int, int]]
) -> set[str]:
    """Those of the sessions that had a run under way at one of these times."""
    query = "SELECT stream, began_at, ended_at, last_sign_at FROM runs WHERE stream IN ({})"
    rows = rows_with(connection, query, streams)
    return {
        row["stream"]
        for row in rows
        if _meets(row["began_at"], row["ended_at"] or row["last_sign_at"] + OPEN_FOR, times)
    }


def _meets(since: int, until: int, times: Sequence[tuple[int, int]]) -> bool:
    found = bisect_right(times, until, key=lambda one: one[0])
    return found > 0 and since <= times[found - 1][1]


def _merged(times: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sorted stretches of time, with those that meet made one."""
    last: tuple[int, int] | None = None
    for since, until in times:
        if last is not None and since > last[1]:
            yield last
            last = None
        last = (since, until) if last is None else (last[0], max(last[1], until))
    if last is not None:
        yield last


def _of_other_machines(connection: sqlite3.Connection, streams: Iterable[str]) -> list[str]:
    query = "SELECT stream FROM sessions WHERE stream IN ({}) AND foreign_why IS NOT NULL"
    return [row["stream"] for row in rows_with(connection, query, streams)]


def _seen_from(area: Area, operation: Operation, root: bytes) -> Operation:
    """What an operation on the work tree at `root` did in this one, whose changes it neither took back nor
    put on."""
    return msgspec.structs.replace(
        operation,
        steps=tuple(
            FileStep(name_in(area.root, place_of(root, step.path)), step.before, step.after)
            for step in operation.steps
            if area.covers(place_of(root, step.path))
        ),
        left=tuple(name_in(area.root, place_of(root, path)) for path in operation.left),
        takes_back=(),
        puts_on=(),
    )


def _trees_in(connection: sqlite3.Connection, root: bytes) -> list[bytes]:
    rows = connection.execute("SELECT path FROM trees WHERE path >= ? AND path < ?", _below(root))
    return [row["path"] for row in rows]


def _gaps(root: bytes, nested: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The ranges of paths below a root that lie in none of the nested folders."""
    low, high = _below(root)
    for start, end in sorted(_below(folder) for folder in nested):
        if start >= low:
            yield low, start
            low = end
    yield low, high


def _below(folder: bytes) -> tuple[bytes, bytes]:
    """The range of paths below a folder."""
    head = folder.rstrip(b"/")
    return head + b"/", head + b"0"


def _lies_in(place: bytes, ranges: list[tuple[bytes, bytes]]) -> bool:
    found = bisect_right(ranges, place, key=lambda one: one[0])
    return found > 0 and place < ranges[found - 1][1]


def _folders(path: bytes) -> set[bytes]:
    """A folder and all above it."""
    return {path, *parents(path), b"/"}
