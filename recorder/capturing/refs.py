"""The refs that keep captures alive, where they are damaged or lost. A ref has the name of its commit, so
that what it said is never lost with it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from recorder.capturing.durable import put_aside
from recorder.capturing.layout import CAPTURES, quarantine
from recorder.capturing.store import Store
from recorder.errors import StoreFailure

_NAME = re.compile(r"[0-9a-f]{40}")
_PACKED = re.compile(rb"#.*|\^?[0-9a-f]{40}( refs/[^\0]+)?|")
"""A line of `packed-refs`: gitrepository-layout(5)."""


def names(store: Store) -> set[str]:
    """The commits that have a ref."""
    loose = {path.name for path in (store.folder / CAPTURES).glob("*") if _NAME.fullmatch(path.name)}
    return loose | _named_in(store.folder / "packed-refs")


def damaged(store: Store, captures: Collection[str]) -> Iterator[tuple[Path, str]]:
    """Refs that are not what was written, and captures that are stored and have none."""
    folder = store.folder / CAPTURES
    for commit in sorted({*(path.name for path in folder.glob("*")), *captures}):
        if store.has_ref(commit) or commit.endswith(".lock"):
            continue
        if (folder / commit).exists():
            yield folder / commit, "the ref is damaged"
        elif bytes.fromhex(commit) in store.stored():
            yield folder / commit, "nothing keeps the capture alive"
    packed = store.folder / "packed-refs"
    if packed.exists() and not _is_list(packed):
        yield packed, "the list of refs is damaged"


def mend(store: Store, captures: Collection[str]) -> list[tuple[Path, str]]:
    """Put damaged refs aside, and give every one of the captures that is stored its ref, under the work
    tree's lock; what was done. Raises StoreFailure."""
    wanted, done = set(captures), []
    try:
        for path, why in list(damaged(store, ())):
            wanted |= {path.name} if _NAME.fullmatch(path.name) else _named_in(path)
            put_aside(path, quarantine(store.folder))
            done.append((path, f"put aside: {why}"))
    except OSError as error:
        raise StoreFailure(f"the refs of {store.folder} cannot be repaired: {error.strerror}") from error
    return done + [(store.folder / CAPTURES / commit, "made anew") for commit in store.keep(sorted(wanted))]


def _is_list(file: Path) -> bool:
    try:
        content = file.read_bytes()
    except OSError:
        return False
    return content.endswith(b"\n") and all(_PACKED.fullmatch(line) for line in content.split(b"\n"))


def _named_in(packed: Path) -> set[str]:
    """The captures that a damaged list of refs still names."""
    if not packed.is_file():
        return set()
    lines = packed.read_bytes().split(b"\n")
    found = (re.fullmatch(rb"([0-9a-f]{40}) " + CAPTURES.encode() + rb"\1", line) for line in lines)
    return {match[1].decode() for match in found if match}
