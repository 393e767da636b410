"""The clock's settings."""

from typing import Final

from msgspec import Struct

from holdfast.model.errors import InvalidRequest

SKEW_S_MAX: Final = 10 * 365 * 86_400
"""Ten years: beyond that a limit protects nobody."""


class ClockConfig(Struct, frozen=True, kw_only=True):
    """How far clocks may differ, and how often the future timestamp is stored."""

    csn_max_skew_s: int = 3600
    """By how many seconds, in total, peers may pull this clock forward. Higher accepts worse clocks, lower
    finds them earlier. Suggested: 3600."""

    clock_limit_s: int = 60
    """A step of the system clock by more seconds than this is not followed until other hosts agree with it,
    and a host whose time differs by more from most others' leaves claims to them (X4). Lower
    notices more, and takes slow networks and coarse clocks for wrong ones. Suggested: 60."""

    store_interval_s: int = 3
    """Seconds of logical time between two stores. Each crash moves the clock forward by up to this plus
    `store_spare_s`, each store costs two syncs. Suggested: 3."""

    store_spare_s: int = 2
    """Seconds that a store may take before the timestamp has to wait for it. Suggested: 2."""

    in_flight_max: int = 100_000
    """CSNs assigned and neither committed nor aborted; beyond it generation is refused as overloaded."""

    def validate(self) -> None:
        """Raises :class:`InvalidRequest` naming every setting that is wrong."""
        problems = [
            f"{name} must be within {low}..{high}, not {value}"
            for name, value, low, high in (
                ("csn_max_skew_s", self.csn_max_skew_s, 0, SKEW_S_MAX),
                ("clock_limit_s", self.clock_limit_s, 1, SKEW_S_MAX),
                ("store_interval_s", self.store_interval_s, 1, 3600),
                ("store_spare_s", self.store_spare_s, 1, 3600),
                ("in_flight_max", self.in_flight_max, 1, 10_000_000),
            )
            if not low <= value <= high
        ]
        if problems:
            raise InvalidRequest("clock: " + "; ".join(problems))
