"""What pi's tools may change: the files that a call names, resolved as pi resolves them.

The rules are those of `core/tools/{path-utils,write,edit}.js` of pi 1.6.0.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from recorder.sources.base import Call, FileNamed

_READS = frozenset({"read", "grep", "find", "ls"})
_SUBJECTS = ("path", "command", "code", "pattern")
_UNICODE_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")


def call(identity: str, tool: str, arguments: object, cwd: str | None, at_ns: int | None) -> Call:
    """The call with what it may write. One whose files cannot be told may write anywhere."""
    if tool in _READS:
        return Call(identity, tool, "none", at_ns=at_ns)
    files = tuple(_files(tool, arguments, cwd)) if isinstance(arguments, dict) else ()
    return Call(identity, tool, "named" if files else "any", files, at_ns=at_ns)


def reads_only(tool: str) -> bool:
    return tool in _READS


def summary(tool: str, arguments: object) -> str:
    """One line that says what a call does: the tool and its path, command, code or pattern."""
    if not isinstance(arguments, dict) or not arguments:
        return tool
    for name in _SUBJECTS:
        subject = arguments.get(name)
        if isinstance(subject, str):
            return f"{tool} {subject}"
    return f"{tool} {json.dumps(arguments, ensure_ascii=False)}"


def _files(tool: str, arguments: dict[str, Any], cwd: str | None) -> Iterator[FileNamed]:
    path = resolve(arguments.get("path"), cwd) if tool in ("write", "edit") else None
    if path is None:
        return
    if tool == "write":
        content = arguments.get("content")
        yield FileNamed(path, after=content.encode() if isinstance(content, str) else None)
        return
    fragments = [text.encode() for text in _new_texts(arguments) if text]
    if not fragments:
        yield FileNamed(path)
    for fragment in fragments:
        yield FileNamed(path, fragment=fragment)


def _new_texts(arguments: dict[str, Any]) -> Iterator[str]:
    """The replacements of an edit. pi also takes them as JSON text, as a single object, and in the
    older form with `oldText` and `newText` at the top."""
    edits = arguments.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except ValueError:
            edits = None
    for edit in [*(edits if isinstance(edits, list) else [edits]), arguments]:
        if isinstance(edit, dict) and isinstance(edit.get("newText"), str):
            yield edit["newText"]


def resolve(path: object, cwd: str | None) -> bytes | None:
    """The absolute path that a tool of pi opens for a `path` argument, links not followed; None where
    it cannot be told."""
    if not isinstance(path, str) or "\0" in path:
        return None
    expanded = _expand(_UNICODE_SPACES.sub(" ", path).removeprefix("@"))
    if expanded is None:
        return None
    if not expanded.startswith("/"):
        if cwd is None or not cwd.startswith("/"):
            return None
        expanded = f"{cwd}/{expanded}"
    return b"/" + os.path.normpath(expanded).lstrip("/").encode()


def _expand(path: str) -> str | None:
    if path == "~" or path.startswith("~/"):
        return os.path.expanduser("~") + path[1:]
    if not path.startswith("file://"):
        return path
    try:
        url = urlsplit(path)
    except ValueError:
        return None
    if url.netloc not in ("", "localhost") or "%2f" in url.path.lower() or "%00" in url.path:
        return None
    return unquote(url.path, errors="replace") or "/"
