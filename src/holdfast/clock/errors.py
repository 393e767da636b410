"""The clock's errors, each of which says what the caller may do about it, and the clock's settings."""

from typing import Final

from msgspec import Struct

from holdfast.model.errors import Corruption, InvalidRequest, Rejected, Unavailable
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.model.validation import Problem


class FutureNotStored(Unavailable):
    """Raised when the next CSN would pass the stored future timestamp; ask again once it is stored."""

    code = "future_not_stored"


class ClockUnreadable(Unavailable):
    """Raised when the system clock could not be read; ask again after its next reading."""

    code = "clock_unreadable"


class GeneratorStopped(Unavailable):
    """Raised when the generator is closed, or its store failed (D1); only a restart helps."""

    code = "generator_stopped"


class TimeEnded(InvalidRequest):
    """Raised when the logical time is past 2106, the end of a CSN's 32-bit timestamp."""

    code = "time_ended"


class SkewTooLarge(Rejected):
    """Raised when a peer's time is ahead by more than ``csn_max_skew`` allows; nothing changed.

    Refuse the session with that peer and look at both clocks; local writes go on.
    """

    code = "skew_too_large"

    def __init__(self, peer: str, *, ahead_ns: int, network_offset_ns: int, limit_s: int) -> None:
        ahead_s = ahead_ns / SECOND
        super().__init__(
            f"peer {peer} is {ahead_s:.3f} s ahead of the logical time here; on top of the network offset of "
            f"{network_offset_ns / SECOND:.3f} s that is more than csn_max_skew, {limit_s} s"
        )
        self.peer = peer
        self.ahead_s = ahead_s
        self.limit_s = limit_s


class DuplicateReplica(InvalidRequest):
    """Raised when a peer claims a replica id that another has: their CSNs could not be told apart."""

    code = "duplicate_replica"

    def __init__(self, peer: str, replica: ReplicaId, owner: str) -> None:
        super().__init__(f"peer {peer} says it is replica {replica}, which is {owner}")
        self.peer = peer
        self.replica = replica
        self.owner = owner


class DifferentGeneration(Rejected):
    """Raised when two vectors belong to different data sets; the consumer needs a full initialisation
    first."""

    code = "different_generation"

    def __init__(self, ours: str, theirs: str) -> None:
        super().__init__(f"vectors of different data sets: {ours} here, {theirs} there")
        self.ours = ours
        self.theirs = theirs


class ClockFileMissing(Corruption):
    """Raised when a store that is not new has no clock file: its time must not start over."""

    code = "clock_file_missing"

    def __init__(self, file: str) -> None:
        super().__init__(
            "the stored timestamp is gone", file=file, offset=0, expected="a clock file", found="none"
        )


SKEW_S_MAX: Final = 10 * 365 * 86_400
"""The largest skew limit, ten years; a greater one would protect nobody."""


class ClockConfig(Struct, frozen=True, kw_only=True):
    """How far clocks may differ, and how often the future timestamp is stored."""

    csn_max_skew_s: int = 3600
    """By how many seconds, in total, peers may pull this clock forward. A higher value accepts worse clocks,
    a lower one finds them earlier. Suggested: 3600."""

    clock_limit_s: int = 60
    """A step of the system clock by more seconds than this is not followed until other hosts agree with it,
    and a host whose time differs by more from most others' leaves claims to them (X4). A lower value notices
    more, but mistakes slow networks and coarse clocks for wrong ones. Suggested: 60."""

    store_interval_s: int = 3
    """Seconds of logical time between two stores. Each crash moves the clock forward by up to this plus
    `store_spare_s`, and each store costs two syncs. Suggested: 3."""

    store_spare_s: int = 2
    """How many seconds a store may take before the timestamp has to wait for it. Suggested: 2."""

    in_flight_max: int = 100_000
    """How many CSNs may be assigned and neither committed nor aborted; beyond it generation is refused as
    overloaded."""

    def validate(self) -> list[Problem]:
        bounds = (
            ("csn_max_skew_s", 0, SKEW_S_MAX),
            ("clock_limit_s", 1, SKEW_S_MAX),
            ("store_interval_s", 1, 3600),
            ("store_spare_s", 1, 3600),
            ("in_flight_max", 1, 10_000_000),
        )
        return [
            (name, f"must lie between {low} and {high}")
            for name, low, high in bounds
            if not low <= getattr(self, name) <= high
        ]
