"""`recorder hook`: one hook call of an agent, spelled out."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "hook",
        description="Take one hook call of an agent: its JSON document on stdin. It never disturbs the "
        "agent: it says nothing and always ends well.",
    )
    parser.add_argument("agent", metavar="AGENT", help="the agent whose hook this is")


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.hooks import client_command
    from cli.policy import settings

    now = settings()
    if now.enabled:
        words = client_command(arguments.agent, arguments.home, now.hook_budget_ms)
        os.execv(sys.executable, words)
    return 0
