"""What killed processes leave in a store: lock files of git, and files that were being written.

Every git of ours runs under the work tree's lock, so whoever holds that finds only dead ones here, unless a
person runs git in the store by hand.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from recorder.errors import StoreFailure

OLD_S = 6 * 3600
"""Seconds after which a half-written file is surely nobody's."""
PATIENCE_S = 10.0
"""Seconds that the lock of a living process is waited for."""
_AGAIN_S = 0.1
_LOCKS = (
    "*.lock",
    "gc.pid",
    "info/*.lock",
    "objects/info/**/*.lock",
    "objects/pack/*.lock",
    "refs/**/*.lock",
)
_HALF_WRITTEN = (
    "*.new",
    "new-ref",
    "info/*.new",
    "info/refs_*",
    "objects/info/packs_*",
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/tmp_*",
    "objects/??/tmp_obj_*",
)
_BESIDE = ("generation.new", "stat-cache.new", "kind.new")


def locks(store: Path) -> list[Path]:
    """The lock files that git left or holds in a store."""
    return sorted({path for pattern in _LOCKS for path in store.glob(pattern) if not path.is_dir()})


def half_written(store: Path, *, older_than_s: float = 0) -> list[Path]:
    """Files that were being written when their process was killed."""
    found = {path for pattern in _HALF_WRITTEN for path in store.glob(pattern) if not path.is_dir()}
    found |= {store.parent / name for name in _BESIDE if (store.parent / name).is_file()}
    return sorted(path for path in found if _age_s(path) >= older_than_s)


def sweep(store: Path, *, older_than_s: float = 0) -> list[Path]:
    """Remove what was half written, under the work tree's lock; what was removed. Raises StoreFailure."""
    removed = []
    for path in half_written(store, older_than_s=older_than_s):
        with contextlib.suppress(FileNotFoundError):
            _remove(path)
            removed.append(path)
    return removed


def reclaim(store: Path) -> list[Path]:
    """Remove the locks of dead processes, under the work tree's lock; what was removed. A living process is
    waited for. Raises StoreFailure where it does not end."""
    if locks(store):
        wait_for_git(store)
    removed = []
    for path in locks(store):
        with contextlib.suppress(FileNotFoundError):
            _remove(path)
            removed.append(path)
    return removed


def wait_for_git(store: Path) -> None:
    """Return when no git is at work in a store. Raises StoreFailure where it does not end."""
    deadline = time.monotonic() + PATIENCE_S
    while (owner := _at_work(store)) is not None:
        if time.monotonic() > deadline:
            raise StoreFailure(f"process {owner} is at work with git in the shadow store {store}")
        time.sleep(_AGAIN_S)


def _at_work(store: Path) -> int | None:
    """The id of a living git that was told to work on this store, or works in its folder."""
    import psutil

    name = os.path.realpath(store)
    for process in psutil.process_iter(["name", "cmdline", "cwd"]):
        said = process.info
        if not (said["name"] or "").startswith("git") or process.pid == os.getpid():
            continue
        words = said["cmdline"] or []
        if any(name in word for word in words) or (said["cwd"] or "").startswith(name):
            return int(process.pid)
    return None


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreFailure(
            f"{path}, left by a killed process, cannot be removed: {error.strerror}"
        ) from error


def _age_s(path: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return time.time() - path.lstat().st_mtime
    return 0.0


def lone(packs: Path) -> Iterator[Path]:
    """Packs without an index, and indexes without a pack: a killed process wrote one of the two."""
    for pack in sorted(packs.glob("pack-*.pack")):
        if not pack.with_suffix(".idx").exists():
            yield pack
    for index in sorted(packs.glob("pack-*.idx")):
        if not index.with_suffix(".pack").exists():
            yield index
