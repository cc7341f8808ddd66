"""Tables for people: one shape for every command, each row on one line of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

RIGHT = frozenset({"#", "checkpoints", "events", "position"})
KEPT_WHOLE = frozenset({"#", "session", "agent", "activity", "when", "changes", "state", "position"})


def table(*columns: str) -> Table:
    """A table without frames; the last column takes what is left and is cut with `…`."""
    from rich import box
    from rich.table import Table

    shape = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", expand=False)
    for column in columns:
        shape.add_column(
            column,
            justify="right" if column in RIGHT else "left",
            no_wrap=True,
            overflow="ellipsis",
            min_width=len(column) if column in KEPT_WHOLE else None,
        )
    return shape
