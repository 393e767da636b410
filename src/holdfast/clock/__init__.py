"""The clock: change sequence numbers (CSNs) for one server, and vectors of the changes that each server has.

The package contains the generator, whose CSNs only ever grow, across restarts, clock changes and the CSNs of
peers; the stored future timestamp that ensures this; replica update vectors; and the lists of pending
changes.

Invariants: no CSN reaches the future timestamp in stable storage; offsets never decrease; a vector never
claims a CSN while a smaller one of its replica is in flight. The package is a core: clock, timers, disk and
trace are ports.

Other packages handle the CSN value and its strings (``model.csn``), the changes themselves, and where vectors
and ``csnstate`` are stored.
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
