"""The replication manager at work: the coordinator carries out the plan.

Between two rounds it remembers only which primaries were reported as faulty
(:mod:`holdfast.control.replication.reactions`); the next coordinator receives the reports that were not
acknowledged. Each step changes exactly the record that it was planned from
(:mod:`holdfast.control.replication.planner`), and each handover is asked of exactly the planned primary. So a
plan that is outdated, or made by a host that no longer coordinates, does nothing, and what was interrupted is
planned again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final

import structlog

from holdfast.admin.control_plane import ControlPlane
from holdfast.admin.snapshot import DomainSnapshot, location_known, made_with_of
from holdfast.authority.groups import GroupRecord, read_group
from holdfast.authority.recipe import Authority, perform
from holdfast.authority.views import NoGroup
from holdfast.control.desired.changes import ForgetGroups
from holdfast.control.desired.state import DomainState
from holdfast.control.replication.criteria import member_criteria, to_keep
from holdfast.control.replication.planner import (
    Action,
    Forget,
    Lead,
    LetLead,
    Place,
    Plan,
    Remove,
    Tune,
    by_group,
    plan,
)
from holdfast.control.replication.reactions import FaultReactions
from holdfast.control.replication.spec import GroupFact, ObservedState
from holdfast.control.replication.steps import take_steps
from holdfast.faults.told_events import Told
from holdfast.groups.host_groups import HostGroups
from holdfast.machine import MachineClock
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce

LOOK_S: Final = 1.0
"""The pause between two rounds."""
BUSY_LOOK_S: Final = 0.2
"""The pause while there is work: the next steps wait for members that were placed before."""
ACTIONS_MAX: Final = 100
"""How many actions to carry out before the domain is examined again."""
AT_A_TIME: Final = 16
"""How many groups to work on in parallel: the authority's disk, which they wait for, serves many at once."""
FORGOTTEN_MAX: Final = 100
"""How many groups to look up at the authority before the domain is examined again."""

SAID: Final[dict[type[Action], str]] = {
    Place: "a member is placed",
    Remove: "a member is removed",
    LetLead: "a member may lead, or never does",
    Forget: "a host is forgotten",
    Tune: "properties are told",
    Lead: "a primary is to hand over",
}

log = structlog.get_logger("holdfast.manager")


class Reconciler:
    """The manager's part of one host; idle unless that host coordinates."""

    def __init__(
        self,
        groups: HostGroups,
        authority: Authority,
        control: ControlPlane,
        snapshot: DomainSnapshot,
        nonces: Callable[[], Nonce],
    ) -> None:
        self._groups = groups
        self._catalog = groups.catalog
        self._authority = authority
        self._control = control
        self._snapshot = snapshot
        self._nonces = nonces
        self._planned_for: tuple[Any, ...] = ()
        self._is_told = asyncio.Event()
        self._reactions = FaultReactions()
        self._clock = MachineClock()

    @property
    def leader(self) -> HostId | None:
        """The host that manages the domain, as far as this host knows."""
        return self._control.coordinator

    async def work(self) -> None:
        """Plan and act until cancelled. No failure here ends the host: groups serve without the manager."""
        while True:
            self._is_told.clear()  # first: this round may miss what is told meanwhile
            try:
                is_busy = await self._look()
            except HoldfastError as error:
                log.error("the domain cannot be managed now", why=str(error))
                is_busy = False
            except Exception:
                # If this ended the host, the next coordinator would meet the same error and end as well.
                log.exception("the domain cannot be managed now")
                is_busy = False
            await self._rest(BUSY_LOOK_S if is_busy else LOOK_S)

    async def _rest(self, longest_s: float) -> None:
        """Wait until the next round; a fault report shortens the wait, but never to nothing.

        A host that dies with thousands of groups causes as many reports.
        """
        await asyncio.sleep(BUSY_LOOK_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s - BUSY_LOOK_S):
                await self._is_told.wait()

    def on_told(self, told: Told) -> None:
        """Handle a fault event from the notifier (FTC-313): start a round soon.

        If it says that a primary has crashed, another member is to lead. If that is wrong or outdated, it
        costs only a handover.
        """
        found = self._reactions.add(told, self._clock.wall(), self._catalog.views, self._catalog.sessions)
        if found is not None:
            self._say(found)
        self._is_told.set()

    def _ask_handovers(self) -> bool:
        """Ask primaries that were reported as crashed to hand over; returns whether some still have to."""
        due = self._reactions.due(self._clock.wall(), self._catalog.views, self._catalog.sessions)
        for action in due:
            self._groups.ask_hand_over(action.group, action.host)
        return bool(due)

    async def _look(self) -> bool:
        """Do one round; returns whether there was something to do."""
        if self._control.is_coordinator:
            is_leading = self._ask_handovers()
            return await self._act() or is_leading
        self._reactions.clear()
        self._planned_for = ()
        self._snapshot.look()  # so that this host knows since when others are gone
        return False

    async def plan(self) -> Plan:
        """The plan that would be carried out now."""
        return await self._planned(self._snapshot.facts())

    async def explain(self, group: GroupId) -> list[str]:
        """What the manager does about one group, or waits for; empty if the group is as desired."""
        if self.leader is None:
            return ["no host coordinates the domain now: nothing can be changed"]
        return list(by_group(await self.plan(), group))

    async def _planned(self, facts: ObservedState) -> Plan:
        """Make the plan in a thread: with ten thousand groups it takes a while."""
        return await asyncio.to_thread(self._plan, facts, self._control.state())

    def _plan(self, facts: ObservedState, state: DomainState) -> Plan:
        return plan(self._snapshot.wishes(facts, state), facts)

    async def _act(self) -> bool:
        """Plan and act, if anything changed since there was nothing to do; returns whether it acted."""
        living = tuple(sorted(self._catalog.sessions))
        seen = (self._catalog.changes, living, self._snapshot.lost(), self._control.cas)
        if seen == self._planned_for:
            return False
        await self._forget_gone()
        facts = self._snapshot.facts()
        found = await self._planned(facts)
        await self._do_all(found.actions[:ACTIONS_MAX], facts)
        # Actions change what is seen; those that failed are tried again in the next round.
        self._planned_for = seen if not found.actions else ()
        return bool(found.actions)

    async def _do_all(self, actions: Sequence[Action], facts: ObservedState) -> None:
        groups = {each.record.group: each for each in facts.groups}
        waiting = iter([(groups[group], list(each)) for group, each in groupby(actions, lambda a: a.group)])

        async def do_some() -> None:
            for group, actions in waiting:
                if self._control.is_coordinator:
                    await self._do(group, actions)

        done = await asyncio.gather(*(do_some() for _ in range(AT_A_TIME)), return_exceptions=True)
        for error in done:
            if error is not None:
                raise error

    async def _do(self, group: GroupFact, actions: Sequence[Action]) -> None:
        """Carry out the actions planned for one group, if it has not changed since."""
        steps = [each for each in actions if not isinstance(each, Lead)]
        for action in await perform(self._authority, take_steps(group, steps, self._nonces, self._criteria)):
            self._say(action)
        for action in actions:
            if isinstance(action, Lead):
                self._groups.ask_hand_over(action.group, action.host, as_of=group.view.epoch)
                self._say(action)

    def _criteria(self, record: GroupRecord, host: HostId) -> str:
        """The criteria that the factory on *host* gets (FTC-212)."""
        effective = self._control.state().for_group(record.group, made_with_of(record))
        return to_keep(member_criteria({}, effective, location_known(host, self._catalog.sessions)))

    async def _forget_gone(self) -> None:
        """Remove the settings of groups that no longer exist."""
        known = (GroupId(int(each)) for each in self._control.state().groups)
        missing = [each for each in known if each not in self._catalog.records][:FORGOTTEN_MAX]
        # This host may not have heard of all groups yet, but the authority has.
        found = [await perform(self._authority, read_group(each)) for each in missing]
        gone = tuple(each.group for each in found if isinstance(each, NoGroup))
        if gone:
            await self._control.wish(ForgetGroups(groups=gone))

    def _say(self, action: Action) -> None:
        record = self._catalog.records.get(action.group)
        name = record.name if record is not None else ""
        what = SAID[type(action)]
        log.info(what, group=action.group, name=name, host=action.host, why=action.why)
