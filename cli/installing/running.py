"""What `install` and `uninstall` share: where to, what would change, and what is said of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.installing.base import Change, Where
    from cli.options import Subparsers
    from cli.output import Console


def add_command(subparsers: Subparsers, name: str, description: str) -> None:
    from cli.installing import AGENTS
    from cli.options import with_folder, with_json

    parser = subparsers.add_parser(name, description=description)
    parser.add_argument("agent", metavar="AGENT", help=" or ".join(AGENTS))
    parser.add_argument(
        "--scope",
        choices=("user", "project"),
        default="user",
        help="your own configuration of the agent (default), or that of the project in this folder",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, change nothing")
    with_folder(parser)
    with_json(parser)


def where_of(arguments: argparse.Namespace) -> Where:
    from cli.context import current_folder, home_folder
    from cli.installing.base import Where
    from cli.policy import settings

    return Where(
        scope=arguments.scope,
        folder=Path(os.fsdecode(current_folder(arguments))),
        user_home=Path.home(),
        environment=os.environ,
        home=home_folder(arguments).resolve(),
        budget_ms=settings().hook_budget_ms,
    )


def carry_out_and_tell(
    arguments: argparse.Namespace,
    console: Console,
    changes: list[Change],
    words: tuple[str, str],
    advice: Callable[[], list[str]],
) -> int:
    """`words`: what is said when it was done, and where there was nothing to do."""
    from cli.installing.base import carry_out, difference, documents

    if not arguments.dry_run:
        carry_out(changes)
    status = "noop" if not changes else "planned" if arguments.dry_run else "done"
    notes = advice() if changes else []
    if arguments.json:
        document = {"agent": arguments.agent, "scope": arguments.scope, "status": status}
        console.json(document | {"files": documents(changes), "notes": notes})
        return 0
    for change in changes:
        console.show(
            difference(change).rstrip("\n") if arguments.dry_run else f"  {change.word:<9} {change.path}"
        )
    if status == "noop":
        console.show(words[1])
    elif status == "done":
        console.show("\n".join([words[0], *notes]))
    return 0
