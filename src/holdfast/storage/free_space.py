"""How much space a disk has, and how much of it is kept free (D5)."""

from dataclasses import dataclass

from msgspec import Struct

from holdfast.model.ids import MILLISECOND
from holdfast.model.validation import Problem, below


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """The space on the disk of a host, in bytes."""

    free: int
    total: int


class SpaceConfig(Struct, frozen=True, kw_only=True):
    """How much space is kept free."""

    reserve_bytes: int = 256 << 20
    """Below this much free space nothing more is ordered. It must hold what all hosts on the disk may still
    write after that: a log file or two each, the checkpoints under way, small files."""
    reserve_percent_max: int = 5
    """The reserve is at most this part of the disk, so that a small disk can be used at all."""
    enough_percent: int = 125
    """A host that was short of space goes on when this part of the reserve is free, so that it does not
    change its mind with every file."""
    look_ns: int = 250 * MILLISECOND
    """How often the space is looked at; in between the reserve is used up by whoever writes."""

    def validate(self) -> list[Problem]:
        problems = below(self, 0, ("reserve_bytes",))
        if not 0 <= self.reserve_percent_max <= 50:
            problems.append(("reserve_percent_max", "must lie between 0 and 50"))
        if not 100 <= self.enough_percent <= 1_000:
            problems.append(("enough_percent", "must lie between 100 and 1000"))
        if self.look_ns < MILLISECOND:
            problems.append(("look_ns", "must be at least 1 ms"))
        return problems

    def reserve_of(self, space: FreeSpace) -> int:
        return min(self.reserve_bytes, space.total * self.reserve_percent_max // 100)
