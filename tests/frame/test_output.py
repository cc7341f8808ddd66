"""What commands print: one JSON document, harmless text, no colour and no cut for a pipe."""

from __future__ import annotations

import base64
import io
import json
import sys
from pathlib import Path

import pytest
from rich.table import Table

from cli.output import (
    UNLIMITED,
    Console,
    local_time,
    one_line,
    path_fields,
    path_text,
    print_json,
    relative_time,
    size_text,
    write_error,
)

SECOND = 10**9
NOW = 1_796_000_000 * SECOND


def test_one_json_document(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """One line of UTF-8 on stdout; paths are text, what is no Unicode is U+FFFD."""
    print_json({"a": "日本", "path": Path("/x"), "odd": ["\udc80", {"\udc81": 1}]})

    out, err = capfdbinary.readouterr()
    assert out.endswith(b"}\n")
    assert out.count(b"\n") == 1
    assert json.loads(out) == {"a": "日本", "path": "/x", "odd": ["\ufffd", {"\ufffd": 1}]}
    assert "日本".encode() in out
    assert err == b""


def test_paths_in_json() -> None:
    """UTF-8 names are text alone; other names carry their bytes too."""
    assert path_fields(b"caf\xc3\xa9/x") == {"path": "café/x"}
    assert path_fields(b"a\xff") == {"path": "a\ufffd", "path_bytes": base64.b64encode(b"a\xff").decode()}
    assert path_fields(b"\xff", key="file") == {"file": "\ufffd", "file_bytes": "/w=="}


def test_paths_for_people() -> None:
    """A name with newlines and terminal sequences stays on its line."""
    assert path_text(b"a\nb\x1b[31m\xffc\t") == "a\ufffdb\ufffdc\ufffd"


def test_nothing_printed_can_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither text nor a table's cell; and what looks like rich's markup is only text."""
    console = Console()
    table = Table("x", box=None)
    table.add_row("\x1b]0;title\x07cell")

    console.show("[bold]a[/bold] \x1b[2J:smile: b")
    console.show(table)
    console.note("note \x1b[31m")

    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "[bold]a[/bold] :smile: b\n" in out
    assert "cell" in out
    assert err == "note \n"


def test_a_pipe_gets_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal nothing is wrapped or cut, and nobody is asked."""
    console = Console()
    line = "word " * 100

    console.show(line)

    assert capsys.readouterr().out == line + "\n"
    assert console.width == UNLIMITED
    assert not console.interactive


def test_a_terminal_keeps_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own styles go through to a terminal; the log's sequences do not."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm-256color")
    from rich.text import Text

    Console().show(Text("\x1b[2Jwarning", style="red"))

    assert "\x1b[31mwarning\x1b[0m" in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()


def test_a_sentence_for_a_narrow_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that cannot show a character gets `?`, not a crash."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", stream)

    write_error("naïve")

    assert stream.buffer.getvalue() == b"na?ve\n"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"), (59, "just now"), (60, "1 min ago"), (3599, "59 min ago"), (7200, "2 h ago"),
        (86400 * 3, "3 d ago"), (-30, "just now"), (-7200, "in 2 h"),
    ],
)  # fmt: skip
def test_relative_times(seconds: int, expected: str) -> None:
    """Short words, the largest unit alone; a clock that runs ahead is no crash."""
    assert relative_time(NOW - seconds * SECOND, NOW) == expected


def test_times_from_text_and_bad_times() -> None:
    """ISO times read as well; what is no time is `unknown`; old times are dates."""
    assert relative_time("2026-11-30T17:00:00Z", relative_now("2026-11-30T19:00:00Z")) == "2 h ago"
    assert relative_time("yesterday", NOW) == "unknown"
    assert relative_time("", NOW) == "unknown"
    assert relative_time(10**30, NOW) == "unknown"
    assert relative_time(NOW - 400 * 86400 * SECOND, NOW).count("-") == 2
    assert local_time("no time") == "unknown"
    assert len(local_time(NOW)) == 19


def relative_now(text: str) -> int:
    from cli.output import to_datetime

    return int(to_datetime(text).timestamp()) * SECOND


def test_one_line_fits_its_columns() -> None:
    """Wide characters count twice; `…` shows a cut."""
    assert one_line("short", 10) == "short"
    assert one_line("a\nb", 10) == "a b"
    assert one_line("abcdefghij", 5) == "abcd…"
    assert one_line("日本語日本語", 7) == "日本語…"
    assert one_line("anything", 0) == ""


def test_sizes_are_binary() -> None:
    """Bytes as a person reads them."""
    assert size_text(10 << 30) == "10.0 GiB"
