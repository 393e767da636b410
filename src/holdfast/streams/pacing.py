"""How fast a source may send: by what the group has delivered.

Members that are fed faster than they deliver lose messages, however large their buffers are. So the leader
gives *credit*: the highest number that the source may send, some way beyond the last that it has delivered.
Repair comes second. A member that lags behind the leader does not hold the source up: it gets what it lacks
from the others.

:class:`CreditGiver` is a member's side, :class:`Pacing` a source's. Neither trusts the other: a source that
goes beyond is told so and what it sent is dropped, and a source follows only the member that leads.
"""

from typing import Final

from msgspec import Struct

from holdfast.model.ids import MILLISECOND
from holdfast.streams.datagram import Credit, From
from holdfast.streams.message import NUMBER_MAX

STEPS: Final = 8
"""Credit is given anew each time that so large a part of the window was delivered."""


class CreditConfig(Struct, frozen=True, kw_only=True):
    """How much of a stream may be under way."""

    window: int = 16_384
    """How many messages beyond the last one delivered a source may send. More let a fast source run while
    the group decides or changes its leader; each takes memory at every member."""
    interval_ns: int = 50 * MILLISECOND
    """How often a member says how far it is, if nothing else makes it."""

    def validate(self) -> list[tuple[str, str]]:
        problems = []
        if not STEPS <= self.window <= 1 << 24:
            problems.append(("window", f"must be {STEPS} to {1 << 24} messages"))
        if not MILLISECOND <= self.interval_ns <= 10_000 * MILLISECOND:
            problems.append(("interval_ns", "must be 1 ms to 10 s"))
        return problems


class CreditGiver:
    """What a member lets the source of one stream send, in one incarnation."""

    def __init__(self, config: CreditConfig, sender: From) -> None:
        self._config = config
        self._sender = sender
        self._told = -1
        self._told_at_ns = 0
        self.delivered = 0
        self.beyond = 0
        """How many messages came that were beyond the credit."""

    @property
    def limit(self) -> int:
        return min(self.delivered + self._config.window, NUMBER_MAX)

    def admits(self, number: int) -> bool:
        """Whether a message of that number may be taken; counts it if not."""
        if number <= self.limit:
            return True
        self.beyond += 1
        return False

    def on_delivered(self, number: int) -> None:
        self.delivered = max(self.delivered, number)

    def due(self, now_ns: int, *, epoch: int, is_leader: bool) -> Credit | None:
        """The credit that shall be told now, if any: as leader after each part of the window, and whenever
        something has changed for a while."""
        moved = self.delivered - self._told
        if self._told >= 0:
            is_far = is_leader and moved >= self._config.window // STEPS
            is_old = moved > 0 and now_ns - self._told_at_ns >= self._config.interval_ns
            if not is_far and not is_old:
                return None
        return self.now(now_ns, epoch=epoch, is_leader=is_leader)

    def now(self, now_ns: int, *, epoch: int, is_leader: bool) -> Credit:
        """The present credit, as it answers a heartbeat."""
        self._told, self._told_at_ns = self.delivered, now_ns
        return Credit(self._sender, self.delivered, self.limit, epoch, is_leader)


class Pacing:
    """How far a source may go, by the credit that it was given."""

    def __init__(self, *, is_paced: bool = True) -> None:
        self.is_paced = is_paced
        self._epoch = -1
        self._leader: object = None
        self.delivered = 0
        """The highest number that a leader has delivered: it is final and never lost again."""
        self._limit = 0

    @property
    def limit(self) -> int:
        """The highest number that may be sent."""
        return self._limit if self.is_paced else NUMBER_MAX

    @property
    def is_heard(self) -> bool:
        """Whether any leader has given credit."""
        return self._epoch >= 0

    @property
    def leader(self) -> object:
        """The member whose credit counts."""
        return self._leader

    def on_credit(self, member: object, credit: Credit) -> None:
        """Take what a member says. Only the leader of the latest epoch counts; in one epoch its credit never
        shrinks, so that old datagrams that come again do nothing."""
        if not credit.is_leader or credit.epoch < self._epoch:
            return
        if credit.epoch > self._epoch:
            self._epoch, self._leader, self._limit = credit.epoch, member, 0
        self.delivered = max(self.delivered, credit.delivered)
        self._limit = max(self._limit, credit.limit, self.delivered)
