"""Changing a JSON document as text: what is not touched keeps its bytes.

Knows no agent; `cli.installing.claude` says what goes in and out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from recorder.errors import Refused

_SPACE = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder(strict=False)


class Item(NamedTuple):
    """A member of an object (`key`) or an element of an array (key None): where it begins and ends in the
    text, where its value begins, and the value."""

    key: str | None
    start: int
    value_start: int
    end: int
    value: Any


def parse(text: str) -> Any:
    """Raises Refused where it is no JSON object."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise Refused(f"it is not valid JSON: {error}", code="configuration") from None
    if not isinstance(value, dict):
        raise Refused("it is JSON, but no object", code="configuration")
    return value


def items(text: str, start: int) -> list[Item]:
    """What lies directly in the object or array that begins at `start` of a valid document."""
    return list(_items(text, start))


def _items(text: str, start: int) -> Iterator[Item]:
    closing = {"{": "}", "[": "]"}[text[start]]
    at = _skip(text, start + 1)
    while text[at] != closing:
        begin, key, value_at = at, None, at
        if closing == "}":
            key, after = _decode.raw_decode(text, at)
            value_at = _skip(text, _skip(text, after) + 1)
        value, end = _decode.raw_decode(text, value_at)
        yield Item(key, begin, value_at, end, value)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def root(text: str) -> int:
    """Where the document's object begins."""
    return text.index("{")


def add(text: str, start: int, content: str, depth: int, indent: str) -> str:
    """With one more item at the end of the object or array that begins at `start`. `depth` is how deep its
    items lie, `indent` what one step is written as."""
    inside = items(text, start)
    line = "\n" + indent * depth
    if inside:
        at = inside[-1].end
        return text[:at] + "," + line + content + text[at:]
    closing = text.index({"{": "}", "[": "]"}[text[start]], start)
    return text[: start + 1] + line + content + "\n" + indent * (depth - 1) + text[closing:]


def remove(text: str, start: int, goes: Callable[[Item], bool]) -> str:
    """Without those items of the object or array that begins at `start`, and without their commas."""
    inside = items(text, start)
    for number in reversed(range(len(inside))):
        if not goes(inside[number]):
            continue
        if number:
            text = text[: inside[number - 1].end] + text[inside[number].end :]
        elif len(inside) > 1:
            text = text[: inside[0].start] + text[inside[1].start :]
        else:
            closing = _skip(text, inside[0].end)
            text = text[: start + 1] + text[closing:]
        inside = items(text, start)
    return text


def indent_of(text: str) -> str:
    """What one step of indentation is written as; two spaces where that cannot be told."""
    found = re.search(r"^\{[ \t]*\r?\n([ \t]+)\"", text)
    return found[1] if found else "  "


def written(value: object, depth: int, indent: str) -> str:
    """A value as text whose own items lie deeper than `depth`."""
    lines = json.dumps(value, indent=indent, ensure_ascii=False).splitlines()
    return ("\n" + indent * depth).join(lines)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
