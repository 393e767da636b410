"""The time of groups: whether wrong clocks can have led it astray, and that nothing else does (X4)."""

from typing import Final

from holdfast.clock.config import ClockConfig
from holdfast.sim.clocks import WALL_START
from holdfast.sim.groups.book import Book
from holdfast.sim.options import SECOND

CLOCK_LIMIT_NS: Final = ClockConfig().clock_limit_s * SECOND
AHEAD_NS: Final = 300 * SECOND
"""A group's time steps forward by seconds when a host dies (CSN-21): so far it gets only by a jump."""


def may_be_wrong(book: Book) -> bool:
    """Whether a group's time may have gone far ahead: a process was started on a machine whose clock had
    jumped, and cannot know; or many jumps were so small that each was followed."""
    jumps = [each for each in book.world.options.faults if each.kind == "clock_jump"]
    sizes = [abs(each.parameters["by_ns"]) for each in jumps]
    followed_ns = sum(each for each in sizes if each <= CLOCK_LIMIT_NS)
    began_later = any(each.at_ns < book.began_ns.get(each.target, 0) for each in jumps)
    return began_later or followed_ns > AHEAD_NS // 2


def check(book: Book, name: str, time_ns: int) -> None:
    """*time_ns* is what the newest operation of a group was stamped with."""
    ahead_ns = time_ns - WALL_START - book.world.now
    if ahead_ns > AHEAD_NS and not may_be_wrong(book):
        book.world.violation("X4", f"{name} is {ahead_ns // SECOND} s ahead of its time")
