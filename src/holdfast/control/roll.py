"""Who follows a coordinator, and when each was last heard (IM-105)."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from holdfast.authority.standing import MANAGER, Participant, Standing
from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import Clock

_NEVER: Final = -(1 << 62)
"""When one was last heard of whom nothing will be heard again."""


class Roll:
    """The replicas of *own*'s term, as the authority lists them. *unheard*: who was silent before; *is_dead*
    tells which process is proved to be, also before the term began (K2)."""

    def __init__(
        self,
        own: HostId,
        clock: Clock,
        silence_ns: int,
        *,
        unheard: Collection[HostId],
        is_dead: Callable[[Participant], bool],
    ) -> None:
        self._own = own
        self._clock = clock
        self._silence_ns = silence_ns
        self._is_dead = is_dead
        self._unheard = dict.fromkeys(unheard)
        self._replicas: dict[HostId, Participant] = {}
        self._heard_at: dict[HostId, int] = {}

    def __iter__(self) -> Iterator[HostId]:
        return iter(self._replicas)

    def on_standing(self, standing: Standing) -> None:
        """The list as it is now: whoever is new on it counts as heard, unless it is dead."""
        known, now = self._replicas, self._clock.now()
        self._replicas = {each.host: each for each in _managers(standing) if each.host != self._own}
        self._heard_at = {
            host: self._heard_at.get(host, now) if known.get(host) == replica else self._first(replica, now)
            for host, replica in self._replicas.items()
        }

    def _first(self, replica: Participant, now: int) -> int:
        return _NEVER if self._is_dead(replica) else now

    def hear(self, host: HostId) -> None:
        self._unheard.pop(host, None)
        self._heard_at[host] = self._clock.now()

    def on_death(self, host: HostId, incarnation: Incarnation) -> bool:
        """Whether it was a replica that died: it stays silent, until another process of it is listed."""
        found = self._replicas.get(host)
        if found is None or found.incarnation > incarnation:
            return False
        self._heard_at[host] = _NEVER
        return True

    def absent(self, standing: Standing) -> tuple[HostId, ...]:
        """Whom no update should wait for: the silent, those who have not spoken yet since they were, and the
        dead, whose sessions may stand for a while (K2). *standing* may be newer than this list."""
        dead = (each.host for each in _managers(standing) if self._is_dead(each))
        return (*(each.host for each in self.silent()), *self._unheard, *dead)

    def silent(self) -> tuple[Participant, ...]:
        """Who is to be taken off the list."""
        now = self._clock.now()
        return tuple(
            replica
            for host, replica in self._replicas.items()
            if now - self._heard_at[host] > self._silence_ns
        )


def _managers(standing: Standing) -> list[Participant]:
    return [
        Participant(host=each.value.host, incarnation=each.value.incarnation)
        for each in standing.members
        if MANAGER in each.value.roles
    ]
