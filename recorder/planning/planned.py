"""A plan as a value, and how it follows from what comes of each path.

Knows the user's options and the lists that a person is told; what the paths' turns are is computed in
`recorder.planning.plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from recorder.events import FileStep
from recorder.history import Change
from recorder.planning.routes import Conflict, Kept, Outcome, Wanted, inside, overwritten
from recorder.planning.settling import ChildrenOf, StateOf, in_order, settle, topmost
from recorder.planning.threeway import MergeTexts
from recorder.states import GitPosition, PathNote


class Options(msgspec.Struct, frozen=True):
    """`on_conflict`: `merge`, `refuse`, `skip` or `overwrite`. `new_files`: `delete` or `keep`. `paths`: only
    these files or folders, as changes name them; none: all."""

    on_conflict: str = "merge"
    new_files: str = "delete"
    paths: tuple[bytes, ...] = ()


class Target(msgspec.Struct, frozen=True):
    """The checkpoint to go to: its capture's log position, and the moment (ns) that it is to show."""

    position: int
    at: int


@dataclass(frozen=True)
class Disk:
    """What stands on disk now, and the contents that are at hand.

    `state` tells the state of a path (`skipped` for one that captures do not hold), `children` the paths of
    all that lies directly in a folder, whether captured or not. `merge_texts` merges three contents of a
    file; `lacking` says why the content with an id cannot be written, empty where it can.
    """

    state: StateOf
    children: ChildrenOf
    merge_texts: MergeTexts
    lacking: Callable[[str], str]


class Warned(msgspec.Struct, frozen=True):
    code: str
    message: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewind would do. `steps` are the paths that differ, in an order that is safe to apply; the
    other lists are what a person is told; what is in `merge` is not in `write`. `by_git` counts the paths
    that git changed since and that are kept. Where `refused`, nothing is done, and the rest says what would
    have been."""

    steps: tuple[FileStep, ...] = ()
    write: tuple[bytes, ...] = ()
    delete: tuple[bytes, ...] = ()
    merge: tuple[bytes, ...] = ()
    keep: tuple[PathNote, ...] = ()
    conflict: tuple[Conflict, ...] = ()
    unrecovered: tuple[PathNote, ...] = ()
    by_git: int = 0
    takes_back: tuple[str, ...] = ()
    puts_on: tuple[str, ...] = ()
    warnings: tuple[Warned, ...] = ()
    refused: bool = False

    @property
    def empty(self) -> bool:
        """Whether no file would be written or removed."""
        return not self.steps


def conclude(
    outcomes: Sequence[Outcome],
    disk: Disk,
    *,
    options: Options,
    changes: Sequence[Change],
    backs: Iterable[str],
    ons: Iterable[str],
    keep: Mapping[bytes, str] | None = None,
    by_git: int = 0,
    unrecovered: tuple[PathNote, ...] = (),
    warnings: tuple[Warned, ...] = (),
) -> Plan:
    """The plan that follows from what comes of each path. `backs` and `ons` are ids of `changes`: those of
    paths that are left as they are do not count as taken back or put on."""
    if options.on_conflict == "overwrite":
        outcomes = [overwritten(o) if isinstance(o, Conflict) else o for o in outcomes]
    outcomes = [_at_hand(o, disk) if isinstance(o, Wanted) else o for o in outcomes]
    wanted = {o.path: o for o in outcomes if isinstance(o, Wanted) and o.before != o.after}
    done, blocked = settle(wanted, disk.state, disk.children, _modes(changes))
    # A folder that is made for what comes back into it is in nobody's way any more.
    conflicts = [o for o in outcomes if isinstance(o, Conflict) and o.path not in done] + blocked
    disputed = {conflict.path for conflict in conflicts}
    kept = {o.path: o.why for o in outcomes if isinstance(o, Kept)}
    told = {p: why for p, why in {**(keep or {}), **kept}.items() if p not in disputed | done.keys()}
    left = disputed | kept.keys() | (wanted.keys() - done.keys())
    paths = {change.id: change.path for change in changes}
    steps = in_order(done.values())
    folders = frozenset(s.path for s in steps if "dir" in (s.before.kind, s.after.kind))
    merged = {step.path for step in steps if done[step.path].merged}
    return Plan(
        steps=steps,
        write=topmost((s.path for s in steps if s.after.present and s.path not in merged), folders),
        delete=topmost((step.path for step in steps if _removes(step)), folders),
        merge=topmost(merged, folders),
        keep=_notes(told, disk),
        conflict=tuple(sorted(conflicts, key=lambda conflict: conflict.path)),
        unrecovered=unrecovered,
        by_git=by_git,
        takes_back=tuple(i for i in backs if _reached(paths.get(i), left, options)),
        puts_on=tuple(i for i in ons if _reached(paths.get(i), left, options)),
        warnings=warnings,
        refused=bool(conflicts) and options.on_conflict != "skip",
    )


def _at_hand(want: Wanted, disk: Disk) -> Outcome:
    """A path whose content to be written cannot be had is in conflict, and no reason to leave the others."""
    if want.after.oid in ("", want.before.oid):
        return want
    why = disk.lacking(want.after.oid)
    return Conflict(want.path, why, want.before) if why else want


def _removes(step: FileStep) -> bool:
    """What is gone afterwards: also a file or link that gives way to a folder."""
    return not step.after.present or (step.before.kind in ("file", "link") and step.after.kind == "dir")


def same(approved: Plan, again: Plan) -> list[bytes]:
    """The paths on which two plans differ: what is approved must be what is done."""
    told = _what(approved), _what(again)
    return sorted(path for path in {*told[0], *told[1]} if told[0].get(path) != told[1].get(path))


def moved(then: GitPosition | None, now: GitPosition | None) -> tuple[Warned, ...]:
    """Warnings where the project's repository stands elsewhere than at the target."""
    if then is None or now is None:
        return ()
    found = []
    if (then.head, then.branch) != (now.head, now.branch):
        found.append(Warned("head_moved", f"HEAD was at {_named(then)} then and is at {_named(now)} now"))
    if then.operation != now.operation:
        told = (
            f"git was in the middle of: {then.operation or 'nothing'} then, {now.operation or 'nothing'} now"
        )
        found.append(Warned("git_operation", told))
    return tuple(found)


def _modes(changes: Iterable[Change]) -> dict[bytes, int]:
    """The last known permissions of each folder that ever changed."""
    return {c.path: state.mode for c in changes for state in (c.before, c.after) if state.kind == "dir"}


def _notes(keep: Mapping[bytes, str], disk: Disk) -> tuple[PathNote, ...]:
    told = [path for path, why in keep.items() if why]
    folders = frozenset(path for path in told if disk.state(path).kind == "dir")
    return tuple(PathNote(path, keep[path]) for path in topmost(told, folders))


def _reached(path: bytes | None, left: Collection[bytes], options: Options) -> bool:
    return path is None or (path not in left and inside(path, options.paths))


def _what(plan: Plan) -> dict[bytes, object]:
    return {**{step.path: step for step in plan.steps}, **{c.path: c.before for c in plan.conflict}}


def _named(position: GitPosition) -> str:
    names = (position.branch or "").removeprefix("refs/heads/"), (position.head or "")[:12]
    return " ".join(name for name in names if name) or "no commit"
