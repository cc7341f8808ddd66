"""A work tree that is captured with its log, as a reactor does it, and a look at what came of it."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from projections.capture import last_commit
from projections.mending import account_for, mend_tree
from projections.past import past
from projections.prune import live_captures
from projections.views import Views, open_views
from recorder.capture import Policy, Tree
from recorder.errors import Failed
from recorder.events import Captured, CaptureFailed
from recorder.home import open_home
from recorder.log import EventLog, open_log
from recorder.recording import Occasion, lock_name, open_stream, record_capture
from recorder.states import PathState
from tests.capture.helpers import blob_id, everything, make_repository, on_disk, resolved, run_git


class Open(NamedTuple):
    log: EventLog
    views: Views
    tree: Tree


class Recorded:
    """`states` is what stood in the work tree at each capture of the log, by its position among them."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path, self.root = tmp_path, make_repository(tmp_path / "w")
        self.home, self.work_tree = open_home(tmp_path / "home"), resolved(tmp_path, self.root)
        self.tree_id = self.work_tree.stream.hex
        self.states: list[dict[bytes, PathState]] = []
        with self.open():
            pass

    @property
    def store(self) -> Path:
        return self.home.store(self.work_tree.stream)

    @contextlib.contextmanager
    def open(self) -> Iterator[Open]:
        with (
            contextlib.closing(open_log(self.home)) as log,
            open_views(self.home, log) as views,
            self.home.lock(lock_name(self.work_tree.stream)),
            Tree(self.home, self.work_tree, Policy(), lambda: past(views, self.tree_id)) as tree,
        ):
            views.catch_up()
            yield Open(log, views, tree)

    def capture(self) -> Captured | CaptureFailed:
        """One capture; the log says what came of it."""
        with self.open() as (log, views, tree):
            open_stream(log, self.work_tree)
            outcome = record_capture(
                log,
                tree,
                self.work_tree.stream,
                Occasion(moment="start", source="log"),
                previous=last_commit(views, self.work_tree.stream),
            )
            views.catch_up()
            if tree.damaged:
                account_for(self.home, log, views, self.tree_id)
            return outcome

    def captured(self) -> Captured:
        """A capture that must go well, with its state."""
        outcome = self.capture()
        assert isinstance(outcome, Captured), outcome
        self.states.append(on_disk(self.root))
        return outcome

    def mend(self) -> None:
        with contextlib.closing(open_log(self.home)) as log, open_views(self.home, log) as views:
            mend_tree(self.home, log, views, self.tree_id)

    def collect(self, released: list[str]) -> None:
        with self.open() as (_, views, tree):
            live = set(live_captures(views, self.tree_id, 0).values()) - set(released)
            if tree.release(released):
                tree.collect(live)

    def commits(self) -> list[str]:
        with contextlib.closing(open_log(self.home)) as log:
            facts = [stored.fact for stored in log.read(limit=1000)]
            assert list(log.check()) == []
        return [fact.commit for fact in facts if isinstance(fact, Captured)]

    def check(self, without: frozenset[str] = frozenset()) -> None:
        """Every capture of the log can be restored byte for byte, but those let go; git finds no fault."""
        now = on_disk(self.root)
        if (self.store / "HEAD").exists():
            run_git(self.store, "fsck", "--full", "--strict", "--no-dangling")
        with Tree(self.home, self.work_tree, Policy()) as tree:
            for number, commit in enumerate(self.commits()):
                if commit in without:
                    continue
                state = self.states[number] if number < len(self.states) else now
                assert dict(tree.walk(commit)) == state
                for path, one in state.items():
                    assert not one.oid or blob_id(tree.blob(one.oid)) == one.oid, path

    def check_next(self) -> None:
        """The next capture is complete, its delta is exact, and git finds nothing wrong."""
        count = len(self.commits())
        before = self.states[count - 1] if 0 < count <= len(self.states) else on_disk(self.root)
        outcome = self.capture()
        now = on_disk(self.root)
        assert isinstance(outcome, Captured), outcome
        changed = {path for path in before.keys() | now.keys() if before.get(path) != now.get(path)}
        assert {change.path for change in outcome.delta} == changed
        with Tree(self.home, self.work_tree, Policy()) as tree:
            assert dict(tree.walk(outcome.commit)) == now
            tree.fsck()


class Kept:
    """A home that is put back as it was as often as needed, beside a work tree that nothing may change."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded, self._copy = recorded, recorded.tmp_path / "kept"
        shutil.copytree(recorded.home.folder, self._copy)
        self._root = everything(recorded.root)

    def put_back(self) -> None:
        shutil.rmtree(self._recorded.home.folder)
        shutil.copytree(self._copy, self._recorded.home.folder)

    def check_untouched(self) -> None:
        assert everything(self._recorded.root) == self._root


def tolerant(recorded: Recorded) -> None:
    """A capture on a disk that is full: what it may come to."""
    with contextlib.suppress(Failed):
        recorded.capture()
