"""Durable timers: calls that a group makes to itself later (E6).

The table of timers is part of the state: every member builds the same one from the same sequence. A timer
falls due by the group's time. The primary then orders a firing, which counts only if the timer has not
changed since. So a timer fires once, and a cancelled one never, whatever was in progress.

Recurring timers use the five fields of cron, in UTC: minute, hour, day of the month, month, day of the week
(0 and 7 are Sunday). A field is ``*``, a number, a range ``a-b`` or a list ``a,b-c``, each optionally with a
step ``/n``. As in every cron, if both day fields are restricted, a day matches when either does.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from holdfast.model.calls import Request
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import SECOND, ClientId

FIELDS: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
DAYS_AHEAD_MAX: Final = 366 * 8
"""The longest possible wait: from one 29 February to the next, across a century that is not a leap year."""


class BadSchedule(InvalidRequest):
    """Raised when a cron expression cannot be parsed or matches no time."""

    code = "bad_schedule"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times that one cron expression matches."""

    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """Monday is 0, as in ``datetime``."""
    either_day: bool

    def after(self, time_ns: int) -> int:
        """The first matching time later than *time_ns*, in nanoseconds since the Unix epoch."""
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
    """Parse a cron expression. Raises :class:`BadSchedule`, which names the wrong field."""
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


TIMERS_MAX: Final = 100_000
"""Per group. All timers are in every checkpoint."""


_CLIENT: Final = "timer/"
"""The prefix of the client ids of timers. No real client's id contains a slash."""


class TooManyTimers(InvalidRequest):
    """Raised when a group sets more timers than it may have."""

    code = "too_many_timers"


class Timer(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One timer that is set."""

    number: int
    due_ns: int
    method: str
    arguments: msgspec.Raw
    schedule: str = ""
    """The cron expression of a recurring timer."""
    firings: int = 0

    @property
    def request(self) -> Request:
        """The request id of the timer's next firing."""
        return Request(ClientId(f"{_CLIENT}{self.number}"), self.firings + 1)


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    issued: int
    timers: list[Timer]


def is_timer(request: Request) -> bool:
    """Whether a timer made this request; nobody waits for its outcome."""
    return request.client.startswith(_CLIENT)


class Timers:
    """The timers of one group."""

    def __init__(self) -> None:
        self._issued = 0
        self._timers: dict[int, Timer] = {}
        self._by_due: list[tuple[int, int]] = []
        """A heap of (due, number). Entries of cancelled or changed timers are dropped when they reach the
        top."""

    def __len__(self) -> int:
        return len(self._timers)

    def set(self, due_ns: int, method: str, arguments: msgspec.Raw, *, schedule: str = "") -> int:
        """Set a new timer and return its number, which is never reused."""
        if len(self._timers) >= TIMERS_MAX:
            raise TooManyTimers(f"a group has at most {TIMERS_MAX} timers")
        self._issued += 1
        self._keep(Timer(self._issued, due_ns, method, arguments, schedule))
        return self._issued

    def cancel(self, number: int) -> bool:
        """Cancel a timer. Returns whether it was still pending."""
        return self._timers.pop(number, None) is not None

    def next_due_ns(self) -> int | None:
        while self._by_due and not self._is_current(*self._by_due[0]):
            heappop(self._by_due)
        return self._by_due[0][0] if self._by_due else None

    def due(self, time_ns: int, at_most: int) -> list[Timer]:
        """The timers that are due by *time_ns*, earliest first."""
        ripe: list[Timer] = []
        while len(ripe) < at_most and (due_ns := self.next_due_ns()) is not None and due_ns <= time_ns:
            ripe.append(self._timers[heappop(self._by_due)[1]])
        for timer in ripe:
            # A due timer has not fired yet: it fires when its firing is ordered in the sequence.
            heappush(self._by_due, (timer.due_ns, timer.number))
        return ripe

    def fired_by(self, number: int, due_ns: int) -> Timer | None:
        """The timer that a firing refers to; None if the firing is out of date."""
        timer = self._timers.get(number)
        return timer if timer is not None and timer.due_ns == due_ns else None

    def to_come(self) -> Iterable[Timer]:
        """All pending timers, in no particular order."""
        return self._timers.values()

    def methods(self) -> frozenset[str]:
        """The methods that the timers call."""
        return frozenset(timer.method for timer in self._timers.values())

    def is_to_come(self, request: Request) -> bool:
        """Whether the request is the next firing of a timer."""
        return any(timer.request == request for timer in self._timers.values())

    def fire(self, number: int, due_ns: int, time_ns: int) -> Timer | None:
        """Apply an ordered firing and return its timer; None if the firing is out of date. A recurring
        timer is set for its next time after *time_ns*: times missed while the group was down fire once,
        not each."""
        timer = self.fired_by(number, due_ns)
        if timer is None:
            return None
        if timer.schedule:
            following = parse_schedule(timer.schedule).after(max(time_ns, due_ns))
            self._keep(msgspec.structs.replace(timer, due_ns=following, firings=timer.firings + 1))
        else:
            del self._timers[number]
        return timer

    def save(self) -> bytes:
        return msgspec.msgpack.encode(_Saved(self._issued, [self._timers[n] for n in sorted(self._timers)]))

    @classmethod
    def load(cls, saved: bytes) -> "Timers":
        """Load a saved table. Raises ``msgspec.DecodeError`` for anything else."""
        table, found = cls(), msgspec.msgpack.decode(saved, type=_Saved)
        table._issued = found.issued
        table._timers = {timer.number: timer for timer in found.timers}
        table._by_due = [(timer.due_ns, timer.number) for timer in found.timers]
        heapify(table._by_due)
        return table

    def _keep(self, timer: Timer) -> None:
        self._timers[timer.number] = timer
        heappush(self._by_due, (timer.due_ns, timer.number))

    def _is_current(self, due_ns: int, number: int) -> bool:
        timer = self._timers.get(number)
        return timer is not None and timer.due_ns == due_ns
