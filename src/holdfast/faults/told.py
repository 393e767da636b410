"""Told events: what the notifier tells, numbered in the order in which all consumers hear it."""

from msgspec import Struct

from holdfast.faults.events import StructuredEvent


class Told(Struct, frozen=True, array_like=True):
    """An event with its number. Numbers begin at 1, have no holes, and are never given twice."""

    number: int
    at_ns: int
    """When the notifier took it, by its group's time."""
    event: StructuredEvent
    part_of: int = 0
    """The number of the event that tells of the whole of which this is a part; 0: of none."""


class Gap(Struct, frozen=True, array_like=True):
    """Numbers that somebody asked for too late: the notifier does not have these events any more."""

    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1


class Page(Struct, frozen=True):
    """Some of the events that somebody wants, in their order."""

    events: tuple[Told, ...]
    reached: int
    """Everything up to this number was looked at: the next page is asked for after it."""
    newest: int
    """The last number given so far."""
    gap: Gap | None = None
    """Of what was asked for, what is gone: between where the page begins and its first event."""
