"""What the control plane does per second as groups grow, and how long it is away when its coordinator dies.

One domain of three real hosts gets more and more groups. At each step the coordinator is killed -9 a few
times, and a change of the domain's state is requested at another host at once: the time counts from the kill
until the change is granted. For comparison the same run measures etcd: three members, its leader killed -9,
until the next write.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import uvloop

from holdfast.agent.status_client import ask_agent
from holdfast.bench import Progress, Result, compare, number
from holdfast.bench.measuring.access import StartedDomain, admin_in, layout_of
from holdfast.bench.measuring.callers import CLASS, make_groups
from holdfast.bench.measuring.etcd_cluster import PEER, etcd_fail_over_ms
from holdfast.bench.systems.ours import started_domain
from holdfast.client.admin_client import Given, give
from holdfast.machine import MachineClock
from holdfast.model.admin.groups import CreateGroup, GroupList, ListGroups, Order
from holdfast.model.admin.hosts import HostList, ListHosts
from holdfast.model.admin.objects import PropertiesShown, SetProperties
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Unavailable
from holdfast.model.ids import MILLISECOND, HostId
from holdfast.model.properties import MINIMUM_NUMBER
from holdfast.net import Address

HOSTS: Final = 3
GROUPS: Final = (10, 100, 1_000, 10_000)
GROUPS_DEFAULT: Final = 1_000
SETTLE_S: Final = 300.0
"""The longest time until all members are in sync, and all hosts are back after a kill."""
POLL_S: Final = 0.2
SURELY_S: Final = 120.0
"""The longest time until a change is granted."""

_clock = MachineClock()


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements at one number of groups."""

    groups: int
    created_per_s: float = 0.0
    """Groups created per second on the way to this number, by all hosts together."""
    fail_over_ms: tuple[float, ...] = ()
    """The times from each kill of the coordinator until the next change was granted."""
    failure: str = ""
    """Why this many could not be measured; if set, the other fields have no meaning."""


def run_control_bench(
    *,
    rounds: int = 3,
    groups: int = GROUPS_DEFAULT,
    etcd: Sequence[str] = (),
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Measure with up to *groups* groups, with *rounds* kills at each step."""
    return uvloop.run(measure_control(rounds, groups, etcd, progress))


async def measure_control(
    rounds: int, groups: int, etcd: Sequence[str], progress: Progress
) -> dict[str, Any]:
    """Does the work of :func:`run_control_bench`."""
    elections = [await etcd_fail_over_ms(progress) for _ in range(rounds)]
    with tempfile.TemporaryDirectory(prefix="holdfast-control-") as directory:
        async with started_domain(Path(directory), hosts=HOSTS, etcd=etcd) as (description, _):
            steps = await Stage(description, progress).grow(
                [each for each in GROUPS if each < groups] + [groups], rounds
            )
    authority = "etcd" if etcd else "sqlite"
    return {
        "results": [msgspec.to_builtins(each) for each in _results(steps, elections, authority)],
        "authority": authority,
        "steps": [msgspec.to_builtins(each) for each in steps],
        "etcd_fail_over_ms": elections,
    }


def _results(steps: Sequence[Step], elections: Sequence[float | None], authority: str) -> list[Result]:
    known = [each for each in elections if each is not None]
    return [
        compare(
            f"control ({authority}, {step.groups:,} groups): coordinator killed, until the next change",
            step.fail_over_ms,
            known,
            unit="ms",
            other_name=PEER,
            target=None,
            is_at_most=True,
        )
        for step in steps
        if known and len(step.fail_over_ms) == len(known)
    ]


class Stage:
    """A domain that gets more and more groups."""

    def __init__(self, domain: StartedDomain, progress: Progress) -> None:
        self._domain = domain
        self._progress = progress
        self._endpoint = admin_in(domain)
        self._changes = 0

    async def grow(self, numbers: Sequence[int], rounds: int) -> list[Step]:
        """Measure one step for each of *numbers*; if a step fails, it is the last, for all larger numbers."""
        steps: list[Step] = []
        made = 0
        for wanted in numbers:
            try:
                steps.append(await self._step(made, wanted, rounds))
            except (HoldfastError, OSError, ExceptionGroup) as error:
                # This many groups are beyond this machine as it is now, which is a result too.
                steps.append(Step(groups=wanted, failure=repr(error)))
                self._progress(f"{wanted:,} groups could not be measured: {error!r}")
                break
            made = wanted
            self._progress(
                f"{wanted:,} groups, made at {steps[-1].created_per_s:,.0f}/s; coordinator killed, next "
                f"change after {median(steps[-1].fail_over_ms):.0f} ms"
            )
        return steps

    async def _step(self, made: int, wanted: int, rounds: int) -> Step:
        orders = (
            CreateGroup(name=f"tally-{each}", class_name=CLASS, replicas=HOSTS, nonce=f"bench-{each}")
            for each in range(made, wanted)
        )
        took_s = await make_groups(orders, self._domain, await self._living(), self._progress)
        fail_over_ms = []
        for _ in range(rounds):
            await self._settled(wanted)
            fail_over_ms.append(await self._fail_over())
        return Step(
            groups=wanted,
            created_per_s=(wanted - made) / took_s,
            fail_over_ms=tuple(fail_over_ms),
        )

    async def _fail_over(self) -> float:
        """Kill the coordinator, and request a change at once."""
        # ensures that there is a coordinator and that it can make changes
        await self._change(await self._living())
        found = await self._ask(ListHosts(), HostList)
        status = await ask_agent(layout_of(self._domain), self._domain)
        (pid,) = (host.pid for host in status.hosts if host.id == found.manager)
        if pid is None:
            raise Unavailable(f"{found.manager} coordinates and does not run")
        others = await self._living(without=found.manager)
        killed_at = _clock.now()
        os.kill(pid, signal.SIGKILL)
        await self._change(others)
        return (_clock.now() - killed_at) / MILLISECOND

    async def _change(self, addresses: Sequence[Address]) -> None:
        """Request a change of the domain's state that is new, and wait until it is granted."""
        self._changes += 1
        wish = SetProperties(
            type_id="bench:Nothing",
            properties={MINIMUM_NUMBER: 1 + self._changes % HOSTS},
            nonce=f"bench-change-{self._changes}",
        )
        async with asyncio.timeout(SURELY_S):
            while True:
                with suppress(OutcomeUnknown, Unavailable):
                    await give(addresses, self._endpoint, wish, PropertiesShown)
                    return

    async def _settled(self, groups: int) -> None:
        """Wait until every host lives, a coordinator is there, and every member of every group is in sync."""
        async with asyncio.timeout(SETTLE_S):
            while True:
                with suppress(OutcomeUnknown, Unavailable):
                    hosts = await self._ask(ListHosts(), HostList)
                    found = (await self._ask(ListGroups(), GroupList)).groups
                    is_whole = len(found) >= groups and all(len(each.in_sync) == HOSTS for each in found)
                    if is_whole and hosts.manager and all(each.is_alive for each in hosts.hosts):
                        return
                await asyncio.sleep(POLL_S)

    async def _living(self, without: HostId | None = None) -> list[Address]:
        status = await ask_agent(layout_of(self._domain), self._domain)
        found = [each.address for each in status.hosts if each.alive and each.id != without]
        return [Address.parse(each) for each in found if each]

    async def _ask(self, question: Order, kind: type[Given]) -> Given:
        return await give(await self._living(), self._endpoint, question, kind)


COLUMNS: Final = ("groups", "authority", "made", "coordinator killed, next change", "etcd's leader killed")


def step_row(step: Step, authority: str, elections: Sequence[float | None]) -> tuple[str, ...]:
    """Return the step as a row of the table."""
    if step.failure:
        return (f"{step.groups:,}", authority, f"not measured: {step.failure}", "", "")
    known = [each for each in elections if each is not None]
    return (
        f"{step.groups:,}",
        authority,
        f"{number(step.created_per_s)}/s",
        f"{number(median(step.fail_over_ms))} ms ({number(max(step.fail_over_ms))} at most)",
        f"{number(median(known))} ms ({number(max(known))} at most)" if known else "-",
    )
