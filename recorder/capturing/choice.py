"""What a scan takes in and what it leaves out: the policy, the settings and git's verdicts, for one path.

Decides only; `recorder.capturing.scan` lists and `recorder.capturing.filling` reads.
"""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase

from recorder import events
from recorder.capturing import mounts
from recorder.capturing.ignore import Verdict
from recorder.capturing.looking import Leaf, left_out
from recorder.capturing.patterns import Patterns
from recorder.capturing.trees import Snapshot
from recorder.home import Home
from recorder.policy import (
    MAX_DEPTH,
    MAX_SMALL_IGNORED_BYTES,
    MAX_SMALL_IGNORED_FILES,
    SMALL_IGNORED,
    Policy,
    size,
)
from recorder.states import PathState
from recorder.worktree import WorkTree


class Surroundings:
    """What a scan must not enter: the recorder's home, folders that have a store of their own, and file
    systems that the system makes up or that show the tree once more."""

    def __init__(self, home: Home, tree: WorkTree) -> None:
        status = home.folder.stat()
        self._home = (status.st_dev, status.st_ino)
        self._root = tree.path.rstrip(b"/")
        self._made_up, self._twins = mounts.made_up(), mounts.twins(tree.path)
        self._stores = {entry.name for entry in home.trees.iterdir()} - {tree.stream.hex}

    def claim(self, path: bytes, status: os.stat_result) -> str | None:
        """Why this folder belongs to something else, or None."""
        if (status.st_dev, status.st_ino) == self._home:
            return "the recorder's own home"
        if status.st_dev in self._made_up:
            return mounts.reason(self._made_up[status.st_dev])
        if self._twins and self._root + b"/" + path in self._twins:
            return "a part of this tree that is bound into it once more"
        if self._stores:
            stream = events.tree_stream(self._root + b"/" + path, status.st_dev, status.st_ino)
            if stream.hex in self._stores:
                return "a work tree that is recorded by itself"
        return None


class Choice:
    """The choices of one scan. `before` is the capture before it."""

    def __init__(self, policy: Policy, surroundings: Surroundings, before: Snapshot | None) -> None:
        self._policy, self._surroundings, self._before = policy, surroundings, before
        self._exclude = Patterns(policy.exclude)
        self._include = Patterns(policy.include_ignored)
        self._small_ignored = 0

    def held(self, path: bytes) -> PathState | None:
        """What was captured at a path the last time; None where nothing was."""
        state = self._before.state(path) if self._before else None
        return state if state is not None and state.present else None

    def included(self, path: bytes) -> bool:
        """Whether the settings take in everything in this ignored folder."""
        return bool(self._include) and self._include.match(path, True)

    def left_out(
        self, path: bytes, status: os.stat_result, verdict: Verdict | None, included: bool
    ) -> Leaf | None:
        """The leaf for what is not captured, or None where it is.

        `verdict` is None for what git tracks; `included` tells that the settings take the folder in
        that it is in. What was captured before stays, whatever git says and however large it is;
        what the settings exclude does not.
        """
        mode = status.st_mode
        if stat.S_ISREG(mode) and verdict is None and not self._exclude:
            return None
        why = self._never(path, status)
        if why is not None:
            return Leaf("skipped", ctime=status.st_ctime_ns, why=why)
        if verdict is None or (verdict is False and not self._too_large(status)):
            return None
        leaf = self._ruled_out(path, status, verdict, included)
        if leaf is None or self.held(path) is None:
            return leaf
        return None

    def _never(self, path: bytes, status: os.stat_result) -> str | None:
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder:
            if path.count(b"/") >= MAX_DEPTH:
                return f"nested deeper than {MAX_DEPTH:,} folders"
            claim = self._surroundings.claim(path, status)
            if claim is not None:
                return claim
        if self._exclude and self._exclude.match(path, is_folder):
            return "excluded by the settings"
        return left_out(status.st_mode)

    def _ruled_out(
        self, path: bytes, status: os.stat_result, verdict: Verdict, included: bool
    ) -> Leaf | None:
        if isinstance(verdict, str):
            return Leaf("unknown", ctime=status.st_ctime_ns, why=verdict)
        if verdict and not included and not self._wanted_all_the_same(path, status):
            return Leaf("skipped", ctime=status.st_ctime_ns, why="ignored by git's rules")
        if self._too_large(status):
            why = f"untracked and larger than {size(self._policy.max_untracked_bytes)}"
            return Leaf("skipped", ctime=status.st_ctime_ns, why=why)
        return None

    def _too_large(self, status: os.stat_result) -> bool:
        return stat.S_ISREG(status.st_mode) and status.st_size > self._policy.max_untracked_bytes

    def _wanted_all_the_same(self, path: bytes, status: os.stat_result) -> bool:
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._include.match(path, is_folder) or (is_folder and self._include.lead_into(path)):
            return True
        name = path.rpartition(b"/")[2]
        if (
            not stat.S_ISREG(status.st_mode)
            or status.st_size > MAX_SMALL_IGNORED_BYTES
            or self._small_ignored >= MAX_SMALL_IGNORED_FILES
            or not any(fnmatchcase(name, pattern) for pattern in SMALL_IGNORED)
        ):
            return False
        self._small_ignored += 1
        return True
