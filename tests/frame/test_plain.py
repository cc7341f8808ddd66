"""Nothing from a log can steer a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recorder.plain import one_line, plain


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text\n\twith a tab", "plain text\n\twith a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;file:///x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;ZXZpbA==\x07", ""),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x1bc", ""),
        ("\x9b31mred", "red"),
        ("cut \x1b[", "cut "),
        ("\x1b]0;never ended", "0;never ended"),
        ("lone \x9d \x1b", "lone \ufffd \ufffd"),
        ("over\rwrite", "over\ufffdwrite"),
        ("line\r\nend", "line\nend"),
        ("bell\x07 back\x08 del\x7f nul\x00", "bell\ufffd back\ufffd del\ufffd nul\ufffd"),
        ("gnp.\u202ecod", "gnp.\ufffdcod"),
        ("\ud800", "\ufffd"),
        ("naïve 日本語 👩‍💻", "naïve 日本語 👩‍💻"),
    ],
)
def test_sequences_go_and_other_controls_are_shown(text: str, expected: str) -> None:
    """Sequences vanish whole; a lone control character is shown as one that cannot be read."""
    assert plain(text) == expected


@given(st.text(alphabet=st.characters() | st.sampled_from("\x1b[]0;m\x07\\\x9b\x90")))
def test_no_control_character_is_left(text: str) -> None:
    """Whatever the text; a second pass has nothing left to do."""
    harmless = plain(text)

    assert not any((c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" for c in harmless)
    assert plain(harmless) == harmless


def test_one_line_is_one_line() -> None:
    """White space of any kind is one space."""
    assert one_line("  a\n\n b\tc\u2028d \x1b[1m e ") == "a b c\ufffdd e"
