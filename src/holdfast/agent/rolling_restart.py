"""Restarts hosts while their groups serve: one at a time, each back in sync before the next (K5).

A host is told to end in an orderly way, which hands its groups over, and whoever supervises it starts it
again. Before that, :func:`interrupted` says which groups could not go on meanwhile. Nothing is kept between
the steps, so whoever repeats an interrupted restart just begins again.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from holdfast.agent.patient_steps import awaited, insist
from holdfast.model.admin.groups import Answer, GroupInfo, GroupList, ListGroups, Order
from holdfast.model.admin.hosts import HostEnds, HostInfo, HostList, ListHosts, RestartHost
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.ids import HostId

ADVICE: Final = "`holdfast status` and `holdfast explain` say why"
NAMED_MAX: Final = 5
"""How many groups are named in one message."""

Given = TypeVar("Given", bound=Answer)
Say = Callable[[str], None]


class GiveTo(Protocol):
    """Has an order executed by *host*, or by any host of the domain."""

    def __call__(
        self, wanted: Order, kind: type[Given], *, host: HostId | None = None
    ) -> Awaitable[Given]: ...


class WouldInterrupt(Rejected):
    """Raised when a restart would leave a group without service."""

    code = "would_interrupt"


def interrupted(groups: Iterable[GroupInfo], host: HostId) -> list[str]:
    """For each group that could not go on without *host*, why; in the order of their names."""
    found = []
    for each in sorted(groups, key=lambda group: group.name):
        others = [other for other in each.in_sync if other != host]
        if host in each.in_sync and len(others) < max(1, each.min_in_sync):
            have = f"{len(others)} other{'' if len(others) == 1 else 's'} in sync"
            found.append(f"{each.name} ({have}, {max(1, each.min_in_sync)} needed)")
    return found


def out_of_sync(groups: Iterable[GroupInfo], alive: frozenset[HostId]) -> list[str]:
    """The names of the groups that have a member on a living host that is not in sync."""
    return sorted(each.name for each in groups if not alive.intersection(each.placed_on) <= set(each.in_sync))


def in_order(found: HostList) -> list[HostInfo]:
    """The hosts as they are restarted: the one that manages the domain last, because each restart of it makes
    another host the manager."""
    return sorted(found.hosts, key=lambda each: (each.host == found.manager, each.host))


class RollingRestart:
    """Restarts hosts of one domain. *say* receives each step."""

    def __init__(self, give: GiveTo, say: Say) -> None:
        self._give = give
        self._say = say

    async def all(self, *, is_forced: bool) -> list[HostId]:
        """Restart every host, one after the other; returns them. Raises as :meth:`one` does, and
        :class:`WouldInterrupt` before anything is restarted if it would be raised for any host."""
        found = await self._hosts()
        gone = [each.host for each in found.hosts if not each.is_alive]
        if gone and not is_forced:
            raise WouldInterrupt(f"{', '.join(gone)} does not live; bring it back first, or say --force")
        alive = [each.host for each in in_order(found) if each.is_alive]
        groups = await self._until_in_sync(alive)
        if not is_forced:
            self._check(groups, alive)
        for host in alive:
            await self._restart(host, groups, is_forced=is_forced)
            groups = await self._until_in_sync(alive)
            self._say(f"{host}: every group is in sync")
        return alive

    async def one(self, host: HostId, *, is_forced: bool) -> None:
        """Restart *host*, and wait until its members are in sync again.

        Raises :class:`WouldInterrupt`, ``InvalidRequest`` if there is no such host, ``Unavailable`` if it is
        not alive, or with the step that did not complete.
        """
        await self._restart(host, await self._groups(), is_forced=is_forced)
        await self._until_in_sync()
        self._say(f"{host}: every group is in sync")

    async def _restart(self, host: HostId, groups: Sequence[GroupInfo], *, is_forced: bool) -> None:
        """Restart *host*, whose groups are as in *groups*, and wait until it lives again."""
        was = _of(await self._hosts(), host)
        if was.incarnation is None or not was.is_alive:
            raise Unavailable(f"{host} does not live now; whoever supervises it starts it again")
        if not is_forced:
            self._check(groups, [host])
        self._say(f"{host}: hands over its groups and ends")
        order = RestartHost(host=host, incarnation=was.incarnation)
        with suppress(OutcomeUnknown):  # its process may be gone before its answer is here
            await self._give(order, HostEnds, host=host)

        def is_back(found: HostList) -> bool:
            now = _of(found, host)
            return now.is_alive and now.incarnation not in (None, was.incarnation)

        await awaited(f"{host} lives again", self._hosts, is_back, advice=ADVICE)
        self._say(f"{host}: lives again")

    def _check(self, groups: Sequence[GroupInfo], hosts: Iterable[HostId]) -> None:
        for host in hosts:
            if found := interrupted(groups, host):
                said = f"a restart of {host} would interrupt {_shown(found)}"
                raise WouldInterrupt(f"{said}; add members first, or say --force")

    async def _until_in_sync(self, hosts: Iterable[HostId] = ()) -> Sequence[GroupInfo]:
        """Wait until every member on a living host, or on one of *hosts*, is in sync; return the groups.

        *Without the hosts:* one of a busy machine that is taken for dead for a moment is not waited for, and
        the next restart is refused, or interrupts."""
        wanted = frozenset(hosts)
        said = ""

        def is_whole(found: tuple[frozenset[HostId], Sequence[GroupInfo]]) -> bool:
            nonlocal said
            alive, groups = found
            waiting = out_of_sync(groups, alive | wanted)
            says = f"waiting until {_shown(waiting)} {'is' if len(waiting) == 1 else 'are'} in sync"
            if waiting and says != said:
                said = says
                self._say(says)
            return not waiting

        _, groups = await awaited("every group is in sync", self._state, is_whole, advice=ADVICE)
        return groups

    async def _state(self) -> tuple[frozenset[HostId], Sequence[GroupInfo]]:
        hosts = await self._hosts()
        return frozenset(each.host for each in hosts.hosts if each.is_alive), await self._groups()

    async def _hosts(self) -> HostList:
        return await insist(lambda: self._give(ListHosts(), HostList))

    async def _groups(self) -> Sequence[GroupInfo]:
        return (await insist(lambda: self._give(ListGroups(is_whole=True), GroupList))).groups


def _of(found: HostList, host: HostId) -> HostInfo:
    for each in found.hosts:
        if each.host == host:
            return each
    raise InvalidRequest(f"there is no host {host!r}; there are: {', '.join(e.host for e in found.hosts)}")


def _shown(names: Sequence[str]) -> str:
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
