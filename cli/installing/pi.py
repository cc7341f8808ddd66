"""Into pi goes one file, the recorder's extension, into a folder where pi looks for extensions by itself."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from cli.hooks import ENTRY
from cli.installing.base import Change, Where, read
from recorder.errors import Refused
from recorder.sources.pi import agent_folder

FOLDER = Path(__file__).resolve().parent.parent / "pi"
PARTS = (
    "installed",
    "wire",
    "recording",
    "command",
    "moving",
    "picker",
    "summarizing",
    "going_back",
    "offering",
    "escape",
    "footer",
    "recorder",
)
"""The modules that the one file is made of, each after those that it imports."""
FIRST_LINE = "// The extension of `recorder` for pi; made by `recorder install pi`, which overwrites it."
OURS = b"// The extension of `recorder` for pi"
"""By it an installed extension is known as ours, of whatever version."""
BAKED = "/* baked in by `recorder install pi` */"


_IMPORT = re.compile(r"^import .*\n", re.MULTILINE)
_NODE_IMPORT = re.compile(r'^import \* as \w+ from "node:.*$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?!default)", re.MULTILINE)


class PiInstaller:
    """See `cli.installing.base.Installer`."""

    agent = "pi"

    def install(self, where: Where) -> list[Change]:
        change = _change(where, content(where))
        return [] if change.before == change.after else [change]

    def uninstall(self, where: Where) -> list[Change]:
        change = _change(where, None)
        return [] if change.before is None else [change]

    def switched_off(self, where: Where) -> bool:
        return False

    def advice(self, where: Where) -> list[str]:
        notes = ["Start pi anew, or type /reload in it."]
        if where.scope == "project":
            notes.append("pi loads it once you trust the project (without a terminal: with --approve).")
        return notes


INSTALLER = PiInstaller()


def place(where: Where) -> tuple[Path, Path]:
    """Where the extension goes, and the folder that is there whether or not the recorder is."""
    if where.scope == "project":
        return where.folder / ".pi" / "extensions" / "recorder.ts", where.folder
    agent = agent_folder(where.environment, where.user_home)
    return agent / "extensions" / "recorder.ts", agent


def content(where: Where) -> bytes:
    """The extension with what it needs to know at its marked place; ASCII there, whatever the paths are."""
    known = {
        "python": sys.executable,
        "entry": os.fspath(ENTRY),
        "home": os.fspath(where.home),
        "budgetMs": where.budget_ms,
    }
    line = f"const INSTALLED = {json.dumps(known)}; {BAKED}"
    lines = [line if one.endswith(BAKED) else one for one in assembled().splitlines()]
    return "\n".join([FIRST_LINE, *lines]).encode() + b"\n"


def assembled() -> str:
    """The modules as one: node's own are imported once at the top, each other's not at all, and only the last
    one exports."""
    texts = [(FOLDER / f"{part}.ts").read_text("utf-8") for part in PARTS]
    imports = dict.fromkeys(line for text in texts for line in _NODE_IMPORT.findall(text))
    bodies = [_EXPORT.sub("", _IMPORT.sub("", text)).strip() for text in texts]
    return "\n".join([*imports, "", "\n\n".join(bodies)])


def _change(where: Where, after: bytes | None) -> Change:
    path, root = place(where)
    before = read(path)
    if before is not None and not before.startswith(OURS):
        raise Refused(f"{path} is not the recorder's; move it away first", code="not_ours")
    return Change(path, before, after, root)
