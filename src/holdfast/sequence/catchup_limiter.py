"""How many of one host's members ask another host to be fed, at a time.

A host that returns has members in thousands of groups, and each of them must ask its primary. Whoever asks is
let through until it is fed and listed, or, while others wait, for ``STAY_NS`` at most; who waits has no timer
and sends nothing.
*Without it:* A dies with 10,000 groups and is back; all its members say hello to B, four times a second. B is
so busy with what it was asked already that its answers come late, and it is asked again; it hears no beat
in time, and loses the groups that it was primary of.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from holdfast.model.ids import SECOND, GroupId, HostId
from holdfast.model.ports import Clock, TimerId, Timers

ASKING_MAX: Final = 256
"""Members that ask one host at a time: enough to keep it busy, so few that it answers all of them soon."""
STAY_NS: Final = 1 * SECOND
"""Who was let through for so long makes room for who waits: its primary does not answer, or has much to send,
and then needs no more asking."""
_LOOK: Final = "look"

Go = Callable[[], None]


@dataclass(slots=True)
class _Turnstile:
    """Before one host. Both in the order in which they came."""

    inside: dict[GroupId, int] = field(default_factory=dict)
    """Since when."""
    waiting: dict[GroupId, Go] = field(default_factory=dict)


class CatchupLimiter:
    """Of one host, one before each other host. Bounded by its members: each is before one of them."""

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
        self._turnstiles: dict[HostId, _Turnstile] = {}
        self._before: dict[GroupId, HostId] = {}
        self._look: tuple[int, TimerId] | None = None
        """For when the timer is set, if it is."""

    def enter(self, host: HostId, group: GroupId, go: Go) -> bool:
        """Whether the member of *group* may ask *host* now, or may go on asking it; if not, *go* is called
        once it may. One that was before another host goes to the end here."""
        if self._before.get(group) not in (None, host):
            self.leave(group)
        turnstile = self._turnstiles.setdefault(host, _Turnstile())
        self._before[group] = host
        if group in turnstile.inside:
            return True
        if not turnstile.waiting and len(turnstile.inside) < self._asking_max:
            turnstile.inside[group] = self._clock.now()
            return True
        turnstile.waiting[group] = go
        self._look_when_due(turnstile)
        return False

    def leave(self, group: GroupId) -> None:
        """It need not ask any more."""
        host = self._before.pop(group, None)
        if host is None:
            return
        turnstile = self._turnstiles[host]
        turnstile.waiting.pop(group, None)
        if turnstile.inside.pop(group, None) is not None and turnstile.waiting:
            self._look_by(self._clock.now())

    def _look_when_due(self, turnstile: _Turnstile) -> None:
        """Once the one that came first has been inside for long enough; at once if there is room."""
        if turnstile.waiting and len(turnstile.inside) < self._asking_max:
            self._look_by(self._clock.now())
        elif turnstile.waiting:
            self._look_by(next(iter(turnstile.inside.values())) + STAY_NS)

    def _look_by(self, due_ns: int) -> None:
        if self._look is not None:
            set_for_ns, timer = self._look
            if set_for_ns <= due_ns:
                return
            self._timers.cancel(timer)
        self._look = (due_ns, self._timers.set(max(0, due_ns - self._clock.now()), _LOOK))

    def _on_timer(self, _: Hashable) -> None:
        # It may come a little early: then it is set again, for what is left.
        self._look, now = None, self._clock.now()
        for turnstile in list(self._turnstiles.values()):  # who goes may find that it follows another by now
            for go in self._let_through(turnstile, now):
                go()
            self._look_when_due(turnstile)

    def _let_through(self, turnstile: _Turnstile, now: int) -> list[Go]:
        """Those who now have room."""
        overdue = [group for group, since in turnstile.inside.items() if now - since >= STAY_NS]
        for group in overdue[: len(turnstile.waiting)]:
            del turnstile.inside[group], self._before[group]
        let: list[Go] = []
        while turnstile.waiting and len(turnstile.inside) < self._asking_max:
            group = next(iter(turnstile.waiting))
            let.append(turnstile.waiting.pop(group))
            turnstile.inside[group] = now
        return let
