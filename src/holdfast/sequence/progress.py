"""What a primary knows about each member that follows it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority.views import ViewMember
from holdfast.model.ids import Epoch, HostId, Incarnation, Position, StoreId
from holdfast.sequence.lease_heartbeats import NOBODY
from holdfast.sequence.role import Rank
from holdfast.storage.record import ORIGIN

NOTHING: Final = Position(-1)
"""The follower has acknowledged nothing, not even that the logs agree at the origin."""


@dataclass(slots=True)
class Progress:
    """What the primary knows about one backup or learner. A new process of the follower counts only after it
    has said what it holds."""

    member: ViewMember
    next: Position
    """Its log equals ours up to here, as far as is known; the records after it are sent next."""
    agreed: Position
    """Where the logs met when the follower last said what it holds; its send window starts there."""
    acknowledged: Position = NOTHING
    """Its durable log equals ours up to here. This holds across the epochs of one primary, because nobody
    else wrote in between."""
    heard_at: int = 0
    sent_at: int = 0
    owing_since: int | None = None
    """Since when the follower owes an acknowledgement; None when it owes nothing (M1)."""
    told: Position = NOTHING
    """The commit position that the follower was last sent."""
    answered_in: Epoch = ORIGIN.epoch
    answered_beat: int = 0
    """The latest heartbeat of ours that it had received when it answered in that epoch (R1)."""
    answered_as: Incarnation = NOBODY
    is_short: bool = False
    """The follower returned with less than it had acknowledged: its disk reverted to an older state (V5)."""

    rank: Rank = Rank.NEAR
    """How fit to lead the follower last said it is (O3, E8); believed until *rank_until*."""
    rank_until: int = 0
    why_without: str = ""

    log_bytes: int = 0
    """The bytes in its log that none of its checkpoints covers, as it last reported (D4)."""
    full_since: int | None = None
    """Since when its log is full; None when it is not (D4)."""
    lacks_space: bool = False
    """Its host is short of disk space, as it last reported (D5)."""
    in_flight_bytes: int = 0
    """The bytes of records sent to it and not yet acknowledged."""
    _in_flight: deque[tuple[Position, int]] = field(default_factory=deque)

    def sent(self, up_to: Position, size: int) -> None:
        """Record that *size* bytes of records, up to that position, were sent."""
        self._in_flight.append((up_to, size))
        self.in_flight_bytes += size

    def resend_all(self) -> None:
        """Treat everything in flight as lost; it is sent again."""
        self._in_flight.clear()
        self.in_flight_bytes = 0

    def set_rank(self, rank: Rank, why: str, until: int) -> None:
        """Record how fit to lead the follower says it is; this is believed *until* then."""
        self.rank, self.why_without, self.rank_until = rank, why, until

    def rank_at(self, now: int) -> Rank:
        """How fit the follower is to lead, as far as is known."""
        return self.rank if now < self.rank_until else Rank.NEAR

    def accepted(self, up_to: Position, incarnation: Incarnation, epoch: Epoch, beat: int) -> None:
        """Record an acknowledgement up to that position, which is an answer that carried *epoch* as well."""
        if up_to > self.acknowledged:
            self.acknowledged = up_to
        while self._in_flight and self._in_flight[0][0] <= up_to:
            self.in_flight_bytes -= self._in_flight.popleft()[1]
        if (epoch, beat) != (self.answered_in, self.answered_beat) or incarnation != self.answered_as:
            self.answered(incarnation, epoch, beat)

    def answered(self, incarnation: Incarnation, epoch: Epoch, beat: int) -> None:
        """Record an answer that carried *epoch*."""
        if (epoch, beat) >= (self.answered_in, self.answered_beat) or incarnation > self.answered_as:
            self.answered_in, self.answered_beat, self.answered_as = epoch, beat, incarnation


class ProgressOfAll:
    """The progress of all followers of one primary, by host and store, during one term."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """*on_change* is called whenever a follower was added or removed."""
        self._on_change = on_change
        self.by_id: dict[tuple[HostId, StoreId], Progress] = {}
        """Only read elsewhere."""
        self.all: tuple[Progress, ...] = ()
        """All of them. Replaced, never changed, when a follower is added or removed."""

    def clear(self) -> None:
        self.by_id.clear()
        self._changed()

    def get(self, member: ViewMember) -> Progress | None:
        return self.by_id.get((member.host, member.store))

    def remove(self, follower: Progress) -> None:
        self.by_id.pop((follower.member.host, follower.member.store), None)
        self._changed()

    def add(self, follower: Progress) -> None:
        self.by_id[follower.member.host, follower.member.store] = follower
        self._changed()

    def has_later(self, host: HostId, incarnation: Incarnation, heard_since: int = 0) -> bool:
        """Whether a later process of that host follows, and was heard since then."""
        return any(
            each.member.incarnation > incarnation and each.heard_at >= heard_since
            for each in self.of_host(host)
        )

    def remove_earlier(self, member: ViewMember) -> None:
        """Remove followers with other stores of the same host: a new process came with a new store, so what
        an earlier one had is gone for good (V4, V5)."""
        for each in self.of_host(member.host):
            if each.member.store != member.store:
                self.remove(each)

    def of_host(self, host: HostId) -> list[Progress]:
        return [each for each in self.all if each.member.host == host]

    def _changed(self) -> None:
        self.all = tuple(self.by_id.values())
        self._on_change()
