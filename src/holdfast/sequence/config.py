"""The settings of a group's sequence and of the leases between hosts."""

from msgspec import Struct

from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.model.validation import Problem, below

MILLION = 1_000_000
RECORD_BYTES_MAX = (1 << 20) - 4096
LEASE_NS_MIN = 30 * MILLISECOND
LEASE_NS_MAX = 60 * SECOND
"""The longest lease: after it at the latest a group whose primary fell silent is claimed. A process that
cannot know what its predecessor granted waits for this long (R5)."""
RATE_BOUND_PPM_MAX = 500_000


class SequenceConfig(Struct, frozen=True, kw_only=True):
    """The settings of one group. All members must agree on *min_in_sync*; the times may differ."""

    min_in_sync: int = 2
    """How many members at least must hold an operation before it is acknowledged (S3, M1). With 1, losing one
    machine may lose acknowledged operations."""
    silence_ns: int = 1 * SECOND
    """A required backup that owes an acknowledgement for this long is dropped (M1). A longer time makes calls
    wait longer; a shorter one turns a slow disk into a view change."""
    lag_limit: int = 50_000
    """A backup that is this many positions behind its peers is dropped, if M1 allows (M4)."""
    return_ns: int = 2 * SECOND
    """How long a dropped backup stays unlisted at least; doubled with each drop (M4)."""
    uncommitted_max: int = 100_000
    """How many positions may be ordered but not yet committed; beyond that, calls are refused as
    Overloaded."""
    window: int = 8_192
    """How many positions may be sent to one follower and not yet acknowledged. A learner that is this close
    to the tail is let in."""
    window_bytes: int = 16 << 20
    """How many bytes of records may be sent to one follower and not yet acknowledged; well below what a
    connection buffers."""
    batch_records_max: int = 512
    """The most records in one Submit."""
    batch_bytes_max: int = 4 << 20
    """The most bytes of records in one Submit, and in one read from the disk for it; a single longer record
    still goes. Even then a Submit stays well below the longest frame of a connection (16 MiB)."""
    record_bytes_max: int = RECORD_BYTES_MAX
    """The most bytes in one record; a longer one is refused. This is what the host's log takes, less its
    overhead."""
    resend_ns: int = 200 * MILLISECOND
    """Records that are not acknowledged after this time are sent again, because a broken connection loses
    messages."""
    ask_ns: int = 50 * MILLISECOND
    """The shortest time between two messages in which a follower tells what it holds."""
    compare_ns: int = 100 * MILLISECOND
    """How long a claimant that must compare waits for the others' answers (V5)."""
    turn_ns: int = 600 * MILLISECOND
    """How long a member leaves a claim to each member that comes before it and is heard. If it is too short,
    two members claim and hold each other up when a host with many groups dies; if it is too long, a member
    that is heard but cannot claim costs more time."""
    clock_wait_ns: int = 5 * SECOND
    """How long a member whose host's clock differs from most others' leaves a claim to them (X4). After that
    it claims all the same: a group with the wrong time is better than none."""
    lack_ns: int = 500 * MILLISECOND
    """How often a member without its object tells its primary so and asks for a state again (E8). The primary
    believes it until it has heard nothing of the kind for several times as long."""
    notify_ns: int = 20 * MILLISECOND
    """Backups learn of a commit with the next records, or after this time."""
    chunks_in_flight: int = 4
    """How many chunks of a checkpoint may be on their way to a learner."""
    hold_ns: int = 10 * SECOND
    """How long a primary keeps its log for a member that catches up and makes no progress (M4). Longer than a
    large state takes to be synced and loaded; shorter makes such a member begin again."""
    hold_bytes: int = 48 << 20
    """A primary whose log is longer keeps none of it for members that catch up (M4). This is below
    ``long_log_bytes`` of the styles, so that no call is refused for the sake of a learner (D4)."""
    full_log_bytes: int = 80 << 20
    """If a backup's log stays longer for ``silence_ns``, while the primary's is below ``hold_bytes`` and M1
    would allow to drop the backup, calls are no longer refused for its sake (D4). In each group it is
    ``log_bytes_max`` of the style, beyond which they are."""

    def validate(self) -> list[Problem]:
        problems = below(self, 1, self.__struct_fields__)
        if self.resend_ns >= self.silence_ns:
            problems.append(("resend_ns", "must be below silence_ns, or a lost message costs a view change"))
        if self.record_bytes_max > RECORD_BYTES_MAX:
            problems.append(("record_bytes_max", f"must be at most {RECORD_BYTES_MAX}, which a log takes"))
        return problems


class LeaseConfig(Struct, frozen=True, kw_only=True):
    """The settings of the leases between hosts (R1, R3)."""

    lease_ns: int = 600 * MILLISECOND
    """How long the heartbeats that this host answers let a primary elsewhere answer reads by itself. A
    failover without proof of death waits for the grace, which is derived from it. Longer: a pause of a host
    or of the network costs fewer suspicions; shorter: a host that dies with its machine is replaced
    sooner."""
    interval_ns: int = 150 * MILLISECOND
    """The time between two heartbeats. At most a third of the lease, so that one may be lost."""
    rate_bound_ppm: int = 10_000
    """The most by which the rates of two hosts' clocks differ, in parts per million. Too small a value makes
    stale reads possible."""
    margin_ns: int = 50 * MILLISECOND
    """Added to the grace for what the rate bound does not cover: rounding, and reading the clock late."""

    @property
    def grace_ns(self) -> int:
        """How long the answering host must not claim: longer than the holder's lease by any clock within the
        bound."""
        return self.grace_of(self.lease_ns)

    def grace_of(self, lease_ns: int) -> int:
        """The grace for a lease of that length."""
        return lease_ns + lease_ns * self.rate_bound_ppm // MILLION + self.margin_ns

    def lease_within(self, grace_ns: int) -> int:
        """The longest lease that ends, by this host's own bound and margin, before a grace of that length."""
        return (grace_ns - self.margin_ns) * MILLION // (MILLION + self.rate_bound_ppm)

    def validate(self) -> list[Problem]:
        problems: list[Problem] = []
        if not LEASE_NS_MIN <= self.lease_ns <= LEASE_NS_MAX:
            problems.append(("lease_ns", "must lie between 30 ms and 60 s"))
        if self.interval_ns < MILLISECOND:
            problems.append(("interval_ns", "must be at least 1 ms"))
        elif self.interval_ns * 3 > self.lease_ns:
            problems.append(("interval_ns", "must be at most a third of lease_ns: one may be lost"))
        if not 0 <= self.rate_bound_ppm <= RATE_BOUND_PPM_MAX:
            problems.append(("rate_bound_ppm", f"must lie between 0 and {RATE_BOUND_PPM_MAX}"))
        if not 0 <= self.margin_ns <= LEASE_NS_MAX:
            problems.append(("margin_ns", "must lie between 0 s and 60 s"))
        return problems
