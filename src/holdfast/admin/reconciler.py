"""The replication manager at work: the coordinator carries out what is planned.

Between two looks it remembers only which primaries were reported to it
(:mod:`holdfast.control.replication.reactions`); the next coordinator hears what was not acknowledged. Each
step changes exactly the record that was planned from (:mod:`holdfast.control.replication.planner`), and each
hand-over is asked of exactly the primary: what was planned on an old picture, or by a host that does not
coordinate any more, does nothing, and what was interrupted is planned again.
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
    Place,
    Plan,
    Remove,
    Tune,
    by_group,
    plan,
    take_steps,
)
from holdfast.control.replication.reactions import FaultReactions
from holdfast.control.replication.spec import GroupFact, ObservedState
from holdfast.faults.told_events import Told
from holdfast.groups.host_groups import HostGroups
from holdfast.machine import MachineClock
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce

LOOK_S: Final = 1.0
"""Between two looks at what has changed."""
BUSY_LOOK_S: Final = 0.2
"""The same while there is something to do: members are waited for that were placed before."""
ACTIONS_MAX: Final = 100
"""Carried out before the domain is looked at again."""
AT_A_TIME: Final = 16
"""HostGroups, of those: most of each is waiting for the authority's disk, which serves many at once."""
FORGOTTEN_MAX: Final = 100
"""Groups looked up at the authority before the domain is looked at again."""

SAID: Final[dict[type[Action], str]] = {
    Place: "a member is placed",
    Remove: "a member is removed",
    Forget: "a host is forgotten",
    Tune: "properties are told",
    Lead: "a primary is to hand over",
}

log = structlog.get_logger("holdfast.manager")


class Reconciler:
    """The manager's part of one host; idle unless that one coordinates."""

    def __init__(
        self,
        groups: HostGroups,
        authority: Authority,
        control: ControlPlane,
        census: DomainSnapshot,
        nonces: Callable[[], Nonce],
    ) -> None:
        self._groups = groups
        self._directory = groups.directory
        self._authority = authority
        self._control = control
        self._census = census
        self._nonces = nonces
        self._planned_for: tuple[Any, ...] = ()
        self._is_told = asyncio.Event()
        self._doubts = FaultReactions()
        self._clock = MachineClock()

    @property
    def leader(self) -> HostId | None:
        """The host that manages the domain, as far as is known here."""
        return self._control.coordinator

    async def work(self) -> None:
        """Look and act until cancelled. Whatever goes wrong here ends no host: its groups serve without."""
        while True:
            self._is_told.clear()  # first: of what is told meanwhile this look may not know
            try:
                is_busy = await self._look()
            except HoldfastError as error:
                log.error("the domain cannot be managed now", why=str(error))
                is_busy = False
            except Exception:
                # The next coordinator would meet the same, and end as well.
                log.exception("the domain cannot be managed now")
                is_busy = False
            await self._rest(BUSY_LOOK_S if is_busy else LOOK_S)

    async def _rest(self, longest_s: float) -> None:
        """Until the next look; less, if a fault is told, but never none: a host that dies with thousands of
        groups is told of in as many reports."""
        await asyncio.sleep(BUSY_LOOK_S)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest_s - BUSY_LOOK_S):
                await self._is_told.wait()

    def on_told(self, told: Told) -> None:
        """The notifier tells of a fault (FTC-313): look now; and let another member lead where the primary is
        said to have crashed. If that is wrong, or was so before, it costs a hand-over."""
        found = self._doubts.add(told, self._clock.wall(), self._directory.views, self._directory.sessions)
        if found is not None:
            self._say(found)
        self._is_told.set()

    def _lead_elsewhere(self) -> bool:
        """Have others lead in the place of primaries that are said to have crashed; whether some are not led
        by others yet."""
        due = self._doubts.due(self._clock.wall(), self._directory.views, self._directory.sessions)
        for action in due:
            self._groups.ask_hand_over(action.group, action.host)
        return bool(due)

    async def _look(self) -> bool:
        """Whether there was something to do."""
        if self._control.is_coordinator:
            is_leading = self._lead_elsewhere()
            return await self._act() or is_leading
        self._doubts.clear()
        self._planned_for = ()
        self._census.look()  # so that this host knows since when others are gone
        return False

    async def plan(self) -> Plan:
        """What would be done now."""
        return await self._planned(self._census.facts())

    async def explain(self, group: GroupId) -> list[str]:
        """What the manager does about one group, or waits for; empty when it is as wished for."""
        if self.leader is None:
            return ["no host coordinates the domain now: nothing can be changed"]
        return list(by_group(await self.plan(), group))

    async def _planned(self, facts: ObservedState) -> Plan:
        """Made in a thread: with ten thousand groups it takes a while, in which the domain may change."""
        return await asyncio.to_thread(self._plan, facts, self._control.state())

    def _plan(self, facts: ObservedState, state: DomainState) -> Plan:
        return plan(self._census.wishes(facts, state), facts)

    async def _act(self) -> bool:
        """Plan and carry out, if anything has changed since there was nothing to do; whether there was."""
        living = tuple(sorted(self._directory.sessions))
        seen = (self._directory.changes, living, self._census.lost(), self._control.cas)
        if seen == self._planned_for:
            return False
        await self._forget_gone()
        facts = self._census.facts()
        found = await self._planned(facts)
        await self._do_all(found.actions[:ACTIONS_MAX], facts)
        # What was done changes what is seen; what could not be is tried again at the next look.
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
        """What is planned for one group, if it is still as it was then."""
        steps = [each for each in actions if not isinstance(each, Lead)]
        for action in await perform(self._authority, take_steps(group, steps, self._nonces, self._criteria)):
            self._say(action)
        for action in actions:
            if isinstance(action, Lead):
                self._groups.ask_hand_over(action.group, action.host, as_of=group.view.epoch)
                self._say(action)

    def _criteria(self, record: GroupRecord, host: HostId) -> str:
        """What the factory there is told (FTC-212)."""
        effective = self._control.state().for_group(record.group, made_with_of(record))
        return to_keep(member_criteria({}, effective, location_known(host, self._directory.sessions)))

    async def _forget_gone(self) -> None:
        """Let go of what was set for groups that are no more."""
        known = (GroupId(int(each)) for each in self._control.state().groups)
        missing = [each for each in known if each not in self._directory.records][:FORGOTTEN_MAX]
        # This host may not have heard of all groups yet: the authority has.
        found = [await perform(self._authority, read_group(each)) for each in missing]
        gone = tuple(each.group for each in found if isinstance(each, NoGroup))
        if gone:
            await self._control.wish(ForgetGroups(groups=gone))

    def _say(self, action: Action) -> None:
        record = self._directory.records.get(action.group)
        name = record.name if record is not None else ""
        what = SAID[type(action)]
        log.info(what, group=action.group, name=name, host=action.host, why=action.why)
