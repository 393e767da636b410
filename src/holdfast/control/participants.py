"""Who takes part in updates: a few of the hosts that hold the context (T3, T4).

Every host is a member of the control plane; those of the role ``manager`` keep the context, the others look
on. A host that is needed takes part, and so does one that holds the last committed context from taking part
in it: after an outage of everything it may be the only one that can be elected, however many came before it.
"""

from collections.abc import Collection
from typing import Final

from holdfast.authority.standing import MANAGER, Member, Standing
from holdfast.authority.transactions import PARTICIPANTS_MAX, holds_context
from holdfast.model.ids import HostId

ENOUGH_HOSTS: Final = 3
PARTICIPANTS_MIN: Final = 2
"""Never fewer than two take part while three hosts are there (T4)."""


def shall_take_part(standing: Standing, host: HostId, held_cas: int, wanted: int) -> bool:
    """Whether *host*, which holds the context of *held_cas*, is to be one of the *wanted* participants."""
    others = sum(MANAGER in each.value.roles for each in standing.members if each.value.host != host)
    return others < wanted or (held_cas == standing.committed_cas and host in _last(standing))


def chosen(standing: Standing, host: HostId, without: Collection[HostId], wanted: int) -> list[HostId]:
    """Those of the next update: *host* first, then who took part in the last, then others that hold it."""
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
    """Managers beyond the *wanted* who took no part in the last update: they may look on instead."""
    managers = [each.value for each in standing.members if MANAGER in each.value.roles]
    last = _last(standing)
    idle = [each for each in managers if last and each.host not in last]
    return tuple(idle[: max(0, len(managers) - wanted)])


def is_worth_listing(standing: Standing, host: HostId, wanted: int) -> bool:
    """Whether an update without changes would list somebody who holds the context and could not be elected
    before: the context outlives more hosts then."""
    last = _last(standing)
    return bool(last) and any(each not in last for each in chosen(standing, host, (), wanted))


def _last(standing: Standing) -> tuple[HostId, ...]:
    committed = standing.committed.value
    return () if committed is None else tuple(each.host for each in committed.participants)
