"""Cron expressions: the times they match, in UTC."""

from datetime import UTC, datetime

import pytest

from holdfast.execution.timers import BadSchedule, parse_schedule
from holdfast.model.ids import SECOND


def after(schedule: str, moment: str) -> str:
    start = int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()) * SECOND
    found = parse_schedule(schedule).after(start)
    return datetime.fromtimestamp(found // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize(
    ("schedule", "moment", "expected"),
    [
        ("* * * * *", "2024-05-01T10:00:00", "2024-05-01T10:01:00"),
        ("* * * * *", "2024-05-01T10:00:59", "2024-05-01T10:01:00"),
        ("*/15 * * * *", "2024-05-01T10:46:00", "2024-05-01T11:00:00"),
        ("5/20 * * * *", "2024-05-01T10:06:00", "2024-05-01T10:25:00"),
        ("0 9-17/4 * * *", "2024-05-01T13:00:00", "2024-05-01T17:00:00"),
        ("30 2 * * *", "2024-12-31T02:30:00", "2025-01-01T02:30:00"),
        ("0 0 29 2 *", "2024-03-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 31 * *", "2024-04-01T00:00:00", "2024-05-31T00:00:00"),
        ("0 0 * * 0", "2024-05-01T00:00:00", "2024-05-05T00:00:00"),
        ("0 0 * * 7", "2024-05-01T00:00:00", "2024-05-05T00:00:00"),
        ("0 0 * * 1-5", "2024-05-03T00:00:00", "2024-05-06T00:00:00"),
        ("0 0 13 * 5", "2024-05-01T00:00:00", "2024-05-03T00:00:00"),  # either day suffices
        ("0 12 1,15 6 *", "2024-06-01T12:00:00", "2024-06-15T12:00:00"),
    ],
)
def test_the_next_moment(schedule: str, moment: str, expected: str) -> None:
    assert after(schedule, moment) == expected


@pytest.mark.parametrize(
    ("schedule", "fault"),
    [
        ("* * * *", "4 fields"),
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of the week"),
        ("*/0 * * * *", "minute"),
        ("5-1 * * * *", "backwards"),
        ("a * * * *", "minute"),
        ("1, * * * *", "minute"),
        ("٣ * * * *", "minute"),
        ("", "0 fields"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_field(schedule: str, fault: str) -> None:
    with pytest.raises(BadSchedule, match=fault):
        parse_schedule(schedule)


def test_a_day_that_never_comes_is_refused_when_it_is_set() -> None:
    with pytest.raises(BadSchedule, match="never comes"):
        parse_schedule("0 0 30 2 *").after(0)
