"""The options that several commands share, each with one meaning everywhere."""

from __future__ import annotations

import argparse
import os
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
    parser.add_argument(
        "word", metavar="SESSION", nargs="?", help="a session id or a unique beginning of one"
    )
    with_session_option(parser)


CHECKPOINT_HELP = "a number, @-N, latest, a label, an id, or a time such as “2h ago”"
PLACE_HELP = f"{CHECKPOINT_HELP}; or a step: 3.2 before step 2 of prompt 3, 3.2+ after it, 3+ after the run"


def _position(word: str) -> int:
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} is no position of the log; see “recorder log”")
    return int(word)


def with_going_back(parser: argparse.ArgumentParser) -> None:
    """The options of rewind, undo and redo."""
    what = parser.add_mutually_exclusive_group()
    for word, meaning in (
        ("files", "only the files"),
        ("conversation", "only the conversation"),
        ("both", "files and conversation, or nothing"),
    ):
        what.add_argument(f"--{word}", dest="what", action="store_const", const=word, help=meaning)
    with_going_back_files(parser)


def with_going_back_files(parser: argparse.ArgumentParser) -> None:
    """What concerns the files alone."""
    parser.add_argument(
        "--path",
        metavar="P",
        action="append",
        type=_path,
        help="only this file or folder (repeatable); the conversation then stays, unless --both is said",
    )
    parser.add_argument(
        "--new-files",
        choices=("delete", "keep"),
        default="delete",
        help="what to do with files that the session made (default: delete)",
    )
    parser.add_argument(
        "--on-conflict",
        choices=("merge", "refuse", "skip", "overwrite"),
        default="merge",
        help="what to do with a file that was changed again since (default: merge)",
    )
    parser.add_argument("--while-running", action="store_true", help="even while a run is under way")
    parser.add_argument("--dry-run", action="store_true", help="show the plan, change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    with_json(parser)


def _path(word: str) -> bytes:
    if not word:
        raise argparse.ArgumentTypeError("an empty path names no file")
    return os.fsencode(word)


def count(word: str) -> int:
    """A number of prompts, 1 or more."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} is no number of prompts")
    return int(word)
