"""Everything that shapes one run, expanded from its seed, as plain data: it can be kept, replayed and shrunk.

Code changes shift what a bare seed means; the expanded options go on meaning the same run.
"""

from typing import Any, Final

from msgspec import Struct

MICROSECOND: Final = 1_000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000

TIMERS_EARLY_NS: Final = 1_500 * MICROSECOND
"""How early a timer of uvloop fires at most: it cuts its clock to milliseconds, and rounds the delay."""


class FaultEvent(Struct, frozen=True, kw_only=True):
    """One fault of the schedule. *parameters* are JSON values that the fault's kind understands."""

    at_ns: int
    kind: str
    target: str = ""
    """The node it hits; empty when the parameters name several."""
    parameters: dict[str, Any] = {}


class NetworkOptions(Struct, frozen=True, kw_only=True):
    """How messages travel when no fault is at work."""

    delay_min_ns: int = 50 * MICROSECOND
    delay_mean_ns: int = 200 * MICROSECOND
    """Mean of the exponential part above the minimum; what makes messages overtake each other."""
    loss: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    """Share of messages held back for up to *late_max_ns*: long enough to outlive a restart."""
    late_max_ns: int = 3 * SECOND


class DiskOptions(Struct, frozen=True, kw_only=True):
    """How long a sync takes when no fault is at work."""

    sync_min_ns: int = 100 * MICROSECOND
    sync_mean_ns: int = 400 * MICROSECOND


class Options(Struct, frozen=True, kw_only=True):
    """One run, whole."""

    scenario: str
    seed: int
    profile: str = "calm"
    fault_ns: int = 10 * SECOND
    """Length of the first phase, in which the faults happen."""
    heal_ns: int = 10 * SECOND
    """Length of the second, in which everything works and progress is demanded."""
    faults: tuple[FaultEvent, ...] = ()
    network: NetworkOptions = NetworkOptions()
    disk: DiskOptions = DiskOptions()
    points: float = 0.0
    """Share of the cores' fault points (``fault.maybe``) that are active in this run."""
    timers_early_ns: int = 0
    """Each timer fires up to so much before its time; zero in what was kept before there was this."""
    in_memory: bool = False
    """The scenario's groups that may live in memory do, whatever it would draw."""
    planted: str | None = None
    """The planted bug that the run is to find."""
