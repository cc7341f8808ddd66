"""Taking a conversation back in place: only into the log of a session that is proved closed.

What must be appended and whether the agent understands it is the source's knowledge; this module
checks first, appends one line, and says why where it cannot be done.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from recorder.sources.base import Move, Source


class Way(msgspec.Struct, frozen=True):
    """How a conversation could go. `status`: `possible`, `noop` (it is not to move, or stands there) or
    `unavailable` with `why`. `resume` is the agent's command that goes on from there: once it is moved, or,
    where it cannot be, in a copy."""

    status: str
    line: bytes | None = None
    resume: str | None = None
    why: str | None = None


def find_way(
    source: Source, log: Path, session: str, *, keep: str | None, prompt: str, cwd: str | None
) -> Way:
    """Whether the conversation can be made to go on after entry `keep` (None: from its start), where it
    does not stand yet. `prompt` is the entry id of the prompt that would be given next."""
    if not log.is_file():
        return Way("unavailable", why=f"the agent's log {log} is gone")
    closed = source.closed(log, session)
    move = source.move(log, session, keep, prompt, cwd)
    if closed.state != "closed":
        return Way("unavailable", resume=move.copy, why=closed.why)
    return _way(move)


def _way(move: Move) -> Way:
    if move.line is None:
        return Way("unavailable", resume=move.copy, why=move.why)
    return Way("possible", line=move.line, resume=move.resume)


def take(way: Way, source: Source, log: Path, session: str) -> str | None:
    """Append the line that moves the conversation, durably. Returns why it failed, or None."""
    assert way.line is not None
    closed = source.closed(log, session)
    if closed.state != "closed":
        return closed.why
    try:
        return _append(log, way.line)
    except OSError as error:
        return f"the agent's log cannot be written: {error.strerror}"


def take_again_back(
    source: Source, log: Path, session: str, *, line: bytes, leaf: str | None, cwd: str | None
) -> str | None:
    """Where a broken-off move by `line` is the last word in the agent's log, go on after `leaf` again.

    Returns why the conversation stays where it is, or None. Can be killed and run again.
    """
    if not line or not _ends_with(log, line):
        return None
    move = source.move(log, session, leaf, "", cwd)
    if move.line is None:
        return move.why
    return take(_way(move), source, log, session)


def _append(log: Path, line: bytes) -> str | None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    try:
        size = os.fstat(descriptor).st_size
        try:
            whole = os.write(descriptor, line) == len(line)
            if not whole:
                # The agent would glue its next line to half a line.
                os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    return None if whole else "the agent's log took only a part of the line"


def _ends_with(log: Path, line: bytes) -> bool:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - len(line)))
            return file.read() == line
    except OSError:
        return False
