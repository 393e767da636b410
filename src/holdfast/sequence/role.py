"""The roles of a member, and how fit a member is to lead (V3, O3, E8).

A new process never resumes a role (V3); ``TRANSITIONS`` says which role may follow which.

A member holds the sequence whatever happens to its object: it stays listed, acknowledges, and counts. But it
needs the object to lead. A member that must load much first leaves claims to others for a while. A member
that failed to build its object comes last. A member whose object was found to differ from the primary's never
leads until it has taken the primary's state, because only that state contains the calls that were answered.
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
    """The member has not read the view yet; it acknowledges nothing."""
    LEARNER = "learner"
    """Not listed: the member catches up."""
    BACKUP = "backup"
    """Listed: its acknowledgements are required, and it may claim."""
    CLAIMING = "claiming"
    """Listed; its claim is not definitely answered yet, and until then it acknowledges and confirms
    nothing."""
    PRIMARY = "primary"
    """The member won the epoch; it may not serve calls yet (K1)."""
    HALTED = "halted"
    """The member has stopped for good and reported it."""


TRANSITIONS: Final = {
    Role.WAITING: (Role.LEARNER, Role.BACKUP, Role.HALTED),
    Role.LEARNER: (Role.LEARNER, Role.BACKUP, Role.HALTED),
    Role.BACKUP: (Role.BACKUP, Role.LEARNER, Role.CLAIMING, Role.HALTED),
    Role.CLAIMING: (Role.PRIMARY, Role.BACKUP, Role.LEARNER, Role.HALTED),
    Role.PRIMARY: (Role.BACKUP, Role.LEARNER, Role.HALTED),
    Role.HALTED: (),
}


WORDS_MAX: Final = 300
"""The longest reason text, in characters; it is sent in messages and stored in the group's history."""


class Rank(enum.IntEnum):
    """How fit a member is to lead, the fittest first."""

    NEAR = 0
    """It could serve almost at once."""
    FAR = 1
    """It must load much first."""
    UNABLE = 2
    """It has failed to build its object: it comes last (O3)."""
    UNFIT = 3
    """Its object would differ from the group's: it never leads (E8)."""


@dataclass(frozen=True, slots=True)
class Fitness:
    """How fit one member is to lead at this moment, and why."""

    rank: Rank
    why: str = ""
    """The reason, for people; empty if the member has its object or only needs to load it."""
    found_at: Position = ORIGIN.position
    """Only a state that covers at least this position helps: replaying from an earlier one would lead to the
    same difference again."""
    wants_state: bool = False
    """The member asks its primary for a state (E8)."""

    since_ns: int = 0
    """Since when the member has had no object, by the wall clock."""

    @property
    def is_without(self) -> bool:
        """Whether the member has no object for another reason than that it is not loaded yet."""
        return self.rank >= Rank.UNABLE


NEAR: Final = Fitness(Rank.NEAR)
FAR: Final = Fitness(Rank.FAR)
