"""Chooses which hosts take part in updates: a few of those that hold the context (T3, T4).

Every host is a member of the control plane. Those with the role ``manager`` keep the context, and the others
look on. A host takes part if it is needed, or if it holds the last committed context because it took part in
it: after a total outage it may be the only one that can be elected, no matter how many came before it.

:class:`Liveness` tracks the replicas of a coordinator, and when each was last heard (IM-105).
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from holdfast.authority.control_records import MANAGER, Member, Participant, Standing
from holdfast.authority.transactions import PARTICIPANTS_MAX, holds_context
from holdfast.model.ids import HostId, Incarnation
from holdfast.model.ports import Clock

ENOUGH_HOSTS: Final = 3
PARTICIPANTS_MIN: Final = 2
"""At least two hosts take part while there are three (T4)."""


def shall_take_part(standing: Standing, host: HostId, held_cas: int, wanted: int) -> bool:
    """Whether *host*, which holds the context of *held_cas*, is to be one of the *wanted* participants."""
    others = sum(MANAGER in each.value.roles for each in standing.members if each.value.host != host)
    return others < wanted or (held_cas == standing.committed_cas and host in _last(standing))


def chosen(standing: Standing, host: HostId, without: Collection[HostId], wanted: int) -> list[HostId]:
    """Return the participants of the next update: *host*, then those of the last update, then others that
    hold the context."""
    last = _last(standing)
    able = (
        each.value.host
        for each in standing.members
        if each.value.host not in (host, *without) and holds_context(standing, each.value.host)
    )
    others = sorted(able, key=lambda each: (each not in last, each))
    return [host, *others[: min(wanted, PARTICIPANTS_MAX) - 1]]


def are_too_few(standing: Standing, participants: Collection[HostId]) -> bool:
    return len(standing.members) >= ENOUGH_HOSTS and len(participants) < PARTICIPANTS_MIN


def superfluous(standing: Standing, wanted: int) -> tuple[Member, ...]:
    """Return managers beyond the *wanted* number that took no part in the last update; they may look on
    instead."""
    managers = [each.value for each in standing.members if MANAGER in each.value.roles]
    last = _last(standing)
    idle = [each for each in managers if last and each.host not in last]
    return tuple(idle[: max(0, len(managers) - wanted)])


def is_worth_listing(standing: Standing, host: HostId, wanted: int) -> bool:
    """Whether an update without changes would list a host that holds the context and could not be elected
    before. The context then survives the loss of more hosts."""
    last = _last(standing)
    return bool(last) and any(each not in last for each in chosen(standing, host, (), wanted))


def _last(standing: Standing) -> tuple[HostId, ...]:
    committed = standing.committed.value
    return () if committed is None else tuple(each.host for each in committed.participants)


_NEVER: Final = -(1 << 62)
"""The last time heard of a replica that will never be heard again."""


class Liveness:
    """The replicas in *own*'s term, as the authority lists them. *unheard* are the hosts that were silent
    before. *is_dead* says whether a process is proved dead, even before the term began (K2)."""

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
        """Take the current list. A new replica counts as heard just now, unless it is dead."""
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
        """Return whether a replica died. It stays silent until another process of its host is listed."""
        found = self._replicas.get(host)
        if found is None or found.incarnation > incarnation:
            return False
        self._heard_at[host] = _NEVER
        return True

    def absent(self, standing: Standing) -> tuple[HostId, ...]:
        """Return the hosts that no update should wait for: those that are silent, those that have not been
        heard since they were, and the dead, whose sessions may last for a while (K2). *standing* may be newer
        than this list."""
        dead = (each.host for each in _managers(standing) if self._is_dead(each))
        return (*(each.host for each in self.silent()), *self._unheard, *dead)

    def silent(self) -> tuple[Participant, ...]:
        """Return the replicas that should be removed from the list."""
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
