"""What goes over the daemon's socket: whole frames out of any pieces, and nothing out of what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.frames import LARGEST, BadFrame, Frame, Incoming, parse

FRAMES = st.builds(
    Frame,
    agent=st.sampled_from(["pi", "claude"]),
    at=st.integers(0, 2**63),
    deadline=st.integers(0, 2**63),
    payload=st.binary(max_size=300),
)


def sent(frame: Frame) -> bytes:
    head = f"recorder 1 {frame.agent} {frame.at} {frame.deadline} {len(frame.payload)}\n"
    return head.encode() + frame.payload


@given(st.lists(FRAMES, max_size=5), st.lists(st.integers(1, 40), min_size=1, max_size=20))
def test_frames_come_out_of_any_pieces(frames: list[Frame], sizes: list[int]) -> None:
    """However the bytes are cut on their way, the same frames come out, in their order, each once."""
    content, incoming, found, turn = b"".join(map(sent, frames)), Incoming(), [], 0
    while content:
        size = sizes[turn % len(sizes)]
        found += incoming.take(content[:size])
        content, turn = content[size:], turn + 1
    assert found == frames


@given(FRAMES)
def test_a_frame_in_a_file_is_whole_or_none(frame: Frame) -> None:
    """A spooled frame is read back as it was; one that is cut short or longer than it says is refused."""
    assert parse(sent(frame)) == frame
    for wrong in (sent(frame)[:-1], sent(frame) + b"x"):
        with pytest.raises(BadFrame):
            parse(wrong)


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\n",
        b"recorder 2 pi 1 2 0\n",
        b"recorder 1 pi -1 2 0\n",
        b"recorder 1 pi 1 2\n",
        b"recorder 1 ../x 1 2 0\n",
        b"\0" * 300,
    ],
)
def test_what_is_no_frame_is_refused(noise: bytes) -> None:
    """Another protocol, another version or endless noise without a line is refused, not waited for."""
    with pytest.raises(BadFrame):
        Incoming().take(noise)


def test_a_payload_that_is_too_large_is_let_pass() -> None:
    """It comes as a frame without a payload, is never held in memory, and what follows it is read."""
    incoming = Incoming()
    found = incoming.take(f"recorder 1 pi 1 2 {LARGEST + 10}\n".encode())
    assert [frame.payload for frame in found] == [b""]
    piece = b"x" * (1 << 20)
    for _ in range(LARGEST // len(piece)):
        assert incoming.take(piece) == []
        assert len(incoming._buffer) <= len(piece)
    assert incoming.take(b"x" * 10 + sent(Frame("pi", 1, 2, b"{}"))) == [Frame("pi", 1, 2, b"{}")]
