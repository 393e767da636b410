"""The deterministic simulator: whole domains of production cores under one seed.

Owns the event heap and the simulated clocks, network and disks behind the ports of
:mod:`holdfast.model.ports`; the faults and how they are drawn from a seed; the runner that counts, keeps,
replays and shrinks. Invariants: a run depends on its :class:`Options` alone; nothing in it reads the
machine's clock, randomness or hash order; a handle of an ended incarnation does nothing.
Left to others: what a scenario checks (:mod:`.scenarios`, :mod:`.checkers`) and which rules a planted
bug breaks (:mod:`holdfast.sim.runner.planted`).
"""

from holdfast.sim.engine.clocks import ClockOptions, SimTimers
from holdfast.sim.engine.disk import Crash, DiskHandle, PowerCut, ProcessKilled, SimDisk
from holdfast.sim.engine.node import NodePorts, SimNode
from holdfast.sim.engine.options import MICROSECOND, MILLISECOND, SECOND, FaultEvent, Options
from holdfast.sim.engine.world import Violation, World
from holdfast.sim.faults import FaultKind, Field
from holdfast.sim.runner.profiles import expand
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.runner.simulation import Outcome, simulate

__all__ = [
    "MICROSECOND",
    "MILLISECOND",
    "SECOND",
    "Bound",
    "ClockOptions",
    "Crash",
    "DiskHandle",
    "FaultEvent",
    "FaultKind",
    "Field",
    "NodePorts",
    "Options",
    "Outcome",
    "PowerCut",
    "ProcessKilled",
    "Scenario",
    "SimDisk",
    "SimNode",
    "SimTimers",
    "Violation",
    "World",
    "expand",
    "simulate",
]
