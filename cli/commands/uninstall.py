"""`recorder uninstall`: the recorder out of an agent's own configuration; what was recorded stays."""

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
        "uninstall",
        "Take the recorder out of an agent's own configuration and leave all else there as it is. What was "
        "recorded stays.",
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.installing import installer_of

    installer = installer_of(arguments.agent)
    changes = installer.uninstall(where_of(arguments))
    words = (
        f"The recorder is no longer in {arguments.agent}; what was recorded stays.",
        f"The recorder is not in {arguments.agent}.",
    )
    return carry_out_and_tell(arguments, console, changes, words, list)
