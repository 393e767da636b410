"""Restarting hosts one by one: what is refused, in which order, and what is waited for."""

import asyncio
from typing import Any

import pytest

from holdfast.agent.rolling_restart import RollingRestart, WouldInterrupt, interrupted, out_of_sync
from holdfast.model.admin.groups import GroupInfo, GroupList, ListGroups
from holdfast.model.admin.hosts import HostEnds, HostInfo, HostList, ListHosts, RestartHost
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import Epoch, GroupId, HostId, Incarnation

A, B, C = map(HostId, ("a", "b", "c"))


def group(name: str, in_sync: tuple[HostId, ...], needed: int = 2) -> GroupInfo:
    return GroupInfo(
        name=name,
        group=GroupId(1),
        class_name="m:C",
        style="warm_passive",
        epoch=Epoch(1),
        primary=in_sync[0],
        in_sync=in_sync,
        placed_on=(A, B, C),
        min_in_sync=needed,
    )


class FakeDomain:
    """Three hosts, of which c manages. Each question that is asked lets a restarted host come a step closer
    to being alive, and then to being in sync."""

    def __init__(self, *, needed: int = 2) -> None:
        self.incarnations = {A: 1, B: 1, C: 1}
        self.needed = needed
        self.away: dict[HostId, int] = {}
        self.told: list[HostId] = []
        self.said: list[str] = []
        self.dead: set[HostId] = set()
        self.missed: dict[HostId, int] = {}
        """Hosts that are taken for dead for so many questions once the first is restarted."""

    async def give(self, wanted: object, kind: type[Any], *, host: HostId | None = None) -> Any:
        for each in list(self.away):
            self.away[each] -= 1
            if self.away[each] == 0:
                del self.away[each]
        if self.told and not self.away and self.missed:
            self.missed = {each: left - 1 for each, left in self.missed.items() if left > 1}
        match wanted:
            case ListHosts():
                return HostList(hosts=tuple(map(self._host, (A, B, C))), manager=C)
            case ListGroups():
                return GroupList(groups=(group("g", self._in_sync(), self.needed),))
            case RestartHost():
                assert host == wanted.host
                assert not self.away, "one host at a time"
                self.told.append(wanted.host)
                self.incarnations[wanted.host] += 1
                self.away[wanted.host] = 6
                if wanted.host == B:
                    raise OutcomeUnknown("", waited_s=0)  # it was gone before it had answered
                return HostEnds(host=wanted.host, incarnation=wanted.incarnation)
        raise AssertionError(wanted)

    def _host(self, host: HostId) -> HostInfo:
        is_alive = host not in self.dead and self.away.get(host, 0) <= 3 and not self._is_missed(host)
        return HostInfo(
            host=host,
            is_alive=is_alive,
            is_draining=False,
            members=1,
            primaries=0,
            leaving=0,
            incarnation=Incarnation(self.incarnations[host]) if is_alive else None,
        )

    def _in_sync(self) -> tuple[HostId, ...]:
        gone = {*self.away, *self.dead}
        return tuple(each for each in (A, B, C) if each not in gone and not self._is_missed(each))

    def _is_missed(self, host: HostId) -> bool:
        return bool(self.told) and host in self.missed

    @property
    def restart(self) -> RollingRestart:
        return RollingRestart(self.give, self.said.append)


@pytest.mark.parametrize(
    ("in_sync", "needed", "host", "is_interrupted"),
    [
        ((A, B, C), 2, A, False),
        ((A, B), 2, A, True),
        ((A, B), 1, A, False),
        ((B, C), 2, A, False),
        ((A,), 1, A, True),
        ((A, B, C), 3, C, True),
    ],
)
def test_a_group_that_could_not_go_on_is_named(
    in_sync: tuple[HostId, ...], needed: int, host: HostId, is_interrupted: bool
) -> None:
    found = interrupted([group("g", in_sync, needed)], host)
    assert [each.partition(" ")[0] for each in found] == (["g"] if is_interrupted else [])


def test_a_host_that_is_gone_is_not_waited_for() -> None:
    groups = [group("g", (A, B))]
    assert out_of_sync(groups, frozenset({A, B, C})) == ["g"]
    assert out_of_sync(groups, frozenset({A, B})) == []


def test_all_are_restarted_one_at_a_time_and_the_manager_last() -> None:
    domain = FakeDomain()
    assert asyncio.run(domain.restart.all(is_forced=False)) == [A, B, C]
    assert domain.told == [A, B, C]
    assert not domain.away
    assert any("waiting until g is in sync" in line for line in domain.said)


def test_what_would_interrupt_service_is_refused_before_anything_is_restarted() -> None:
    domain = FakeDomain(needed=3)
    with pytest.raises(WouldInterrupt, match=r"would interrupt g \(2 others in sync, 3 needed\)"):
        asyncio.run(domain.restart.all(is_forced=False))
    assert domain.told == []
    asyncio.run(domain.restart.all(is_forced=True))
    assert domain.told == [A, B, C]


def test_a_host_that_is_away_is_refused_or_left_out() -> None:
    domain = FakeDomain()
    domain.dead = {B}
    with pytest.raises(WouldInterrupt, match="b does not live"):
        asyncio.run(domain.restart.all(is_forced=False))
    with pytest.raises(Unavailable, match="b does not live"):
        asyncio.run(domain.restart.one(B, is_forced=True))
    assert asyncio.run(domain.restart.all(is_forced=True)) == [A, C]


def test_a_host_that_is_taken_for_dead_for_a_moment_is_waited_for() -> None:
    """The machine is busy, and the next restart would leave the group with one member."""
    domain = FakeDomain()
    domain.missed = {C: 9}
    assert asyncio.run(domain.restart.all(is_forced=False)) == [A, B, C]
    assert domain.missed == {}


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidRequest, match="there are: a, b, c"):
        asyncio.run(FakeDomain().restart.one(HostId("x"), is_forced=False))
