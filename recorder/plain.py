"""Text from logs and file systems made harmless: nothing in it can steer a terminal.

Owns which characters are taken out and nothing else: no colours, no layout, no widths.
"""

from __future__ import annotations

import re

_SEQUENCES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor, modes
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)"  # titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c\n]*(?:\x1b\\|\x9c)"  # strings for devices and programs
    r"|\x1b[ -/]*[0-~]"
)
# Control characters, marks that turn the direction of text, odd line separators, lone surrogates.
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ud800-\udfff]"
)
_HARMLESS = re.compile(r"[ -~\n\t]*")


def plain(text: str) -> str:
    """The text without terminal sequences; every other control character but newline and tab is U+FFFD.

    Sequences as in ECMA-48.
    """
    if _HARMLESS.fullmatch(text):
        return text
    return _CONTROLS.sub("\ufffd", _SEQUENCES.sub("", text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """The plain text on one line, each run of white space one space."""
    return " ".join(plain(text).split())
