"""Everything that shapes one run, expanded from its seed, as plain data to keep, replay and shrink.

A change of the code may change which run a bare seed means; expanded options keep meaning the same run.
"""

from typing import Any, Final

from msgspec import Struct

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000

TIMERS_EARLY_NS: Final = 1_500 * MICROSECOND
"""The most by which a timer of uvloop fires early: it truncates its clock to milliseconds, and rounds the
delay."""


class FaultEvent(Struct, frozen=True, kw_only=True):
    """One fault of the schedule. *parameters* are JSON values that the fault's kind understands."""

    at_ns: int
    kind: str
    target: str = ""
    """The node that is hit; empty when the parameters name several."""
    parameters: dict[str, Any] = {}


class NetworkOptions(Struct, frozen=True, kw_only=True):
    """How messages travel while no fault is active."""

    delay_min_ns: int = 50 * MICROSECOND
    delay_mean_ns: int = 200 * MICROSECOND
    """The mean of the exponential part above the minimum. It is what makes messages overtake each other."""
    loss: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    """The share of messages delayed by up to *late_max_ns*, which is long enough to outlast a restart."""
    late_max_ns: int = 3 * SECOND


class DiskOptions(Struct, frozen=True, kw_only=True):
    """How long a sync takes while no fault is active."""

    sync_min_ns: int = 100 * MICROSECOND
    sync_mean_ns: int = 400 * MICROSECOND


class Options(Struct, frozen=True, kw_only=True):
    """The complete options of one run."""

    scenario: str
    seed: int
    profile: str = "calm"
    fault_ns: int = 10 * SECOND
    """The length of the first phase, in which the faults happen."""
    heal_ns: int = 10 * SECOND
    """The length of the second phase, in which everything works and progress is required."""
    faults: tuple[FaultEvent, ...] = ()
    network: NetworkOptions = NetworkOptions()
    disk: DiskOptions = DiskOptions()
    points: float = 0.0
    """The share of the cores' fault points (``fault.maybe``) that are active in this run."""
    timers_early_ns: int = 0
    """Each timer fires early by up to this much. Zero in options that were kept before this field existed."""
    in_memory: bool = False
    """Whether groups of the scenario that may be kept in memory are, instead of that being drawn."""
    retunes: bool = False
    """Whether hosts of the scenario are given other settings while they run, if it has any to give."""
    planted: str | None = None
    """The planted bug that the run is meant to find."""
