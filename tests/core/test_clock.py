from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from git_wf.core.clock import duration_text, git_date, milliseconds, rfc3339

UTC = timezone.utc


@pytest.mark.parametrize(
    ("moment", "record", "number", "date"),
    [
        (datetime(2026, 11, 30, 12, 0, 0, 5, UTC), "2026-11-30T12:00:00.000005Z",
         1796040000000, "1796040000 +0000"),
        (datetime(2026, 11, 30, 1, 2, 3, 456789, timezone(timedelta(hours=5, minutes=30))),
         "2026-11-29T19:32:03.456789Z", 1795980723456, "1795980723 +0530"),
        (datetime(2026, 1, 1, tzinfo=timezone(-timedelta(hours=3, minutes=30))),
         "2026-01-01T03:30:00.000000Z", 1767238200000, "1767238200 -0330"),
        (datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000000Z", 0, "0 +0000"),
    ],
)  # fmt: skip
def test_moments(moment: datetime, record: str, number: int, date: str) -> None:
    assert (rfc3339(moment), milliseconds(moment), git_date(moment)) == (record, number, date)


def test_a_moment_without_a_zone_is_told_as_utc() -> None:
    assert git_date(datetime(2026, 1, 1)).endswith(" +0000")


@pytest.mark.parametrize(
    ("length", "told"),
    [
        (0, "0ms"), (999, "999ms"), (1000, "1.0s"), (59_900, "59.9s"), (60_000, "1m00s"),
        (3_599_999, "59m59s"), (3_600_000, "1h00m"), (360_000_000, "100h00m"),
    ],
)  # fmt: skip
def test_durations(length: int, told: str) -> None:
    assert duration_text(length) == told
