"""The roles of a member, and which may follow which. A process never resumes a role (V3)."""

import enum
from typing import Final


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
