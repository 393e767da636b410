"""The clock: change sequence numbers for one server, and what each server has of everybody's changes.

Owns the generator (CSNs that only ever grow, across restarts, clock changes and what peers say), the stored
future timestamp that makes this so, replica update vectors, and the lists of changes still pending.

Invariants: no CSN reaches the future timestamp in stable storage; offsets never decrease; a vector never
claims a CSN while a smaller one of its replica is in flight. A core: clock, timers, disk and trace are ports.

Leaves to others: the CSN value and its strings (``model.csn``), the changes themselves, and where vectors
and ``csnstate`` are kept.
"""

from holdfast.clock.assignments import Assignments, CsnCallback, Registration
from holdfast.clock.errors import ClockConfig
from holdfast.clock.generator import ClockPorts, ClockStatus, Generator, Phase
from holdfast.clock.state import ClockState
from holdfast.clock.vector import Missing, PendingList, Vector, missing, to_send

__all__ = [
    "Assignments",
    "ClockConfig",
    "ClockPorts",
    "ClockState",
    "ClockStatus",
    "CsnCallback",
    "Generator",
    "Missing",
    "PendingList",
    "Phase",
    "Registration",
    "Vector",
    "missing",
    "to_send",
]
