"""`recorder label`: give a checkpoint a name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cli.options import CHECKPOINT_HELP, with_session_option

if TYPE_CHECKING:
    from cli.options import Subparsers
    from cli.output import Console


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "label", description="Give a checkpoint a name; it is kept for good while it has one."
    )
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help=CHECKPOINT_HELP)
    parser.add_argument("name", metavar="NAME", help="the name; an empty one takes it away")
    with_session_option(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    from cli.naming import set_label

    return set_label(arguments, console)
