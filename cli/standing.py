"""Whether a recorded work tree is still there to be gone back to, for the commands that show checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recorder.worktree import WorkTree


def why_out_of_reach(work_tree: WorkTree) -> str | None:
    """Why the files of a work tree cannot be gone back to: its folder is gone, another one now, or closed."""
    from recorder.errors import Refused
    from recorder.worktree import still_there

    try:
        still_there(work_tree)
    except Refused as error:
        return error.message
    return None


def tell_out_of_reach(documents: Iterable[dict[str, Any]], why: str | None) -> None:
    """No checkpoint of a folder that is not there can be gone back to; each says why."""
    for one in documents:
        if why is not None and one["restorable"]:
            one["restorable"], one["why_not"] = False, why
