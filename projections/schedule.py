"""The schedule: what runs by the clock while the recorder watches.

Kept in memory, because the schedule is code; a machine that slept catches up once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from apscheduler.schedulers.background import BackgroundScheduler

SWEEP_HOURS = 24
HEARTBEAT_SECONDS = 60


class Schedule:
    """Marks the daily sweep as due; whoever watches runs it between two captures."""

    def __init__(
        self, sweep_is_due: Callable[[], None], *, first_in: timedelta = timedelta(minutes=5)
    ) -> None:
        self._scheduler = BackgroundScheduler(timezone=UTC)
        options = {"coalesce": True, "misfire_grace_time": None, "max_instances": 1, "replace_existing": True}
        self._scheduler.add_job(
            sweep_is_due,
            "interval",
            hours=SWEEP_HOURS,
            id="sweep",
            next_run_time=datetime.now(UTC) + first_in,
            **options,
        )
        self._scheduler.add_job(_beat, "interval", seconds=HEARTBEAT_SECONDS, id="heartbeat", **options)

    def __enter__(self) -> Schedule:
        self._scheduler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._scheduler.shutdown(wait=False)


def _beat() -> None:
    """Wakes the scheduler once a minute, so that a job that fell due while the machine slept runs."""
