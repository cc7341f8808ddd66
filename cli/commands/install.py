"""`recorder install`: the recorder into an agent's own configuration."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.installing.running import add_command, carry_out_and_tell, where_of

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    add_command(
        subparsers,
        "install",
        "Put the recorder's hooks or extension into an agent's own configuration, beside what stands there.",
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.installing import installer_of
    from recorder.home import open_home

    installer, where = installer_of(arguments.agent), where_of(arguments)
    changes = installer.install(where)
    if not arguments.dry_run:
        open_home(where.home)
    words = (f"The recorder is in {arguments.agent} now.", f"The recorder is in {arguments.agent} already.")
    return carry_out_and_tell(arguments, console, changes, words, lambda: installer.advice(where))
