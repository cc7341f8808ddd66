"""What goes over the daemon's socket, and into its spool: frames of one header line and so many bytes.

    client to daemon   recorder 1 AGENT AT_NS DEADLINE_NS LENGTH\\n   and the agent's own payload
    daemon to client   ok LENGTH\\n     and what the hook prints on stdout, mostly nothing
                       push LENGTH\\n   and a JSON document: something to do, unasked

Many frames go over one connection; answers come in the order of what is asked. `AT_NS` is when the
client began, `DEADLINE_NS` when it stops waiting.
"""

from __future__ import annotations

import re

import msgspec

VERSION = 1

LONGEST_HEADER = 200

LARGEST = 64 << 20
"""Bytes of a payload that are taken; what is larger is let pass unread."""

_HEADER = re.compile(rb"recorder (\d{1,4}) ([a-z]{1,20}) (\d{1,20}) (\d{1,20}) (\d{1,12})")


class Frame(msgspec.Struct, frozen=True):
    """What one hook call hands over. `at` and `deadline` in ns."""

    agent: str
    at: int
    deadline: int
    payload: bytes


class BadFrame(ValueError):
    """Not of this protocol: there is no going on with what sent it."""


class Header(msgspec.Struct, frozen=True):
    agent: str
    at: int
    deadline: int
    length: int


def read_header(line: bytes) -> Header:
    """Raises BadFrame."""
    match = _HEADER.fullmatch(line)
    if match is None or int(match[1]) != VERSION:
        raise BadFrame(line[:80])
    return Header(match[2].decode(), int(match[3]), int(match[4]), int(match[5]))


def parse(content: bytes) -> Frame:
    """A frame that lies whole in a file. Raises BadFrame."""
    line, newline, payload = content.partition(b"\n")
    header = read_header(line)
    if not newline or header.length != len(payload):
        raise BadFrame(b"cut short")
    return Frame(header.agent, header.at, header.deadline, payload)


class Incoming:
    """The bytes that came over one connection so far."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._header: Header | None = None
        self._to_skip = 0

    def take(self, content: bytes) -> list[Frame]:
        """The frames that are whole with these bytes. One that is too large comes with no payload.
        Raises BadFrame."""
        self._buffer += content
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> Frame | None:
        if self._to_skip:
            skipped = min(self._to_skip, len(self._buffer))
            del self._buffer[:skipped]
            self._to_skip -= skipped
        if self._to_skip:
            return None
        if self._header is None:
            end = self._buffer.find(b"\n", 0, LONGEST_HEADER)
            if end < 0:
                if len(self._buffer) >= LONGEST_HEADER:
                    raise BadFrame(bytes(self._buffer[:80]))
                return None
            self._header = read_header(bytes(self._buffer[:end]))
            del self._buffer[: end + 1]
        header = self._header
        if header.length > LARGEST:
            self._to_skip, self._header = header.length, None
            return Frame(header.agent, header.at, header.deadline, b"")
        if len(self._buffer) < header.length:
            return None
        payload = bytes(self._buffer[: header.length])
        del self._buffer[: header.length]
        self._header = None
        return Frame(header.agent, header.at, header.deadline, payload)


def answer(content: bytes = b"") -> bytes:
    return b"ok %d\n%b" % (len(content), content)


def push(content: bytes) -> bytes:
    return b"push %d\n%b" % (len(content), content)
