"""A progress bar on a terminal's stderr, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.output import Console


@contextlib.contextmanager
def counting(what: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """Yields a function that moves the bar on by a number of steps."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console.err, transient=True)
    with bar:
        task = bar.add_task(what, total=max(total, 1))
        yield lambda steps: bar.advance(task, steps)
