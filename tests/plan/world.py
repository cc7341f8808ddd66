"""A work tree in memory, with agents, a person and rewinds working in it, and the history it leaves.

The disk here is a dict with the rules of a real one: no file without its folder, no folder removed
while something is in it. Captures compare it with what they saw before, as the recorder's do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from recorder.events import FileStep, NamedFile
from recorder.history import Change, Operation, Run, Transition, TreeHistory, Window
from recorder.planning.attribution import attribute
from recorder.planning.plan import Disk, Options, Plan, Target, plan_inverse, plan_rewind, plan_tree
from recorder.planning.spans import Locate
from recorder.planning.threeway import Unmerged
from recorder.states import ABSENT, PathState

SECOND = 1_000_000_000
ROOT = b"/w"


def file(text: str, mode: int = 0o644) -> PathState:
    """The state of a file with this content."""
    return PathState("file", mode, oid(text))


def oid(text: str) -> str:
    """The id of a content; contents can be read back by their ids."""
    name = hashlib.sha1(text.encode()).hexdigest()
    TEXTS[name] = text
    return name


TEXTS: dict[str, str] = {}


def merge_texts(_: bytes, base: str, theirs: str, ours: str) -> str | Unmerged:
    """A model of a merge: texts of as many lines are merged line by line, others never."""
    texts = [TEXTS[one].split("\n") for one in (base, theirs, ours)]
    if len({len(text) for text in texts}) > 1:
        return Unmerged("the model merges no such texts")
    lines = []
    for old, new, standing in zip(*texts, strict=True):
        if old != standing != new != old:
            return Unmerged("a line was changed on both sides")
        lines.append(new if standing == old else standing)
    return oid("\n".join(lines))


DIR = PathState("dir", 0o755)


def relative_to(root: bytes) -> Locate:
    """For named paths that are free of links: relative where below `root`, else as they are."""
    head = root.rstrip(b"/") + b"/"
    return lambda path: path[len(head) :] if path.startswith(head) else path


@dataclass
class Checkpoint:
    """What a rewind to here must bring back, by the model's own account."""

    target: Target
    disk: dict[bytes, PathState]
    standing: dict[str, frozenset[str]]


@dataclass
class World:
    disk: dict[bytes, PathState] = field(default_factory=dict)
    times: dict[bytes, int] = field(default_factory=dict)
    clock: int = 1_000 * SECOND
    position: int = 0
    seen: dict[bytes, PathState] = field(default_factory=dict)
    captured_at: int = 0
    captures: int = 0
    transitions: list[Transition] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    standing: dict[str, frozenset[str]] = field(default_factory=dict)

    # ---- the disk

    def tick(self, seconds: float = 1) -> int:
        self.clock += int(seconds * SECOND)
        return self.clock

    def put(self, path: bytes, state: PathState) -> None:
        folder = _folder(path)
        assert folder == b"" or self.disk[folder].kind == "dir", f"{path!r} has no folder"
        if state.kind != "dir" and self.disk.get(path, ABSENT).kind == "dir":
            assert not self.children(path), f"{path!r} is not empty"
        self.disk[path] = state
        self.times[path] = self.times[folder] = self.tick()

    def drop(self, path: bytes) -> None:
        assert not self.children(path), f"{path!r} is not empty"
        del self.disk[path]
        self.times[_folder(path)] = self.tick()

    def write(self, path: bytes, text: str, mode: int = 0o644) -> None:
        """Like an agent's write tool: makes folders, takes the place of what is in the way."""
        if self.disk.get(path, ABSENT).kind == "dir":
            self.remove(path)
        for n in range(1, path.count(b"/") + 1):
            folder = b"/".join(path.split(b"/")[:n])
            if self.disk.get(folder, ABSENT).kind != "dir":
                self.put(folder, DIR)
        self.put(path, file(text, mode))

    def remove(self, path: bytes) -> None:
        """Like `rm -rf`."""
        for child in self.children(path):
            self.remove(child)
        if path in self.disk:
            self.drop(path)

    def children(self, path: bytes) -> list[bytes]:
        return [other for other in self.disk if _folder(other) == path]

    def now(self) -> Disk:
        return Disk(
            lambda path: self.disk.get(path, ABSENT),
            self.children,
            merge_texts,
            lambda _: "",
        )

    # ---- the recorder

    def event(self) -> int:
        self.position += 1
        return self.position

    def capture(self, operation: str | None = None) -> list[Transition]:
        position, until = self.event(), self.tick()
        self.captures += 1
        differing = sorted(
            path
            for path in {*self.disk, *self.seen}
            if self.disk.get(path, ABSENT) != self.seen.get(path, ABSENT)
        )
        delta = [
            Transition(
                id=f"k{self.captures}:{index}",
                position=position,
                path=path,
                before=self.seen.get(path, ABSENT),
                after=self.disk.get(path, ABSENT),
                changed_at=self._changed_at(path),
                by_git=False,
                since=self.captured_at,
                until=until,
                operation=operation,
            )
            for index, path in enumerate(differing)
        ]
        self.seen, self.captured_at = dict(self.disk), until
        self.transitions += delta
        return delta

    def _changed_at(self, path: bytes) -> int:
        if path in self.disk:
            return self.times[path]
        while (path := _folder(path)) and path not in self.disk:
            pass
        return self.times.get(path, 0)

    def history(self) -> TreeHistory:
        return TreeHistory(
            tuple(self.transitions), tuple(self.runs), tuple(self.windows), tuple(self.operations)
        )

    def changes(self) -> list[Change]:
        return attribute(self.history(), locate=relative_to(ROOT), contains=lambda _oid, _text: True)

    # ---- who works here

    def checkpoint(self) -> Checkpoint:
        self.capture()
        return Checkpoint(Target(self.position, self.clock), dict(self.disk), dict(self.standing))

    @contextmanager
    def run(self, session: str, *, settles: bool = True) -> Iterator[Checkpoint]:
        """A prompt, its checkpoint and its run; what the model holds as the session's is noted."""
        before = self.checkpoint()
        name, position, began_at = f"p{self.event()}", self.position, self.tick()
        self.runs.append(Run(session, name, position, began_at, None, began_at))
        yield before
        ended_at = self.tick()
        self.runs[-1] = Run(session, name, position, began_at, ended_at if settles else None, ended_at)
        self.tick()
        made = self.capture()
        self.standing[session] = self.standing.get(session, frozenset()) | {t.id for t in made}

    @contextmanager
    def tool(
        self,
        *files: NamedFile,
        writes: str = "any",
        returns: bool = True,
        background: bool = False,
        failed: bool = False,
    ) -> Iterator[None]:
        """A tool call of the newest run."""
        run, call = self.runs[-1], f"t{self.event()}"
        began_at = self.tick()
        yield
        ended_at = self.tick() if returns else None
        self.windows.append(
            Window(run.session, run.run, call, "tool", writes, began_at, ended_at, background, files, failed)
        )

    def act(self, session: str, work: Callable[[], None]) -> Checkpoint:
        """A whole run with one shell call."""
        with self.run(session) as before, self.tool():
            work()
        self.tick()
        return before

    def edits(self, session: str, path: bytes, text: str) -> Checkpoint:
        return self.act(session, lambda: self.write(path, text))

    def person(self, work: Callable[[], None]) -> None:
        """Somebody's own work between two runs."""
        self.tick()
        work()
        self.tick()

    # ---- rewinds

    def plan(self, session: str, to: Checkpoint, **options: object) -> Plan:
        self.capture()
        return plan_rewind(
            self.changes(),
            self.operations,
            self.now(),
            session=session,
            target=to.target,
            options=Options(**options),  # type: ignore[arg-type]
        )

    def rewind(self, session: str, to: Checkpoint, **options: object) -> Plan:
        plan = self.plan(session, to, **options)
        if not plan.refused:
            self.apply(plan, session)
        return plan

    def rewind_tree(self, session: str, to: Checkpoint, **options: object) -> Plan:
        self.capture()
        plan = plan_tree(
            to.disk,
            set(self.disk),
            self.changes(),
            self.operations,
            self.now(),
            target=to.target,
            options=Options(**options),  # type: ignore[arg-type]
        )
        if not plan.refused:
            self.apply(plan, session)
        return plan

    def take_back(self, operation: Operation, **options: object) -> Plan:
        self.capture()
        plan = plan_inverse(operation, self.changes(), self.now(), options=Options(**options))  # type: ignore[arg-type]
        if not plan.refused:
            self.apply(plan, operation.session, inverts=operation.operation)
        return plan

    def apply(self, plan: Plan, session: str, *, inverts: str | None = None, capture: bool = True) -> None:
        position = self.event()
        for step in plan.steps:
            self._do(step)
        operation = Operation(
            operation=f"o{position}",
            position=position,
            verb="rewind",
            session=session,
            checkpoint=None,
            safety=f"k{self.captures}",
            steps=plan.steps,
            takes_back=plan.takes_back,
            puts_on=plan.puts_on,
            inverts=inverts,
            position_before=None,
            position_after=None,
            leaf_before=None,
            leaf_after=None,
            applied_at=self.tick(),
        )
        self.operations.append(operation)
        self.tick()
        if capture:
            self.capture(operation.operation)

    def _do(self, step: FileStep) -> None:
        assert self.disk.get(step.path, ABSENT) == step.before
        if step.after.present:
            self.put(step.path, step.after)
        else:
            self.drop(step.path)


def _folder(path: bytes) -> bytes:
    return path.rpartition(b"/")[0]
