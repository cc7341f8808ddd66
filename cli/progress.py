"""Progress bars on a terminal's stderr, and nothing elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.output import Console
    from recorder.planning.planned import Plan
    from recorder.rewind import Step

PATIENCE = 1.0
"""Seconds of work after which a bar is shown that is not shown at once."""


@contextlib.contextmanager
def counting_late(what: str, total: int, console: Console) -> Iterator[Callable[[int], None]]:
    """As `counting`, but the bar only appears where the work takes longer than a moment."""
    began, done = time.monotonic(), 0
    with contextlib.ExitStack() as bar:
        advance: Callable[[int], None] | None = None

        def step(steps: int) -> None:
            nonlocal advance, done
            done += steps
            if advance is not None:
                advance(steps)
            elif time.monotonic() - began > PATIENCE:
                advance = bar.enter_context(counting(what, total, console))
                advance(done)

        yield step


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


_EFFECTS_OF_A_WRITE, _EFFECTS_OF_A_DELETION = 6, 2
"""About so many effects on the disk does a path take, from its first private name to the end of the last."""


@contextlib.contextmanager
def writing(plan: Plan, console: Console) -> Iterator[dict[str, Step]]:
    """On a terminal, the option of `carry_out` by which a person sees how far it is; elsewhere none."""
    if not sys.stderr.isatty():
        yield {}
        return
    writes = sum(step.after.present for step in plan.steps)
    total = _EFFECTS_OF_A_WRITE * writes + _EFFECTS_OF_A_DELETION * (len(plan.steps) - writes)
    with counting_late("writing files", total, console) as advance:
        yield {"before_step": lambda name: advance(1) if name.startswith("after ") else None}
