"""The options that several commands share, each with one meaning everywhere."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def with_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def with_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cwd", metavar="DIR", help="another folder than the current one")


def with_at(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--at", metavar="EVENT", type=_position, help="as of this position of the log")


def with_session_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session", metavar="SESSION", help="a session id, a unique beginning of one, or “latest”"
    )
    with_folder(parser)


def with_session_argument(parser: argparse.ArgumentParser) -> None:
    """SESSION as a word, and as `--session` too."""
    parser.add_argument("word", metavar="SESSION", nargs="?", help="a session id or a unique beginning of one")
    with_session_option(parser)


CHECKPOINT_HELP = "a number, @-N, latest, a label, an id, or a time such as “2h ago”"


def _position(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is no position of the log; see “recorder log”")
    return int(word)
