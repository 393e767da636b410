"""What may be set about a group's sequence and about the leases between hosts."""

from msgspec import Struct

from holdfast.model.ids import MILLISECOND, SECOND

MILLION = 1_000_000


class SequenceConfig(Struct, frozen=True, kw_only=True):
    """One group. All members must agree on *min_in_sync*; the times may differ."""

    min_in_sync: int = 2
    """An operation is acknowledged once so many members hold it, at least (S3, M1); 1 may lose on a fire."""
    silence_ns: int = 1 * SECOND
    """A required backup that owes an acknowledgement for so long is dropped (M1). Longer: calls wait longer;
    shorter: a slow disk costs a view change."""
    lag_limit: int = 50_000
    """A backup so many positions behind its peers is dropped, while M1 allows (M4)."""
    return_ns: int = 2 * SECOND
    """A dropped backup is listed again no sooner than this after its drop; doubled each time (M4)."""
    uncommitted_max: int = 100_000
    """Positions ordered and not yet committed; beyond, calls are refused as Overloaded."""
    window: int = 8_192
    """Positions sent to one follower and not yet acknowledged; a learner this close to the tail is let in."""
    window_bytes: int = 16 << 20
    """Of records sent to one follower and not yet acknowledged; well below what a connection holds unsent."""
    batch_records_max: int = 512
    """Records in one Submit."""
    batch_bytes_max: int = 4 << 20
    """Of records in one Submit, and of what is read from the disk for it, unless a single one is longer. With
    one that is, a Submit stays well below the longest frame of a connection (16 MiB)."""
    record_bytes_max: int = (1 << 20) - 4096
    """Of one record; a longer one is refused. What the host's log takes, less its own words."""
    resend_ns: int = 200 * MILLISECOND
    """What was sent and is not acknowledged after this goes again. A connection that broke loses messages."""
    ask_ns: int = 50 * MILLISECOND
    """A follower says no oftener than this what it holds."""
    compare_ns: int = 100 * MILLISECOND
    """How long a claimant that must compare waits for the others' answers (V5)."""
    turn_ns: int = 600 * MILLISECOND
    """How long a claim is left to each member that comes first and is heard. Shorter: two claim what one
    could, and hold each other up when a host with many groups dies; longer: one that is heard and cannot
    claim costs more."""
    clock_wait_ns: int = 5 * SECOND
    """How long a member whose host's time differs from most others' leaves a claim to them (X4). Then it
    claims all the same: a group with the wrong time is better than none."""
    lack_ns: int = 500 * MILLISECOND
    """A member without its object tells its primary so again after this, and asks once more for a state (E8);
    the primary takes it for one until it has heard nothing of the kind for some times as long."""
    notify_ns: int = 20 * MILLISECOND
    """Backups hear of a commit with the next records, or after this."""
    chunks_in_flight: int = 4
    """Of a checkpoint on its way to a learner."""

    def validate(self) -> list[str]:
        """Every problem with these values, in words."""
        problems = [
            f"{name} is {getattr(self, name)}; it must be at least 1"
            for name in self.__struct_fields__
            if getattr(self, name) < 1
        ]
        if self.resend_ns >= self.silence_ns:
            problems.append("resend_ns must be below silence_ns, or a lost message costs a view change")
        return problems


class LeaseConfig(Struct, frozen=True, kw_only=True):
    """Leases between two hosts (R1, R3)."""

    lease_ns: int = 600 * MILLISECOND
    """How long an answered heartbeat lets a primary answer reads alone. Failover without proof waits for
    the grace that follows from it."""
    interval_ns: int = 150 * MILLISECOND
    """Between two heartbeats."""
    rate_bound_ppm: int = 10_000
    """The two clocks' rates differ by no more than this, taken together."""
    margin_ns: int = 50 * MILLISECOND
    """Added to the grace for what the rate bound does not cover: rounding, a late look at the clock."""

    @property
    def grace_ns(self) -> int:
        """How long the answering host must not claim: longer than the holder's lease by any clock."""
        return self.lease_ns + self.lease_ns * self.rate_bound_ppm // MILLION + self.margin_ns

    def validate(self) -> list[str]:
        problems = []
        if self.interval_ns * 3 > self.lease_ns:
            problems.append("interval_ns must be at most a third of lease_ns: one lost heartbeat is ordinary")
        if self.rate_bound_ppm < 0 or self.margin_ns < 0:
            problems.append("rate_bound_ppm and margin_ns cannot be negative")
        return problems
