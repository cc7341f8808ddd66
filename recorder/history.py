"""What happened to the files of one work tree, in order: what plans are computed from.

Rows of the views, with no behaviour; `recorder.planning.attribution` says whose each change is, and
`recorder.planning.plan` what a rewind would do.
"""

from __future__ import annotations

import msgspec

from recorder.events import FileStep, NamedFile
from recorder.states import GitPosition, PathState

Reach = frozenset[bytes]
"""Absolute folders and files: what a session of another work tree may write at or below them."""


def place_of(root: bytes, path: bytes) -> bytes:
    """The absolute path of what a work tree at `root` calls `path`."""
    return path if path.startswith(b"/") else root.rstrip(b"/") + b"/" + path


def name_in(root: bytes, place: bytes) -> bytes:
    """What a work tree at `root` calls an absolute path: the inverse of `place_of`."""
    return place.removeprefix(root.rstrip(b"/") + b"/")


class Transition(msgspec.Struct, frozen=True):
    """One path of one capture's delta. `id` is `<capture>:<index>`, `position` the log position of the
    capture. `since` and `until` (ns) are the bounds of the time it came about in: when the capture before
    it began to read, and when this one ended. `operation` names the rewind whose own writes the capture
    was taken to record."""

    id: str
    position: int
    path: bytes
    before: PathState
    after: PathState
    changed_at: int
    by_git: bool
    since: int
    until: int
    operation: str | None = None
    above_changed_at: int = 0


class Run(msgspec.Struct, frozen=True):
    """Everything one prompt started. `session` is the stream's hex id, `run` the prompt's entry id,
    `began_at` the moment after which changes may be its own. `ended_at` is None while it has no end
    event; `last_sign_at` is the time of its last entry or tool result. `position` is of its start.
    `reach` is None for a session of this work tree."""

    session: str
    run: str
    position: int
    began_at: int
    ended_at: int | None
    last_sign_at: int
    children: tuple[str, ...] = ()
    reach: Reach | None = None


class Window(msgspec.Struct, frozen=True):
    """The time in which one tool call of a run could write. `writes` is `named` or `any`; `ended_at` is
    None while it has not returned. `files` is what call and result say together. A `failed` call may
    have written, but says nothing of what stands there."""

    session: str
    run: str
    call: str
    tool: str
    writes: str
    began_at: int
    ended_at: int | None
    background: bool
    files: tuple[NamedFile, ...]
    failed: bool = False
    reach: Reach | None = None


class Operation(msgspec.Struct, frozen=True):
    """A rewind that was applied: `position` is of its plan in the log, `steps` what it did to files.
    `left` names the paths of the plan that stayed as they were after all: neither their steps nor the
    changes of them count."""

    operation: str
    position: int
    verb: str
    session: str
    checkpoint: str | None
    safety: str
    steps: tuple[FileStep, ...]
    takes_back: tuple[str, ...]
    puts_on: tuple[str, ...]
    inverts: str | None
    position_before: str | None
    position_after: str | None
    leaf_before: str | None
    leaf_after: str | None
    applied_at: int
    left: tuple[bytes, ...] = ()


class TreeHistory(msgspec.Struct, frozen=True):
    """All of the above of one work tree, each in log order, its root the absolute path `root`. `git` is
    where the repository stood at a capture, by capture id; `looks` has the log position of each capture
    and the moment that it shows (ns).

    `runs` and `windows` are also those of other sessions that could write here. `elsewhere` are the
    operations on other work trees that wrote files of this one, and `sightings` what captures of other work
    trees saw of the same files, both under the names that the files have here."""

    transitions: tuple[Transition, ...]
    runs: tuple[Run, ...]
    windows: tuple[Window, ...]
    operations: tuple[Operation, ...]
    git: dict[str, GitPosition] = {}
    root: bytes = b""
    elsewhere: tuple[Operation, ...] = ()
    sightings: tuple[Transition, ...] = ()
    looks: tuple[tuple[int, int], ...] = ()


class Change(msgspec.Struct, frozen=True):
    """A transition with its owner. `by`: `session` (`session` and `run` say which), `shared` (two
    sessions, or a session and somebody else, at once), `git`, `rewind`, `other`. `evidence`: `named`,
    `window`, `open` (a tool call that never returned: may be restored, never leads to a deletion),
    `run` (the source gives no windows), `loose`, `between`, `git`, `operation`.

    `runs` are pairs of session and run: the owner; all who share it; for `other` and `git`, those open
    at the time. `unknown_from` is set where the path was out of sight in between: the position of the
    first capture that did not know its state. `contested` has the ids of the changes that another
    session made to the same path in a run that overlaps this one's."""

    id: str
    position: int
    path: bytes
    before: PathState
    after: PathState
    by: str
    session: str | None
    run: str | None
    evidence: str
    why: str
    runs: tuple[tuple[str, str], ...] = ()
    unknown_from: int | None = None
    contested: tuple[str, ...] = ()

    @property
    def sessions(self) -> frozenset[str]:
        return frozenset(session for session, _ in self.runs)


class Unseen(msgspec.Struct, frozen=True):
    """A file that a run wrote by name at `at` (ns) and whose state from before no capture knows.
    `captured` is False where captures say nothing of the path at all."""

    path: bytes
    session: str
    run: str
    at: int
    captured: bool
