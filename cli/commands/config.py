"""`recorder config`: the settings and where each value comes from; and setting one."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from cli.options import Subparsers
    from cli.output import Console
    from recorder.settings import LoadedSettings


def add(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("config", description="The settings, and where each value comes from.")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    actions = parser.add_subparsers(dest="action", metavar="get|set|list", title="actions")
    json = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    json.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one JSON document")
    actions.add_parser("list", parents=[json], help="every setting (what is done without an action too)")
    get = actions.add_parser("get", parents=[json], help="one setting's value")
    get.add_argument("key", metavar="KEY")
    change = actions.add_parser("set", parents=[json], help="write a value into the user's config.toml")
    change.add_argument("key", metavar="KEY")
    change.add_argument(
        "words", metavar="VALUE", nargs="*", help="a number, true or false; for a list any number of patterns"
    )


def run(arguments: argparse.Namespace, console: Console) -> int:
    from recorder.settings import KEYS, config_file, is_list, load_settings

    if arguments.action in ("get", "set"):
        is_list(arguments.key)  # an unknown key is a usage problem before anything else is looked at
    if arguments.action == "set":
        _set(config_file(), arguments.key, arguments.words)
    loaded = load_settings(os.environ, project=_project(Path.cwd()))
    for warning in loaded.warnings:
        console.note(warning)
    keys = (arguments.key,) if arguments.action in ("get", "set") else KEYS
    if arguments.json:
        console.json([_document(loaded, key) for key in keys])
    elif arguments.action == "get":
        for word in _words(getattr(loaded.settings, arguments.key)):
            console.show(word)
    elif arguments.action == "set":
        _report_set(console, loaded, arguments.key)
    else:
        console.show(_table(loaded))
    return 0


def _project(folder: Path) -> Path:
    """The work tree that a folder lies in: the nearest with a `.git` in it, else the folder itself."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


def _document(loaded: LoadedSettings, key: str) -> dict[str, object]:
    origin = loaded.origins[key]
    file = None if origin.file is None else str(origin.file)
    return {"key": key, "value": getattr(loaded.settings, key), "from": origin.kind, "file": file}


def _words(value: object) -> list[str]:
    """A value as `set` takes it, one word each."""
    if isinstance(value, tuple):
        return [str(word) for word in value]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def _table(loaded: LoadedSettings) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("setting", "value", "from"):
        table.add_column(heading, overflow="fold")
    for key, origin in loaded.origins.items():
        where = origin.kind if origin.file is None else f"{origin.kind} ({origin.file})"
        table.add_row(key, " ".join(_words(getattr(loaded.settings, key))) or "(none)", where)
    return table


def _report_set(console: Console, loaded: LoadedSettings, key: str) -> None:
    origin = loaded.origins[key]
    value = " ".join(_words(getattr(loaded.settings, key))) or "(none)"
    console.show(f"{key} is {value}")
    if origin.kind == "environment":
        console.note(f"RECORDER_{key.upper()} in the environment wins over what was written")


def _set(file: Path, key: str, words: list[str]) -> None:
    """Write one value into the file, keeping all else that stands there. Raises Refused, UsageProblem."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    from recorder.errors import Refused
    from recorder.settings import value_from_words

    value = value_from_words(key, words)
    real = file.resolve()
    try:
        document = tomlkit.parse(real.read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = tomlkit.document()
    except (ParseError, UnicodeDecodeError) as error:
        raise Refused(f"{file} is not TOML ({error}); mend it first", code="bad_file") from error
    document[key] = list(value) if isinstance(value, tuple) else value
    _write(real, tomlkit.dumps(document))


def _write(file: Path, text: str) -> None:
    """Replace the file whole or not at all, with the mode it had."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        with open(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(mode)
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
