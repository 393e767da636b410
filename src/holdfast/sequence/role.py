"""The roles of a member, and which may follow which. A process never resumes a role (V3).

How fit a member is to lead: whether it has its object, or could have it (O3, E8).

A member holds the sequence whatever becomes of its object: it stays listed, acknowledges, and counts. But to
lead it needs the object. Who must load much first leaves claims to others, for a while. Who has failed to
make one comes last. And whose object was found to differ from the primary's never leads, until it has taken
the primary's state: the calls that were answered are in that one alone.
*Without it:* B differs, is handed the group, and an acknowledged call is there or not depending on who
serves.
"""

import enum
from dataclasses import dataclass
from typing import Final

from holdfast.model.ids import Position
from holdfast.storage.record import ORIGIN


class Role(enum.Enum):
    WAITING = "waiting"
    """The view was not read yet: nothing is acknowledged."""
    LEARNER = "learner"
    """Not listed: catches up."""
    BACKUP = "backup"
    """Listed: its acknowledgements are required, and it may claim."""
    CLAIMING = "claiming"
    """Listed; a claim was asked for and is not definitely answered: it acknowledges and confirms nothing."""
    PRIMARY = "primary"
    """It won the epoch. Whether it serves yet is another matter (K1)."""
    HALTED = "halted"
    """For good, and said so."""


TRANSITIONS: Final = {
    Role.WAITING: (Role.LEARNER, Role.BACKUP, Role.HALTED),
    Role.LEARNER: (Role.LEARNER, Role.BACKUP, Role.HALTED),
    Role.BACKUP: (Role.BACKUP, Role.LEARNER, Role.CLAIMING, Role.HALTED),
    Role.CLAIMING: (Role.PRIMARY, Role.BACKUP, Role.LEARNER, Role.HALTED),
    Role.PRIMARY: (Role.BACKUP, Role.LEARNER, Role.HALTED),
    Role.HALTED: (),
}


WORDS_MAX: Final = 300
"""Of why, for people: it travels, and is in the group's history."""


class Rank(enum.IntEnum):
    """In the order in which members are to lead."""

    NEAR = 0
    """It could serve almost at once."""
    FAR = 1
    """It has much to load first."""
    UNABLE = 2
    """No object can be made here, as far as was tried: it comes last (O3)."""
    UNFIT = 3
    """Its object would not be the group's: it never leads (E8)."""


@dataclass(frozen=True, slots=True)
class Fitness:
    """Of one member, at this moment."""

    rank: Rank
    why: str = ""
    """For people; empty for one that has its object, or only has to load it."""
    found_at: Position = ORIGIN.position
    """A state that stands for less does not help: to replay from there would only show the same again."""
    wants_state: bool = False
    """It asks its primary for one (E8)."""

    since_ns: int = 0
    """By the wall clock, since when there is no object."""

    @property
    def is_without(self) -> bool:
        """Whether there is no object here, and not only because it has not been loaded yet."""
        return self.rank >= Rank.UNABLE


NEAR: Final = Fitness(Rank.NEAR)
FAR: Final = Fitness(Rank.FAR)
