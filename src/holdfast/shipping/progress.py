"""How far a fetch is: its phases in their order, and what it counts."""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What a fetch is doing. A check that finds damage goes back to fetching."""

    OPENING = "opening"
    SEARCHING = "searching"
    FETCHING = "fetching"
    CHECKING = "checking"
    NAMING = "naming"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class Progress:
    """How far a fetch is, in bytes where nothing else is said."""

    total: int
    phase: Phase = Phase.OPENING
    found: int = 0
    """What was here already, in whatever file."""
    received: int = 0
    repeated: int = 0
    """What came although it was here by then."""
    damaged: int = 0
    """The number of chunks that had the wrong hash, on the way or on the disk."""
    damage: str = ""
    """The last of them, with its file and offset."""
    attempts: int = 0
    """How many sources in a row gave nothing."""
    problem: str = ""
    """Why the last source was left."""
