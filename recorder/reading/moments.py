"""When things happened, on this machine's clock, from the agent's times and those of the log file.

An agent's clock may be wrong, and a copied log's may be another machine's: a time is taken only where
it fits what this machine saw.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from recorder.reading.tail import Lines

EARLIEST = -1_000_000_000
"""A line may carry a time this much (ns) after it was seen: clocks are read in turn."""

LATEST = 30_000_000_000
"""A line that was seen as it was written is at most this old (ns)."""

ROUNDING = 1_000_000
"""Agents cut their times to whole milliseconds: the prompt was given at most this much (ns) later."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def nanoseconds(time: str) -> int | None:
    """An ISO 8601 time with its zone, in ns since the epoch; None where it is none."""
    try:
        return (datetime.fromisoformat(time) - _EPOCH) // _MICROSECOND * 1000
    except (ValueError, TypeError, OverflowError):
        return None


class Clock:
    """Places the times in one piece of a log. `seen_at` is when its last line was seen at the latest."""

    def __init__(self, lines: Lines, now: int) -> None:
        self.seen_at = min(now, lines.written_at)
        self.written_at = lines.written_at
        self.previous_at = lines.previous_at
        self._live = lines.live

    def plausible(self, time: int | None, *, copied: bool = False) -> bool:
        """Whether an agent's time can be when the line was written. Lines from before the file was
        followed, and copied ones, may be of any age."""
        if time is None or time < 0:
            return False
        if self._live and not copied:
            return EARLIEST <= self.seen_at - time <= LATEST
        return time <= self.seen_at - EARLIEST

    def at(self, time: int | None, *, copied: bool = False) -> int:
        """The agent's time where it is plausible, else when the line was seen."""
        return time if time is not None and self.plausible(time, copied=copied) else self.seen_at

    def reference(self, time: int | None, flush_ns: int, *, late: bool) -> int:
        """The moment after which changes on disk may be the run's of a prompt given at `time`.

        Where the prompt was the newest line it lay in the agent's memory for at most `flush_ns`; where
        lines of its run came with it (`late`), it is as old as it says, or as the look before.
        """
        known = time + ROUNDING if time is not None and self.plausible(time) else None
        if late:
            return min(self.written_at, self.previous_at if known is None else known)
        written = self.written_at - flush_ns
        return min(self.written_at, written if known is None else max(known, written))
