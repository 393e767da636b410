"""What the first message after a gap proves about the priorities of those in it (LOSS-30 to 36).

X is the last number before the gap and Y the first after it. Y says how far before it the last message of a
level was sent; if that is beyond X, it lies in the gap, and was lost. The answer is yes or no for each level,
never a count. Other servers that have some of the lost messages can say more.
"""

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from holdfast.streams.message import DISTANCE_MAX, FURTHER, NONE_BEFORE, Message


class Lost(StrEnum):
    """Whether a message of some kind was lost."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


def is_lost(before: int, after: int, distance: int) -> Lost:
    """Whether a message at *distance* before number *after* lies beyond number *before* (LOSS-31, 32)."""
    if distance == NONE_BEFORE:
        return Lost.NO
    if distance == FURTHER:
        # The nearest it can be is one further than the longest distance that is told (LOSS-21).
        return Lost.NO if after - (DISTANCE_MAX + 1) <= before else Lost.UNKNOWN
    return Lost.NO if after - distance <= before else Lost.YES


def last_of(after: int, distance: int) -> int | None:
    """The number of the last message of a level before number *after* (LOSS-30); None if it is not told."""
    return after - distance if distance > 0 else None


class PriorityIndication(Struct, frozen=True):
    """What is known of the priorities of lost messages, by level from 0 on."""

    levels: tuple[Lost, ...] = ()
    """Whether one of exactly that level was lost."""
    at_least: tuple[Lost, ...] = ()
    """Whether one of that level or of a more important one was lost (LOSS-33)."""
    last: tuple[int | None, ...] = ()
    """The number of the last message of exactly that level that was sent before the gap's end, lost or
    not."""
    only_lowest: Lost = Lost.UNKNOWN
    """Whether all lost messages are of the lowest level, which needs no distance (LOSS-34)."""
    from_peers: tuple[int, ...] = ()
    """The levels of lost messages that other servers have (LOSS-36)."""

    @property
    def is_high_lost(self) -> Lost:
        """Whether a message of the highest level was lost."""
        for known in (self.levels, self.at_least):
            if known and known[0] is not Lost.UNKNOWN:
                return known[0]
        return Lost.YES if 0 in self.from_peers else Lost.UNKNOWN


def indication(
    before: int, after: Message | None, peers: Iterable[int] = (), *, is_all_at_peers: bool = False
) -> PriorityIndication:
    """What *after*, the first message after a gap that begins after number *before*, proves of the gap, with
    the levels of those of its messages that other servers have; *is_all_at_peers*: they have all of them."""
    found = tuple(sorted(set(peers)))
    if after is None:
        return _from_peers_alone(found, is_all_at_peers)
    levels = tuple(
        _combined(is_lost(before, after.number, distance), level in found, is_all_at_peers)
        for level, distance in enumerate(after.distances)
    )
    at_least = tuple(
        _combined(
            is_lost(before, after.number, distance), any(each <= level for each in found), is_all_at_peers
        )
        for level, distance in enumerate(after.cumulative)
    )
    return PriorityIndication(
        levels,
        at_least,
        tuple(last_of(after.number, distance) for distance in after.distances),
        _only_lowest(levels or at_least[-1:]),
        found,
    )


def _combined(told: Lost, is_at_peers: bool, is_all_at_peers: bool) -> Lost:
    if told is not Lost.UNKNOWN:
        return told
    if is_at_peers:
        return Lost.YES
    return Lost.NO if is_all_at_peers else Lost.UNKNOWN


def _only_lowest(levels: tuple[Lost, ...]) -> Lost:
    if Lost.YES in levels:
        return Lost.NO
    return Lost.UNKNOWN if Lost.UNKNOWN in levels or not levels else Lost.YES


def _from_peers_alone(found: tuple[int, ...], is_all: bool) -> PriorityIndication:
    if not found:
        return PriorityIndication()
    levels = tuple(
        Lost.YES if level in found else (Lost.NO if is_all else Lost.UNKNOWN)
        for level in range(found[-1] + 1)
    )
    return PriorityIndication(levels, from_peers=found)
