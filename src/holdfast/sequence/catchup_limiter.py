"""Limits how many members of one host ask another host for records at the same time.

A host that returns after a failure has members in thousands of groups, and each must ask its primary for what
it missed. The limiter admits a member until it is being fed and listed or, while others wait, for ``STAY_NS``
at most. A member that waits has no timer and sends nothing.
*Without it:* A dies with 10,000 groups and comes back; all its members say hello to B, four times a second. B
is so busy with earlier requests that its answers come late, and it is asked again; it misses heartbeats and
loses the groups that it was primary of.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.ids import SECOND, GroupId, HostId
from holdfast.model.ports import Clock, TimerId, Timers

ASKING_MAX: Final = 256
"""How many members may ask one host at a time: enough to keep it busy, few enough to be answered soon."""
STAY_NS: Final = 1 * SECOND
"""How long a member may keep its place while others wait. After that either its primary does not answer, or
the primary has much to send and needs no more asking.
"""
_LOOK: Final = "look"

Go = Callable[[], None]


@dataclass(slots=True)
class _Queue:
    """The members that ask, or wait to ask, one host. Both dictionaries are in order of arrival."""

    inside: dict[GroupId, int] = field(default_factory=dict)
    """The members that may ask, and when each was admitted."""
    waiting: dict[GroupId, Go] = field(default_factory=dict)


class CatchupLimiter:
    """Admits the members of one host, with a separate limit for each host that they ask.

    Its size is bounded by the number of members, since each member asks one host at a time.
    """

    def __init__(
        self,
        clock: Clock,
        timers: Callable[[Callable[[Hashable], None]], Timers],
        *,
        asking_max: int = ASKING_MAX,
    ) -> None:
        self._clock = clock
        self._timers = timers(self._on_timer)
        self._asking_max = asking_max
        self._queues: dict[HostId, _Queue] = {}
        self._host_of: dict[GroupId, HostId] = {}
        self._look: tuple[int, TimerId] | None = None
        """When the timer is due and its id; None when no timer is set."""

    def enter(self, host: HostId, group: GroupId, go: Go) -> bool:
        """Whether the member of *group* may ask *host* now, or may go on asking it. If not, *go* is called
        once it may. A member that asked another host before joins the end of the queue here."""
        if self._host_of.get(group) not in (None, host):
            self.leave(group)
        queue = self._queues.setdefault(host, _Queue())
        self._host_of[group] = host
        if group in queue.inside:
            return True
        if not queue.waiting and len(queue.inside) < self._asking_max:
            queue.inside[group] = self._clock.now()
            return True
        queue.waiting[group] = go
        self._look_when_due(queue)
        return False

    def leave(self, group: GroupId) -> None:
        """Free the place of this group's member, which no longer needs to ask."""
        host = self._host_of.pop(group, None)
        if host is None:
            return
        queue = self._queues[host]
        queue.waiting.pop(group, None)
        if queue.inside.pop(group, None) is not None and queue.waiting:
            self._look_by(self._clock.now())

    def _look_when_due(self, queue: _Queue) -> None:
        """Look at once if there is room, else when the member that was admitted first has used up its
        time."""
        if queue.waiting and len(queue.inside) < self._asking_max:
            self._look_by(self._clock.now())
        elif queue.waiting:
            self._look_by(next(iter(queue.inside.values())) + STAY_NS)

    def _look_by(self, due_ns: int) -> None:
        if self._look is not None:
            set_for_ns, timer = self._look
            if set_for_ns <= due_ns:
                return
            self._timers.cancel(timer)
        self._look = (due_ns, self._timers.set(max(0, due_ns - self._clock.now()), _LOOK))

    def _on_timer(self, _: Hashable) -> None:
        # The timer may fire a little early; then it is set again for the remaining time.
        self._look, now = None, self._clock.now()
        # a member that is called may follow another primary by now
        for queue in list(self._queues.values()):
            for go in self._let_through(queue, now):
                go()
            self._look_when_due(queue)

    def _let_through(self, queue: _Queue, now: int) -> list[Go]:
        """Remove members whose time is up, and return the callbacks of those that now have room."""
        overdue = [group for group, since in queue.inside.items() if now - since >= STAY_NS]
        for group in overdue[: len(queue.waiting)]:
            del queue.inside[group], self._host_of[group]
        let: list[Go] = []
        while queue.waiting and len(queue.inside) < self._asking_max:
            group = next(iter(queue.waiting))
            let.append(queue.waiting.pop(group))
            queue.inside[group] = now
        return let
