"""How old lost messages are, as far as the messages around the gap say it (LOSS-24, LOSS-45).

Each kind of metadata gives an interval for the age of all lost messages; what they agree on is returned, with
the kinds that were used. Ages count until *now_ns*, in the source's time. Where the message after the gap
does not say when it was made, it counts as made when it arrived."""

from msgspec import Struct

from holdfast.model.ids import MILLISECOND
from holdfast.streams.message import BACK_BY, BEFORE_MS, Message

TIMESTAMPS = "timestamps"
DIFFERENCES = "differences"
NUMBERS = "numbers"


class AgeInterval(Struct, frozen=True):
    """All lost messages are at least and at most so old; None where there is no bound."""

    least_ns: int = 0
    most_ns: int | None = None
    methods: tuple[str, ...] = ()
    """The metadata that gave it; empty if nothing is known."""


def age_of_lost(
    before: int, before_created_ns: int | None, after: Message | None, arrived_ns: int, now_ns: int
) -> AgeInterval:
    """The age of the messages between number *before*, made at *before_created_ns*, and *after*, which
    arrived at *arrived_ns*. All times are since 1970."""
    if after is None:
        return AgeInterval()
    ages = after.ages
    after_created_ns = ages.created_ns if ages.created_ns is not None else arrived_ns
    base = max(0, now_ns - after_created_ns)
    found: list[tuple[str, int, int | None]] = []
    if ages.created_ns is not None:
        most = max(base, now_ns - before_created_ns) if before_created_ns is not None else None
        found.append((TIMESTAMPS, base, most))
    if any(each is not None for each in ages.back_ns):
        least, most = _by_differences(ages.back_ns, after.number - before - 1)
        found.append((DIFFERENCES, base + least, base + most if most is not None else None))
    if any(each is not None for each in ages.numbers_before):
        least, most = _by_numbers(ages.numbers_before, before + 1, after.number - 1)
        found.append((NUMBERS, base + least, base + most if most is not None else None))
    if not found:
        return AgeInterval()
    least = max(each[1] for each in found)
    bounds = [each[2] for each in found if each[2] is not None]
    return AgeInterval(least, max(least, min(bounds)) if bounds else None, tuple(each[0] for each in found))


def _by_differences(back_ns: tuple[int | None, ...], count: int) -> tuple[int, int | None]:
    """How much older than the message after the gap the newest and the oldest of *count* lost ones are, from
    its differences: the newest is one message back, the oldest *count*."""
    told = [(by, ns) for by, ns in zip(BACK_BY, back_ns, strict=False) if ns is not None]
    least = max((ns for by, ns in told if by <= 1), default=0)
    most = min((ns for by, ns in told if by >= count), default=None)
    return max(0, least), most


def _by_numbers(numbers: tuple[int | None, ...], first: int, last: int) -> tuple[int, int | None]:
    """The same, from numbers: one up to which messages were made 10 ms ago or longer, and so on."""
    told = [(ms, number) for ms, number in zip(BEFORE_MS, numbers, strict=False) if number is not None]
    least = max((ms for ms, number in told if number >= last), default=0)
    most = min((ms for ms, number in told if number < first), default=None)
    return least * MILLISECOND, most * MILLISECOND if most is not None else None
