"""Tables for people: one shape for every command, each row on one line of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from cli.output import Console

RIGHT = frozenset({"#", "checkpoints", "events", "position"})


def table(console: Console, *columns: str) -> Table:
    """A table without frames. On a terminal the last column takes what is left and is cut with `…`;
    elsewhere nothing is cut."""
    from rich import box
    from rich.table import Table

    from cli.output import UNLIMITED

    bounded = console.width < UNLIMITED
    shape = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", expand=bounded)
    for column in columns:
        last = column == columns[-1]
        shape.add_column(
            column,
            justify="right" if column in RIGHT else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if last and bounded else None,
        )
    return shape
