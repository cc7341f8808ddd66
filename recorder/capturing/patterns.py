"""The `exclude` and `include_ignored` settings: lines of a gitignore file, matched by dulwich.

Only for these settings; what the project ignores is `recorder.capturing.ignore`'s to ask of git.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dulwich.ignore import Pattern


class Patterns:
    """Compiled lines. A malformed line matches nothing."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._patterns = _compile(lines)
        self._ways = [way for line in lines if (way := _way(line))]

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def match(self, path: bytes, is_folder: bool) -> bool:
        """Whether the last line that speaks of this path (not of its folders) takes it in."""
        for pattern in reversed(self._patterns):
            if pattern.matches(path, is_folder):
                return pattern.is_exclude
        return False

    def lead_into(self, folder: bytes) -> bool:
        """Whether a line names something in this folder by its place."""
        names = folder.split(b"/")
        return any(_goes_through(way, names) for way in self._ways)


def _compile(lines: Sequence[str]) -> list[Pattern]:
    if not lines:
        return []
    from dulwich.ignore import IgnoreFilter, read_ignore_patterns

    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    return IgnoreFilter(read_ignore_patterns(io.BytesIO(text))).patterns


def _way(line: str) -> list[bytes]:
    """The names that a line with a slash before its end goes through, from the root."""
    place = line.strip().rstrip("/")
    if "/" not in place or place.startswith(("#", "!")):
        return []
    return place.lstrip("/").encode("utf-8", "surrogateescape").split(b"/")


def _goes_through(way: list[bytes], names: list[bytes]) -> bool:
    for index, name in enumerate(names):
        if index >= len(way) - 1:
            return False
        if way[index] == b"**":
            return True
        if not fnmatchcase(name, way[index]):
            return False
    return True
