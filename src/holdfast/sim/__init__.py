"""The deterministic simulator: it runs whole domains of production cores under one seed.

The package owns the event heap; the simulated clocks, network and disks behind the ports of
:mod:`holdfast.model.ports`; the faults and how they are drawn from a seed; and the runner that counts, keeps,
replays and shrinks runs. Three invariants hold. A run depends on its :class:`Options` alone. Nothing in a run
reads the machine's clock, randomness or hash order. A handle of an ended incarnation does nothing. What a
scenario checks is left to :mod:`.scenarios` and :mod:`.checkers`, and which rules a planted bug breaks to
:mod:`holdfast.sim.runner.planted`.
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
