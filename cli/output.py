"""What a command says and where: one JSON document or plain sentences and tables on stdout, notes on stderr.

Owns that nothing from a log can steer the terminal, and that colour, width and questions are for
terminals alone. It knows no command and no document.
"""

from __future__ import annotations

import base64
import functools
import os
import re
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from recorder.plain import one_line as _one_line
from recorder.plain import plain

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, ConsoleRenderable, RenderableType, RenderResult

UNLIMITED = 10_000
"""Columns where no terminal sets a width: nothing is wrapped or cut for a pipe."""

_SURROGATES = re.compile("[\ud800-\udfff]")


class Console:
    """The two streams of one command. `interactive` tells whether a person can be asked."""

    @property
    def interactive(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()

    @functools.cached_property
    def out(self) -> RichConsole:
        """Rich's console on stdout; markup in strings is off, what it prints is made plain."""
        return _rich_console(stderr=False)

    @functools.cached_property
    def err(self) -> RichConsole:
        """Rich's console on stderr, for notes, progress and questions."""
        return _rich_console(stderr=True)

    @property
    def width(self) -> int:
        """Columns that a table or a line may take; UNLIMITED where stdout is no terminal."""
        return self.out.width

    def show(self, what: RenderableType) -> None:
        """Text or a rich renderable, on stdout."""
        self.out.print(what)

    def note(self, sentence: str) -> None:
        """A warning or a word on progress, on stderr, never wrapped into pieces by a pipe."""
        write_error(sentence)

    def json(self, document: object) -> None:
        print_json(document)


def print_json(document: object) -> None:
    """The one JSON document of a command on stdout, UTF-8, indented for a terminal.

    `document` is anything msgspec encodes. A lone surrogate in a string becomes U+FFFD.
    """
    import msgspec

    try:
        encoded = msgspec.json.encode(document, enc_hook=str)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(document, enc_hook=str)))
    if sys.stdout.isatty():
        encoded = msgspec.json.format(encoded, indent=2)
    sys.stdout.flush()
    sys.stdout.buffer.write(encoded + b"\n")
    sys.stdout.buffer.flush()


def write_error(sentence: str) -> None:
    """One plain sentence on one line of stderr, without loading rich."""
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(plain(sentence).replace("\n", " ").encode(encoding, "replace").decode(encoding) + "\n")
    sys.stderr.flush()


def path_fields(path: bytes, key: str = "path") -> dict[str, str]:
    """A path for JSON: `{key: text}`, and `{key}_bytes` in base64 where the name is not UTF-8.

    The text then has U+FFFD for what cannot be decoded.
    """
    try:
        return {key: path.decode("utf-8")}
    except UnicodeDecodeError:
        return {key: path.decode("utf-8", "replace"), f"{key}_bytes": base64.b64encode(path).decode()}


def path_text(path: bytes | str) -> str:
    """A path for a terminal: on one line, harmless, U+FFFD for what is not UTF-8."""
    text = path.decode("utf-8", "replace") if isinstance(path, bytes) else path
    return plain(text).replace("\n", "\ufffd").replace("\t", "\ufffd")


def one_line(text: str, width: int) -> str:
    """The text on one harmless line of at most `width` columns; `…` shows that it was cut."""
    from rich.cells import cell_len, set_cell_size

    line = _one_line(text)
    if cell_len(line) <= width:
        return line
    return set_cell_size(line, max(width - 1, 0)).rstrip() + "…" if width > 0 else ""


def to_datetime(moment: int | str) -> datetime:
    """A moment in ns since the epoch, or in ISO 8601, as an aware datetime. Raises ValueError."""
    if isinstance(moment, int):
        return datetime.fromtimestamp(moment / 1e9, UTC)
    parsed = datetime.fromisoformat(moment)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def relative_time(moment: int | str, now_ns: int | None = None) -> str:
    """`just now`, `5 min ago`, `2 h ago`, `3 d ago`, then the local date; `unknown` for what is no time.

    `moment` is ns since the epoch or ISO 8601.
    """
    try:
        then = to_datetime(moment)
        now = to_datetime(time.time_ns() if now_ns is None else now_ns)
        seconds = int((now - then).total_seconds())
        if abs(seconds) >= 14 * 86400:
            return f"{then.astimezone():%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return "unknown"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= length:
            span = f"{abs(seconds) // length} {unit}"
            return f"{span} ago" if seconds > 0 else f"in {span}"
    return "just now"


def local_time(moment: int | str) -> str:
    """The local date and time, to the second; `unknown` for what is no time."""
    try:
        return f"{to_datetime(moment).astimezone():%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return "unknown"


def size_text(count: int) -> str:
    """Bytes as a person reads them: `1.2 MiB`."""
    from humanize import naturalsize

    return naturalsize(count, binary=True)


def _rich_console(*, stderr: bool) -> RichConsole:
    from rich.console import Console as RichConsole
    from rich.console import RenderHook

    class Plain(RichConsole):
        def on_broken_pipe(self) -> None:
            raise  # rich would leave with 1; a reader that has seen enough is no failure

    class Harmless(RenderHook):
        def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
            return [_Harmless(renderable) for renderable in renderables]

    stream = sys.stderr if stderr else sys.stdout
    terminal = stream.isatty()
    console = Plain(
        file=stream, markup=False, emoji=False, highlight=False, soft_wrap=not terminal,
        force_terminal=None if terminal else False, width=None if terminal else UNLIMITED,
        no_color=None if terminal else True,
    )  # fmt: skip
    console.push_render_hook(Harmless())
    return console


class _Harmless:
    """A renderable whose text cannot steer the terminal; rich's own control codes go through."""

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        from rich.segment import Segment

        segments: Iterable[Segment] = console.render(self._renderable, options)
        for text, style, control in segments:
            yield Segment(text if control else plain(text), style, control)


def _without_surrogates(value: object) -> object:
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def close_stdout() -> None:
    """Leave stdout to nobody, so that the interpreter's last flush does not fail on a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
