"""Times that come again: the five fields of cron, in UTC.

Minute, hour, day of the month, month, day of the week (0 and 7 are Sunday). A field is ``*``, a number, a
range ``a-b``, a list ``a,b-c``, each also with a step ``/n``. As in every cron, when both days are
restricted either of them suffices.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.model.errors import InvalidRequest
from holdfast.model.units import SECOND

FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
DAYS_AHEAD_MAX: Final = 366 * 8
"""The longest wait there is: from one 29 February to the next, across a century that is no leap year."""


class BadSchedule(InvalidRequest):
    """Raised when a cron expression cannot be read or never comes."""

    code = "bad_schedule"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The moments one expression names."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """Monday is 0, as in ``datetime``."""
    either_day: bool

    def after(self, time_ns: int) -> int:
        """The first moment later than *time_ns*, in nanoseconds since the Unix epoch."""
        start = datetime.fromtimestamp(time_ns // SECOND, UTC).replace(second=0) + timedelta(minutes=1)
        day = start.replace(hour=0, minute=0)
        for _ in range(DAYS_AHEAD_MAX):
            if self._includes(day):
                for hour in self.hours:
                    for minute in self.minutes:
                        moment = day.replace(hour=hour, minute=minute)
                        if moment >= start:
                            return int(moment.timestamp()) * SECOND
            day += timedelta(days=1)
        raise BadSchedule(f"cron {self.text!r} never comes")

    def _includes(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_day, by_weekday = day.day in self.days, day.weekday() in self.weekdays
        return by_day or by_weekday if self.either_day else by_day and by_weekday


def parse_schedule(text: str) -> Schedule:
    """Raises :class:`BadSchedule` that names the field at fault."""
    fields = text.split()
    if len(fields) != len(FIELDS):
        raise BadSchedule(f"cron {text!r} has {len(fields)} fields; it takes {len(FIELDS)}")
    values = [_values(text, field, *bounds) for field, bounds in zip(fields, FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = values
    return Schedule(
        text,
        minutes,
        hours,
        days,
        months,
        tuple(sorted(frozenset((day - 1) % 7 for day in weekdays))),
        either_day=not fields[2].startswith("*") and not fields[4].startswith("*"),
    )


def _values(text: str, field: str, name: str, low: int, high: int) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for part in field.split(","):
        span, _, step_text = part.partition("/")
        first, last = low, high
        if span != "*":
            first_text, dash, last_text = span.partition("-")
            first = _number(text, name, first_text, low, high)
            # "5/10" runs to the end, "5" alone does not.
            last = _number(text, name, last_text, low, high) if dash else high if step_text else first
        step = _number(text, name, step_text, 1, high) if "/" in part else 1
        if last < first:
            raise BadSchedule(f"cron {text!r}: {name}: {span} runs backwards")
        found.update(dict.fromkeys(range(first, last + 1, step)))
    return tuple(sorted(found))


def _number(text: str, name: str, digits: str, low: int, high: int) -> int:
    if not (digits.isascii() and digits.isdigit() and low <= int(digits) <= high):
        raise BadSchedule(f"cron {text!r}: {name}: {digits!r} is not a number from {low} to {high}")
    return int(digits)
