"""What a primary knows of each member that follows it."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority.views import ViewMember
from holdfast.model.ids import Epoch, HostId, Incarnation, Position, StoreId
from holdfast.sequence.lease_heartbeats import NOBODY
from holdfast.sequence.role import Rank
from holdfast.storage.record import ORIGIN

NOTHING: Final = Position(-1)
"""Nothing has been acknowledged, not even that the logs meet at the origin."""


@dataclass(slots=True)
class Progress:
    """One backup or learner. A new process of it counts only after it has said what it holds."""

    member: ViewMember
    next: Position
    """Its log equals ours up to here, as far as is known; what comes after is sent next."""
    agreed: Position
    """Where the logs met when it last said what it holds; its window opens there."""
    acknowledged: Position = NOTHING
    """Durably equal up to here. Holds across the epochs of one primary: nobody else wrote in between."""
    heard_at: int = 0
    sent_at: int = 0
    owing_since: int | None = None
    """Since when it owes an acknowledgement; None when it owes nothing (M1)."""
    told: Position = NOTHING
    """The commit position it was last sent."""
    answered_in: Epoch = ORIGIN.epoch
    answered_beat: int = 0
    """The latest heartbeat of ours that it had when it answered in that epoch (R1)."""
    answered_as: Incarnation = NOBODY
    is_short: bool = False
    """It returned with less than it had acknowledged: its store went back (V5)."""

    rank: Rank = Rank.NEAR
    """How fit to lead it last said it is (O3, E8), and until when that is believed."""
    rank_until: int = 0
    why_without: str = ""

    log_bytes: int = 0
    """What its log holds that no checkpoint of its own stands for, as it last said (D4)."""
    in_flight_bytes: int = 0
    """Of records sent and not acknowledged."""
    _in_flight: deque[tuple[Position, int]] = field(default_factory=deque)

    def sent(self, up_to: Position, size: int) -> None:
        """Records of so many bytes, up to there, are on their way."""
        self._in_flight.append((up_to, size))
        self.in_flight_bytes += size

    def has(self, up_to: Position) -> None:
        """It has acknowledged everything up to there."""
        self.acknowledged = max(self.acknowledged, up_to)
        while self._in_flight and self._in_flight[0][0] <= up_to:
            self.in_flight_bytes -= self._in_flight.popleft()[1]

    def lost_all(self) -> None:
        """What was on its way is sent again."""
        self._in_flight.clear()
        self.in_flight_bytes = 0

    def says_it_lacks(self, rank: Rank, why: str, until: int) -> None:
        """So fit it is, and this is believed *until* then."""
        self.rank, self.why_without, self.rank_until = rank, why, until

    def rank_at(self, now: int) -> Rank:
        """How fit it is to lead, as far as is known."""
        return self.rank if now < self.rank_until else Rank.NEAR

    def answered(self, incarnation: Incarnation, epoch: Epoch, beat: int) -> None:
        """An answer that carried *epoch* came."""
        if (epoch, beat) >= (self.answered_in, self.answered_beat) or incarnation > self.answered_as:
            self.answered_in, self.answered_beat, self.answered_as = epoch, beat, incarnation


class ProgressOfAll:
    """All followers of one primary in one reign, by host and store."""

    def __init__(self) -> None:
        self._all: dict[tuple[HostId, StoreId], Progress] = {}
        self.changes = 0
        """Counts whenever somebody comes or goes."""

    def clear(self) -> None:
        self._all.clear()
        self.changes += 1

    def get(self, member: ViewMember) -> Progress | None:
        return self._all.get((member.host, member.store))

    def find(self, host: HostId, store: StoreId) -> Progress | None:
        return self._all.get((host, store))

    def remove(self, follower: Progress) -> None:
        self._all.pop((follower.member.host, follower.member.store), None)
        self.changes += 1

    def add(self, follower: Progress) -> None:
        self.changes += 1
        self._all[follower.member.host, follower.member.store] = follower

    def has_later(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether a later process of that host is known."""
        return any(each.member.incarnation > incarnation for each in self.of_host(host))

    def remove_earlier(self, member: ViewMember) -> None:
        """A new process came with another store: what an earlier one had is gone for good (V4, V5)."""
        for each in self.of_host(member.host):
            if each.member.store != member.store:
                self.remove(each)

    def of_host(self, host: HostId) -> list[Progress]:
        return [each for each in self._all.values() if each.member.host == host]

    def all(self) -> list[Progress]:
        return list(self._all.values())
