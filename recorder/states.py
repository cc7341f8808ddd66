"""The state of one path at one moment, and the difference between two moments."""

from __future__ import annotations

import msgspec


class PathState(msgspec.Struct, frozen=True, array_like=True):
    """What stands at a path.

    `kind` is `file`, `link`, `dir`, `absent` (known states), `skipped` (left out by policy) or
    `unknown` (should have been read and was not). `mode` holds the permission bits (0o7777) of
    files and folders, 0 otherwise. `oid` is the hex id of the git blob with the file's bytes or the
    link's target, empty otherwise.
    """

    kind: str
    mode: int = 0
    oid: str = ""

    @property
    def known(self) -> bool:
        return self.kind not in ("skipped", "unknown")

    @property
    def present(self) -> bool:
        return self.kind in ("file", "link", "dir")


ABSENT = PathState("absent")
SKIPPED = PathState("skipped")
UNKNOWN = PathState("unknown")


class PathChange(msgspec.Struct, frozen=True, array_like=True):
    """One path between two captures of a work tree.

    `path` is relative to the work tree, with `/`, raw bytes; absolute for a file outside it.
    `changed_at` is in ns since the epoch, by the file system: the change time of what stands there,
    or the time of the last change in the folder that it is gone from; 0 where neither is known.
    `above_changed_at` is the latest change time of the folders above it: what is moved with its folder
    keeps its own times. `by_git` tells that before and after are what two HEADs joined by a git operation
    hold there.
    """

    path: bytes
    before: PathState
    after: PathState
    changed_at: int = 0
    by_git: bool = False
    above_changed_at: int = 0


class PathNote(msgspec.Struct, frozen=True, array_like=True):
    """A path and the reason why it is skipped or unknown."""

    path: bytes
    why: str


class GitPosition(msgspec.Struct, frozen=True, array_like=True):
    """Where the project's repository stood: HEAD's commit id, the branch's full ref name (None when
    detached), and an operation in progress: `merge`, `rebase`, `cherry-pick`, `revert`, `bisect`, `am`.

    `stash` is the commit that holds what was set aside last: by the operation in progress, else by `git
    stash`. `merging` is the commit that a merge in progress brings in. `reflog` is how long HEAD's reflog
    was (bytes): what it tells behind that came later."""

    head: str | None = None
    branch: str | None = None
    operation: str | None = None
    stash: str | None = None
    merging: str | None = None
    reflog: int | None = None
