"""How long a domain is below full strength after it loses a host for good, and what callers notice of it.

Five real hosts have many groups of three members. One host has no agent, as if it had taken its machine with
it: nobody restarts it, and nobody can prove that it is dead. It is killed -9 while every group is called, and
nobody gives any order: the manager takes it for lost and creates its members anew elsewhere (FTC-135).
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from holdfast.bench import Progress, Result, compare
from holdfast.bench.measuring.access import StartedDomain, admin_in, client_of
from holdfast.bench.measuring.callers import CLASS, NO_WAITS, Attendance, Waits, make_groups
from holdfast.bench.measuring.etcd_cluster import PEER, etcd_fail_over_ms
from holdfast.bench.systems import START_S
from holdfast.bench.systems.ours import LoneHost, lone_host, started_domain
from holdfast.calling.config import CallPolicy
from holdfast.client.admin_client import Given, give
from holdfast.control.replication.spec import LOSS_NS
from holdfast.machine import MachineClock
from holdfast.model.admin.groups import (
    CreateGroup,
    ExplainGroup,
    GroupExplained,
    GroupInfo,
    GroupList,
    ListGroups,
    Order,
)
from holdfast.model.admin.hosts import HostList, ListHosts
from holdfast.model.errors import InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import SECOND, HostId
from holdfast.net import Address

HOSTS: Final = 5
MEMBERS: Final = 3
LOSS_S: Final = LOSS_NS / SECOND
EVERY_S: Final = 0.5
"""The time between two calls of one group."""
QUIET_S: Final = 5.0
"""How long callers call before the loss, which shows what calls normally take on this machine."""
POLL_S: Final = 0.2
EXPLAIN_S: Final = 0.5
SETTLE_S: Final = 180.0
"""The longest time until all members are in sync, at first and after the loss."""
CALL_NS: Final = 60 * SECOND
_DIGITS: Final = re.compile(r"\d+")

_clock = MachineClock()


@dataclass(slots=True)
class Loss:
    """What followed the loss of one host. Times are in seconds from the kill."""

    members: int
    """The number of members that were lost."""
    created_rate: float
    """Members created per second when the groups were created, before the loss."""
    placed_s: float = 0.0
    """The time until the first member was placed elsewhere."""
    whole_s: float = 0.0
    """The time until the last member was in sync there."""
    before: Waits = NO_WAITS
    during: Waits = NO_WAITS
    explained: list[tuple[float, str]] = field(default_factory=list)
    """What `holdfast explain` said about a group, each time it changed."""
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Return the members created anew per second, once the first was placed."""
        return self.members / max(self.whole_s - self.placed_s, POLL_S)


def run_strength_bench(
    *,
    rounds: int = 1,
    groups: int = 300,
    hosts: int = HOSTS,
    loss_s: float = LOSS_S,
    etcd: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Lose one of *hosts* for good, in *rounds* domains.

    *loss_s*: a host that is gone this long is taken for lost. Raises ``InvalidRequest`` when too few hosts
    would be left.
    """
    if hosts <= MEMBERS:
        raise InvalidRequest(f"{hosts} hosts leave no place for a third member when one is lost")
    return uvloop.run(measure_strength(rounds, groups, hosts, loss_s, etcd, progress))


async def measure_strength(
    rounds: int, groups: int, hosts: int, loss_s: float, etcd: Sequence[str], progress: Progress
) -> dict[str, Any]:
    """Does the work of :func:`run_strength_bench`."""
    losses, elections = [], []
    for _ in range(rounds):
        elections.append(await etcd_fail_over_ms(progress))
        losses.append(await _round(groups, hosts, loss_s, etcd, progress))
    what = f"strength: {groups:,} groups lose one of {hosts} hosts ({'etcd' if etcd else 'sqlite'})"
    return {
        "results": [msgspec.to_builtins(each) for each in _results(what, losses, elections, loss_s)],
        "failures": [f"{what}: {each}" for loss in losses for each in loss.failures],
        "groups": groups,
        "hosts": hosts,
        "loss_s": loss_s,
        "etcd_fail_over_ms": elections,
        "losses": [_told(loss) for loss in losses],
    }


def _results(
    what: str, losses: Sequence[Loss], elections: Sequence[float | None], loss_s: float
) -> list[Result]:
    waits = [loss.during.worst_ms for loss in losses]
    beside = {
        "quiet": [loss.before.worst_ms for loss in losses],
        PEER: [each for each in elections if each is not None],
    }
    return [
        compare(
            f"{what}: until full strength",
            [loss.whole_s for loss in losses],
            [loss_s] * len(losses),
            unit="s",
            other_name="taken for lost after",
            target=None,
            is_at_most=True,
        ),
        compare(
            f"{what}: members made anew",
            [loss.rate for loss in losses],
            [loss.created_rate for loss in losses],
            unit="/s",
            other_name="with new groups",
            target=None,
        ),
        *(
            compare(
                f"{what}: longest call",
                waits,
                others,
                unit="ms",
                other_name=name,
                target=None,
                is_at_most=True,
            )
            for name, others in beside.items()
            if len(others) == len(waits)
        ),
    ]


def _told(loss: Loss) -> dict[str, Any]:
    """Return the results for scripts."""
    return {
        "members_lost": loss.members,
        "placed_s": round(loss.placed_s, 2),
        "full_strength_s": round(loss.whole_s, 2),
        "members_per_s": round(loss.rate, 1),
        "created_members_per_s": round(loss.created_rate, 1),
        "calls": loss.during.calls,
        "longest_ms": round(loss.during.worst_ms, 1),
        "longest_before_ms": round(loss.before.worst_ms, 1),
        "longest_by_group_ms": [round(each, 1) for each in loss.during.longest_ms],
        "explained": [{"at_s": round(at, 1), "says": says} for at, says in loss.explained],
        "failures": loss.failures,
    }


async def _round(count: int, hosts: int, loss_s: float, etcd: Sequence[str], progress: Progress) -> Loss:
    with tempfile.TemporaryDirectory(prefix="holdfast-strength-") as name:
        directory = Path(name)
        async with (
            started_domain(directory, hosts=hosts - 1, etcd=etcd, loss_s=loss_s) as (domain, status),
            lone_host(directory, domain, HostId(f"host{hosts}")) as victim,
        ):
            stay = [Address.parse(host.address) for host in status.hosts if host.address]
            scene = Scene(domain, stay, victim, progress)
            await scene.all_live(hosts)
            loss = await scene.make_groups(count)
            policy = CallPolicy(duration_ns=CALL_NS)
            async with client_of(domain, status, policy=policy) as client:
                called = [await client.group(_name(number)) for number in range(count)]
                await scene.lose(loss, Attendance(called, EVERY_S))
            return loss


class Scene:
    """A domain that will lose *victim*, seen from the hosts that *stay*."""

    def __init__(
        self, domain: StartedDomain, stay: Sequence[Address], victim: LoneHost, progress: Progress
    ) -> None:
        self._domain = domain
        self._stay = stay
        self._victim = victim
        self._progress = progress
        self._endpoint = admin_in(domain)

    async def all_live(self, hosts: int) -> None:
        """Wait until every host has a session with the authority."""
        async with asyncio.timeout(START_S):
            while sum(each.is_alive for each in (await self._ask(ListHosts(), HostList)).hosts) < hosts:
                await asyncio.sleep(POLL_S)

    async def make_groups(self, count: int) -> Loss:
        """Let all hosts create groups, each host being primary of its share.

        Return what there is to lose, once all are whole.
        """
        wanted = (
            CreateGroup(name=_name(number), class_name=CLASS, replicas=MEMBERS, nonce=f"bench-{number}")
            for number in range(count)
        )
        addresses = [*self._stay, self._victim.address]
        took_s = await make_groups(wanted, self._domain, addresses, self._progress)
        found = await self._until(lambda groups: len(groups) == count and not _missing(groups))
        members = sum(self._victim.host in each.placed_on for each in found)
        self._progress(f"{count:,} groups in {took_s:.1f} s; {members:,} of their members are to be lost")
        return Loss(members, MEMBERS * count / took_s)

    async def lose(self, loss: Loss, attendance: Attendance) -> None:
        """Kill the victim while all groups are called, and wait until they are whole without it."""
        async with attendance.calling():
            await asyncio.sleep(QUIET_S)
            loss.before = attendance.take_waits()
            groups = (await self._ask(ListGroups(), GroupList)).groups
            self._victim.process.kill()
            killed_at = _clock.now()
            explaining = asyncio.create_task(self._explain(loss, self._last_to_lose(groups), killed_at))
            try:
                await self._regained(loss, killed_at)
                await asyncio.sleep(EXPLAIN_S)
            finally:
                explaining.cancel()
                await asyncio.gather(explaining, return_exceptions=True)
        loss.during = attendance.take_waits()
        loss.failures += attendance.failures
        self._progress(
            f"full strength after {loss.whole_s:.1f} s, {loss.rate:.0f} members/s; the longest of "
            f"{loss.during.calls:,} calls took {loss.during.worst_ms:.0f} ms"
        )

    async def _regained(self, loss: Loss, killed_at: int) -> None:
        told = loss.members

        def is_whole(groups: Sequence[GroupInfo]) -> bool:
            nonlocal told
            passed_s = (_clock.now() - killed_at) / SECOND
            missing = _missing(groups, without=self._victim.host)
            is_begun = missing < loss.members or any(len(each.placed_on) > MEMBERS for each in groups)
            if is_begun and not loss.placed_s:
                loss.placed_s = passed_s
            if missing != told:
                told = missing
                self._progress(f"{passed_s:.1f} s after the loss {missing:,} members are missing")
            loss.whole_s = passed_s
            return not missing

        await self._until(is_whole)

    async def _explain(self, loss: Loss, name: str, killed_at: int) -> None:
        """Ask for an explanation of one group again and again, and keep each new answer."""
        said = ""
        while True:
            with suppress(OutcomeUnknown, Unavailable):
                found = await self._ask(ExplainGroup(name=name), GroupExplained)
                manager = (f"the manager: {each}" for each in found.manager_says)
                says = "; ".join([*found.group_says, *found.members, *manager]) or "it is as wished for"
                if _DIGITS.sub("", says) != _DIGITS.sub("", said):
                    said = says
                    passed_s = (_clock.now() - killed_at) / SECOND
                    loss.explained.append((passed_s, says))
                    self._progress(f"{passed_s:.1f} s after the loss, explain {name}: {says}")
            await asyncio.sleep(EXPLAIN_S)

    def _last_to_lose(self, groups: Sequence[GroupInfo]) -> str:
        """Return the group that the manager repairs last, of those that lose a member."""
        losing = (each for each in groups if self._victim.host in each.placed_on)
        return max(losing, key=lambda each: each.group).name

    async def _until(self, holds: Callable[[Sequence[GroupInfo]], bool]) -> Sequence[GroupInfo]:
        """Return the groups as soon as *holds* is true of them."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                with suppress(OutcomeUnknown, Unavailable):  # a busy host is asked again
                    groups = (await self._ask(ListGroups(), GroupList)).groups
                    if holds(groups):
                        return groups
                await asyncio.sleep(POLL_S)

    async def _ask(self, question: Order, kind: type[Given]) -> Given:
        return await give(self._stay, self._endpoint, question, kind)


def _name(number: int) -> str:
    return f"tally-{number}"


def _missing(groups: Sequence[GroupInfo], *, without: HostId | None = None) -> int:
    """Return the number of members that are not in sync, counting those on *without* as missing."""
    in_sync = (sum(host in each.placed_on and host != without for host in each.in_sync) for each in groups)
    return sum(max(0, MEMBERS - each) for each in in_sync)
