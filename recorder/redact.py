"""Secrets of well-known shapes taken out of text before it is stored.

Owns how they are found inside a log's JSON, at any depth of its escapes, at a speed that lets a whole
history go through. It knows no event and no file; the shapes are in `recorder.secret_shapes`.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from typing import NamedTuple

import re2

from recorder.plain import one_line
from recorder.secret_shapes import SHAPES

EXCERPT_CHARACTERS = 200

_ESCAPED_ASCII = r"\\u00[2-7]"
_ESCAPE = re.compile(rb"\\+(?:u([0-9A-Fa-f]{4})|([\"'/bfnrt]))")
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_NUMBER = re.compile(rb"[-+0-9.eE]+")


def _options() -> re2.Options:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes as they are
    options.max_mem = 64 << 20  # a set that runs out of it would find nothing and say nothing
    return options


def _hints() -> re2.Set:
    hints = re2.Set.SearchSet(_options())
    for shape in SHAPES:
        hints.Add(shape.hint.encode())
    hints.Add(_ESCAPED_ASCII.encode())
    hints.Compile()
    return hints


_HINTS = _hints()
_PATTERNS = [re2.compile(shape.pattern.encode(), _options()) for shape in SHAPES]


class _Secret(NamedTuple):
    start: int
    end: int
    kind: str


def redact_line(line: bytes) -> tuple[bytes, int]:
    """The line with each secret replaced by `[redacted:<kind>]`, and how many were.

    Secrets are found through JSON escapes at any depth. What was valid JSON stays valid; all bytes
    but those of the secrets stay as they are; a second call changes nothing.
    """
    count = 0
    while found := _find(line):
        line = _replace(line, found)
        count += len(found)
    return line, count


def redact_text(text: str) -> tuple[str, int]:
    """As `redact_line`, for text."""
    line, count = redact_line(text.encode("utf-8", "surrogatepass"))
    return (line.decode("utf-8", "surrogatepass"), count) if count else (text, 0)


def excerpt(text: str, limit: int = EXCERPT_CHARACTERS) -> str:
    """The beginning of a text on one line of at most `limit` characters, redacted and harmless to print.

    It is cut at the end of a word where one ends in its second half, and then ends with `…`.
    """
    redacted, _ = redact_text(text)
    line = one_line(redacted[: 20 * limit])
    if len(line) <= limit and len(redacted) <= 20 * limit:
        return line
    cut = line[: limit - 1]
    if line[limit - 1 : limit] not in ("", " "):
        space = cut.rfind(" ")
        cut = cut[:space] if space >= limit // 2 else cut
    return cut.rstrip() + "…"


def _find(line: bytes) -> list[_Secret]:
    """The secrets in a line, in order, none overlapping."""
    hinted = _HINTS.Match(line)
    if not hinted:
        return []
    indexes = range(len(SHAPES)) if len(SHAPES) in hinted else sorted(hinted)
    text, positions = _unescape(line)
    found = [
        _Secret(positions.in_line(start), positions.in_line(end), SHAPES[index].kind)
        for index in indexes
        for start, end in (match.span(1) for match in _PATTERNS[index].finditer(text))
        if not _NUMBER.fullmatch(text, start, end)  # outside a string it must stay one
    ]
    return _without_overlaps(found)


class _Positions(NamedTuple):
    """Where the bytes of an unescaped text stand in its line: per escape its place in the text, and by
    how much the line is longer up to and with it."""

    places: array[int]
    longer: array[int]

    def in_line(self, position: int) -> int:
        before = bisect_left(self.places, position)
        return position + (self.longer[before - 1] if before else 0)


def _unescape(line: bytes) -> tuple[bytes, _Positions]:
    """The line with each escape, at any depth, as the one byte it stands for (0x80: not ASCII)."""
    positions = _Positions(array("q"), array("q"))
    longer = 0

    def one_byte(match: re.Match[bytes]) -> bytes:
        nonlocal longer
        positions.places.append(match.start() - longer)
        longer += match.end() - match.start() - 1
        positions.longer.append(longer)
        code, letter = match.groups()
        return bytes((min(int(code, 16), 0x80),)) if code else _LETTERS.get(letter, letter)

    return _ESCAPE.sub(one_byte, line), positions


def _without_overlaps(found: list[_Secret]) -> list[_Secret]:
    """Overlapping secrets as one, of the kind that begins first."""
    merged: list[_Secret] = []
    for secret in sorted(found, key=lambda secret: secret.start):
        if merged and secret.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(secret.end, merged[-1].end))
        else:
            merged.append(secret)
    return merged


def _replace(line: bytes, found: list[_Secret]) -> bytes:
    pieces = []
    end = 0
    for secret in found:
        pieces += [line[end : secret.start], b"[redacted:%s]" % secret.kind.encode()]
        end = secret.end
    return b"".join([*pieces, line[end:]])
