"""The shadow store of each work tree: whether what was captured is there, whole, and can be read."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cli.checks.problem import Problem, counted, listed
from recorder.errors import Refused
from recorder.recording import lock_name

if TYPE_CHECKING:
    from projections.views import Views
    from recorder.capturing.mending import Damage
    from recorder.events import CaptureLost
    from recorder.home import Home
    from recorder.worktree import WorkTree

PATIENCE = 10.0
"""Seconds to wait for whoever is at work in a store that seems to be damaged."""

PASSING = ("lock", "leftover")
"""What a process that is at work has too, for a moment."""

HARMLESS = ("layout", *PASSING)
"""What costs no capture anything: the next one puts it right."""


def check_store(home: Home, views: Views, tree: WorkTree) -> Iterator[Problem]:
    """Every object that a capture needs is read. What is lost for good is told once, when it is found to be
    so: from then on its checkpoints say it."""
    found = _damage(home, views, tree)
    if not found:
        return
    lost: list[CaptureLost] = []
    yield Problem(
        "store_damaged",
        f"the store of {os.fsdecode(tree.path)} is damaged: {_told(found)}",
        "“recorder doctor --fix” repairs what can be, puts aside what is damaged, and says what is lost",
        "fault" if all(one.code in HARMLESS for one in found) else "integrity",
        lambda: _mend(home, tree, lost),
    )
    if lost:
        count = counted(len(lost), "capture")
        yield Problem(
            "contents_lost",
            f"{count} of {os.fsdecode(tree.path)} lost contents for good: {lost[0].why}",
            "“recorder checkpoints” says which can still be gone back to; new captures are whole",
            "integrity",
        )


def _damage(home: Home, views: Views, tree: WorkTree) -> Sequence[Damage]:
    """Looked at without the lock, since that may take long, and with it where something seems to be wrong."""
    from projections.mending import examine_tree

    found = examine_tree(home, views, tree.stream.hex)
    if not found:
        return found
    try:
        with home.lock(lock_name(tree.stream), timeout=PATIENCE):
            return examine_tree(home, views, tree.stream.hex)
    except Refused:
        return [one for one in found if one.code not in PASSING]


_KINDS = {
    "layout": ("part is not as it was made", "parts are not as they were made"),
    "lock": ("lock of a process that is dead", "locks of processes that are dead"),
    "leftover": ("leftover of a killed process", "leftovers of killed processes"),
    "object": ("damaged object or pack", "damaged objects or packs"),
    "index": ("damaged index", "damaged indexes"),
    "ref": ("capture that nothing keeps", "captures that nothing keeps"),
    "lost": ("capture that cannot be restored whole", "captures that cannot be restored whole"),
}


def _told(found: Sequence[Damage]) -> str:
    kinds = Counter(one.code for one in found)
    return ", ".join(counted(kinds[code], *nouns) for code, nouns in _KINDS.items() if kinds[code])


def _mend(home: Home, tree: WorkTree, lost: list[CaptureLost]) -> str:
    """Puts what is lost for good into `lost`."""
    from cli.context import open_recording
    from projections.mending import mend_tree

    with open_recording(home) as recording:
        done, gone = mend_tree(recording.home, recording.log, recording.views, tree.stream.hex)
    lost += gone
    told = listed([f"{one.path.name} ({one.done})" for one in done]) or "what is lost is recorded"
    return f"repaired the store of {os.fsdecode(tree.path)}: {told}"
