"""Calls that reach a member while it takes its group over, and wait there until it serves (K1).

Clients notice the death of a primary as soon as hosts do, and ask the members in turn. The one that claims
would turn them away, and so would all others; the clients would then rest until the new primary tells them,
and send again. Between machines each of these messages takes as long as a whole step of the failover. So the
member that takes over keeps what reaches it and answers as soon as it serves, and it tells clients where to
send when it has won, not only when it serves.

What waits is bounded in number, bytes and time; beyond that calls are turned away as ever. Nothing that waits
was executed or ordered: if the member does not serve after all, its calls are judged as if they came now.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

from holdfast.groups.ports import ClientPort, MakeTimers
from holdfast.model.calls import Calls, Nested, Settle
from holdfast.model.ids import MILLISECOND, GroupId
from holdfast.model.ports import Clock

WAIT_NS: Final = 500 * MILLISECOND
"""How long a call waits for its group to be served here: less than a client's patience, so that the client
learns where it stands."""
LOOK_NS: Final = 20 * MILLISECOND
"""How often this host looks whether a claim was lost meanwhile."""
FRAMES_MAX: Final = 4096
BYTES_MAX: Final = 16 << 20
"""How many frames wait at one host, and how many bytes they have together."""

MayWait = Calls | Nested | Settle
"""The frames that only a primary answers."""


@dataclass(frozen=True, slots=True)
class _Early:
    client: ClientPort
    asked: MayWait
    until_ns: int

    @property
    def size(self) -> int:
        return 0 if isinstance(self.asked, Settle) else len(self.asked.sent)


Judge = Callable[[ClientPort, MayWait], None]


class EarlyCalls:
    """What waits at one host. *is_awaited* says whether a member is still taking its group over; *judge* gets
    what has waited in vain."""

    def __init__(
        self, clock: Clock, timers: MakeTimers, *, is_awaited: Callable[[GroupId], bool], judge: Judge
    ) -> None:
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._is_awaited = is_awaited
        self._judge = judge
        self._waiting: dict[GroupId, list[_Early]] = {}
        self._frames = 0
        self._bytes = 0

    def add(self, client: ClientPort, asked: MayWait) -> bool:
        """Let a frame wait; False if there is no room."""
        early = _Early(client, asked, self._clock.now() + WAIT_NS)
        if self._frames >= FRAMES_MAX or self._bytes + early.size > BYTES_MAX:
            return False
        if not self._frames:
            self._timers.set(LOOK_NS, "look")
        self._waiting.setdefault(asked.group, []).append(early)
        self._frames += 1
        self._bytes += early.size
        return True

    def take(self, group: GroupId) -> list[tuple[ClientPort, MayWait]]:
        """Take out what waits for *group*, in the order in which it came."""
        return [(each.client, each.asked) for each in self._drop(group, lambda _: True)]

    def on_gone(self, client: ClientPort) -> None:
        """Forget what a client has sent whose connection has ended."""
        for group in list(self._waiting):
            self._drop(group, lambda early: early.client == client)

    def _drop(self, group: GroupId, is_meant: Callable[[_Early], bool]) -> list[_Early]:
        waiting = self._waiting.pop(group, [])
        dropped = [each for each in waiting if is_meant(each)]
        left = [each for each in waiting if not is_meant(each)]
        if left:
            self._waiting[group] = left
        self._frames -= len(dropped)
        self._bytes -= sum(each.size for each in dropped)
        return dropped

    def _on_timer(self, tag: Hashable) -> None:
        now = self._clock.now()
        for group in list(self._waiting):
            waited = self._drop(group, lambda early: early.until_ns <= now)
            if not self._is_awaited(group):
                waited += self._drop(group, lambda _: True)
            for each in waited:
                self._judge(each.client, each.asked)
        if self._frames:
            self._timers.set(LOOK_NS, "look")
