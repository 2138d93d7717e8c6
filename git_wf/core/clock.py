"""Moments as records and as git write them. The clock is handed in: nothing here reads it."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """Where every moment and every pause comes from. Tests hand in one that stands still."""

    def now(self) -> datetime:
        """The present, with a time zone."""

    def monotonic(self) -> float:
        """Seconds since some moment, never backwards: for durations."""

    def sleep(self, seconds: float) -> None:
        """Waits; a test's clock only moves on."""


def rfc3339(moment: datetime) -> str:
    """`2026-11-30T12:00:00.000000Z`."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339_seconds(seconds: int) -> str:
    """The same of a whole number of seconds since 1970; for many of them."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime(seconds))


def milliseconds(moment: datetime) -> int:
    """Since 1970, as a ULID has it."""
    return int(moment.timestamp() * 1000)


def git_date(moment: datetime) -> str:
    """`1764504000 +0100`, as a commit object has it."""
    return f"{int(moment.timestamp())} {moment.strftime('%z') or '+0000'}"


def duration_text(milliseconds: int) -> str:
    """`340ms`, `4.2s`, `3m12s`, `2h05m`."""
    seconds = milliseconds / 1000
    if seconds < 1:
        return f"{milliseconds}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"
