"""`recorder unpin`: let the retention decide on a checkpoint again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.options import CHECKPOINT_HELP, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("unpin", description="Let the retention decide on a checkpoint again.")
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT_HELP)
    with_session_option(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.naming import set_pinned

    return set_pinned(arguments, console, pinned=False)
