"""`recorder doctor`: what is wrong with the recording and around it, and mending what can be mended."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.options import with_json

if TYPE_CHECKING:
    from cli.checks.problem import Mended, Problem
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "doctor",
        description="Say what is wrong with the recording, git, the settings and the agents' folders, and "
        "what to do about each.",
    )
    parser.add_argument("--fix", action="store_true", help="mend what can be mended without asking")
    with_json(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.checks.examination import STEPS, examine
    from cli.checks.problem import exit_code, mend_all
    from cli.context import home_folder
    from cli.progress import counting

    with counting("looking", STEPS, console) as advance:
        problems = examine(home_folder(arguments), lambda: advance(1))
        stay, mended = mend_all(problems) if arguments.fix else (list(problems), [])
    if arguments.json:
        console.json(
            {
                "problems": [{"code": one.code, "message": one.message, "fix": one.fix} for one in stay],
                "fixed": [{"code": one.code, "message": one.message} for one in mended],
            }
        )
    else:
        _show(stay, mended, console)
    return exit_code(stay, mended)


def _show(stay: list[Problem], mended: list[Mended], console: Console) -> None:
    for one in mended:
        _item(console, "✓", "green", one.message)
    signs = {"integrity": ("✗", "red"), "fault": ("✗", "red"), "advice": ("•", "yellow")}
    for problem in sorted(stay, key=lambda one: one.gravity == "advice"):
        sign, colour = signs[problem.gravity]
        _item(console, sign, colour, problem.message, problem.fix)
    faults = sum(one.gravity != "advice" for one in stay)
    console.show(_summary(faults, len(stay) - faults, len(mended)))


def _item(console: Console, sign: str, colour: str, message: str, fix: str = "") -> None:
    """A sign, the sentence beside it, and below what to do; wrapped on a terminal alone."""
    from rich.table import Table
    from rich.text import Text

    from recorder.plain import one_line

    grid = Table.grid(padding=(0, 1))
    grid.add_row(Text(sign, style=colour), one_line(message))
    if fix:
        grid.add_row("", Text(f"→ {one_line(fix)}", style="dim"))
    console.show(grid)


def _summary(faults: int, advice: int, mended: int) -> str:
    from cli.checks.problem import counted

    if not (faults or advice or mended):
        return "Nothing is wrong."
    nothing = "no problem is left" if mended else "nothing is wrong"
    parts = [counted(faults, "problem") if faults else nothing]
    parts += [f"{mended} mended"] if mended else []
    parts += [f"{advice} to know of"] if advice else []
    sentence = ", ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."
