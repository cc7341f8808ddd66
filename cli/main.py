"""The door to every command: finds the one named, runs it, turns failures into words and exit codes.

It imports no command but the one named, and nothing heavy, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from recorder.errors import NotFound, RecorderError, UsageProblem

COMMANDS = {
    "watch": "follow the agents' logs and capture files at every prompt",
    "import": "read whole logs, safe to repeat",
    "daemon": "the watcher in the background: start, stop, status",
    "hook": "one hook call of an agent, on stdin",
    "install": "put the recorder into an agent's own configuration",
    "uninstall": "take it out again",
    "demo": "record, rewind and undo a short bundled session in a scratch folder",
    "sessions": "sessions of this folder and below",
    "checkpoints": "checkpoints of a session, newest first",
    "tree": "the conversation tree with its branches and checkpoints",
    "log": "the recorded events, oldest first",
    "show": "one checkpoint: prompt, state, files changed and by whom",
    "diff": "between two checkpoints, or a checkpoint and the files now",
    "cat": "the bytes of one file at a checkpoint",
    "rewind": "take files and conversation back to a checkpoint",
    "undo": "go back a number of prompts",
    "redo": "go forward again after an undo",
    "revert": "take back only what one prompt's run changed",
    "checkpoint": "one screen on this folder: is it recorded, how, and what of it",
    "prune": "retire what the retention no longer keeps",
    "pin": "never retire a checkpoint",
    "unpin": "let the retention decide on a checkpoint again",
    "label": "give a checkpoint a name",
    "doctor": "what is wrong with the recording and around it; --fix mends it",
    "rebuild": "fold every view anew from the log",
    "config": "the settings, and where each value comes from",
}
"""Every command in the order of the overview, with its line there."""

_MODULES = {"import": "import_"}
_FOLDER = Path(__file__).parent / "commands"


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations and raises UsageProblem."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise UsageProblem(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line (default: this process's own) and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _open_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
        return code
    except SystemExit as ending:  # argparse leaves this way after --help and --version
        return ending.code if isinstance(ending.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        from cli.output import close_stdout

        close_stdout()
        return 0
    except Exception as error:  # noqa: BLE001 -- the outermost edge: nothing above could tell the user
        code = _report(error, words)
        _flush_or_close()
        return code


def _open_streams() -> None:
    """Streams that were closed by who started this lead nowhere: else the next file that is opened would
    take their number, and with it what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode))  # noqa: SIM115 (for the whole process)


def _flush_or_close() -> None:
    """What stdout would not take was told of already; the interpreter's last flush must not fail on it."""
    from cli.output import close_stdout

    try:
        sys.stdout.flush()
    except OSError:
        close_stdout()


def available() -> tuple[str, ...]:
    """The names of the commands that are there, in the order of the overview."""
    return tuple(name for name in COMMANDS if (_FOLDER / f"{_module(name)}.py").is_file())


def _run(words: list[str]) -> int:
    front = _front()
    name = front.parse_args(words).command[0]
    if name not in available():
        raise UsageProblem(_unknown_command(name))
    module = import_module(f"cli.commands.{_module(name)}")
    parser = Parser(prog="recorder", parents=[_options()])
    module.add(parser.add_subparsers(dest="command", required=True))
    before, after = _at_dashes(words) if getattr(module, "TAKES_PATHS", False) else (words, [])
    arguments = parser.parse_args(before)
    from cli.output import Console
    from recorder.home import default_home

    arguments.home = arguments.home or default_home(os.environ)
    arguments.paths_after_dashes = after
    return int(module.run(arguments, Console()))


def _at_dashes(words: list[str]) -> tuple[list[str], list[str]]:
    """What stands before `--` and after it: the parser itself forgets where it stood."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def _options() -> Parser:
    options = Parser(add_help=False)
    options.add_argument(
        "--home", metavar="DIR", type=_folder, help="the folder that holds everything recorded"
    )
    options.add_argument("--debug", action="store_true", help="show the traceback of a failure")
    return options


def _front() -> Parser:
    """The parser of what stands before the command's own words, and of the overview."""
    names = available()
    width = max((len(name) for name in names), default=0)
    overview = "\n".join(f"  {name:<{width}}  {COMMANDS[name]}" for name in names)
    front = Parser(
        prog="recorder",
        usage="recorder [--home DIR] [--debug] COMMAND …",
        description="The flight recorder for coding agents.",
        epilog=f"commands:\n{overview}\n\n`recorder COMMAND --help` tells more of one.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_options()],
    )
    front.add_argument("--version", action="version", version=f"recorder {_version()}")
    front.add_argument("command", nargs=argparse.PARSER, metavar="COMMAND", help=argparse.SUPPRESS)
    return front


def _version() -> str:
    from recorder import __version__

    return __version__


def _folder(word: str) -> Path:
    if not word:
        raise argparse.ArgumentTypeError("no folder is named")
    return Path(word).expanduser().absolute()


def _module(name: str) -> str:
    return _MODULES.get(name, name)


def _unknown_command(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, available(), n=2)
    hint = f"did you mean {' or '.join(f'“{match}”' for match in near)}?" if near else "see `recorder --help`"
    return f"there is no command “{name}”; {hint}"


def _report(error: Exception, words: list[str]) -> int:
    """Say what went wrong: a sentence on stderr, with `--json` the error document too."""
    failure = _as_recorder_error(error)
    options = words[: words.index("--")] if "--" in words else words
    if "--debug" in options:
        import traceback

        traceback.print_exception(error)
    from cli.output import print_json, write_error

    write_error(f"recorder: {failure.message}")
    if "--json" in options:
        with contextlib.suppress(OSError):  # stdout itself may be what failed
            print_json({"error": {**failure.details, "code": failure.code, "message": failure.message}})
    return failure.exit_code


def _as_recorder_error(error: Exception) -> RecorderError:
    if isinstance(error, RecorderError):
        return error
    if isinstance(error, FileNotFoundError) and _folder_is_gone():
        return NotFound(
            "the folder that this was started in does not exist any more; go to another one", code="no_folder"
        )
    if isinstance(error, OSError) and error.strerror:
        return _system_failure(error)
    if views := _views_failure(error):
        return views
    if isinstance(error, ImportError) and os.strerror(errno.EMFILE) in str(error):
        return _system_failure(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    return RecorderError(
        f"internal error: {type(error).__name__} (run with --debug to see where)", code="internal"
    )


def _views_failure(error: Exception) -> RecorderError | None:
    """SQLite's errors in the log never come here as such, so that these are of the views. One that only a
    wrong call of SQLite makes is none of theirs."""
    import sqlite3

    if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
        return None
    from projections.views import failure_of

    return failure_of(error)


def _folder_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _system_failure(error: OSError) -> RecorderError:
    where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    advice, code = {
        errno.ENOSPC: ("free some space and run it again", "disk_full"),
        errno.EDQUOT: ("free some space and run it again", "disk_full"),
        errno.EACCES: ("give yourself the right to it and run it again", "not_permitted"),
        errno.EPERM: ("give yourself the right to it and run it again", "not_permitted"),
        errno.EROFS: ("it lies on a file system that cannot be written", "not_permitted"),
        errno.EMFILE: ("too many files are open; raise “ulimit -n”", "too_many_files"),
    }.get(error.errno or 0, ("run with --debug to see where", "system"))
    return RecorderError(f"the system said: {error.strerror}{where}; {advice}", code=code)
