"""The replication manager at work: the coordinator carries out what is planned (DESIGN section 10).

It remembers nothing between two looks. Each step is a compare-and-set from exactly the record that was
planned from, so one that was planned on an old picture, or by a host that does not coordinate any more, does
nothing, and one that was interrupted is planned again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from holdfast.authority.groups import GroupRecord, read_group
from holdfast.authority.outcome import Seen
from holdfast.authority.placing import add_member, have_left, remove_member, tune_group
from holdfast.authority.recipe import Authority, Recipe, perform
from holdfast.authority.views import NoGroup
from holdfast.control.criteria import member_criteria, to_keep
from holdfast.control.domain_changes import ForgetGroups
from holdfast.control.domain_state import DomainState
from holdfast.control.planning import Action, Forget, Lead, Place, Plan, Tune, by_group, plan
from holdfast.control.wishes import Facts
from holdfast.housing.groups import Groups
from holdfast.model.errors import HoldfastError
from holdfast.model.ids import GroupId, HostId, Nonce
from holdfast.node.census import Census, made_with_of
from holdfast.node.control import Control
from holdfast.node.locating import location_known

LOOK_S: Final = 1.0
"""Between two looks at what has changed."""
BUSY_LOOK_S: Final = 0.2
"""The same while there is something to do: members are waited for that were placed before."""
ACTIONS_MAX: Final = 100
"""Carried out before the domain is looked at again."""
AT_A_TIME: Final = 16
"""Of those: most of each is waiting for the authority's disk, which serves many at once."""
FORGOTTEN_MAX: Final = 100
"""Groups looked up at the authority before the domain is looked at again."""

log = structlog.get_logger("holdfast.manager")


class Managing:
    """The manager's part of one host; idle unless that one coordinates."""

    def __init__(
        self,
        groups: Groups,
        authority: Authority,
        control: Control,
        census: Census,
        nonces: Callable[[], Nonce],
    ) -> None:
        self._groups = groups
        self._directory = groups.directory
        self._authority = authority
        self._control = control
        self._census = census
        self._nonces = nonces
        self._planned_for: tuple[Any, ...] = ()

    @property
    def leader(self) -> HostId | None:
        """The host that manages the domain, as far as is known here."""
        return self._control.coordinator

    async def work(self) -> None:
        """Look and act until cancelled. Whatever goes wrong here ends no host: its groups serve without."""
        while True:
            try:
                is_busy = await self._look()
            except HoldfastError as error:
                log.error("the domain cannot be managed now", why=str(error))
                is_busy = False
            await asyncio.sleep(BUSY_LOOK_S if is_busy else LOOK_S)

    async def _look(self) -> bool:
        """Whether there was something to do."""
        if self._control.is_coordinator:
            return await self._act()
        self._planned_for = ()
        self._census.look()  # so that this host knows since when others are gone
        return False

    async def plan(self) -> Plan:
        """What would be done now. Made in a thread: with ten thousand groups it takes a while."""
        return await asyncio.to_thread(self._plan, self._census.facts(), self._control.state())

    async def explain(self, group: GroupId) -> list[str]:
        """What the manager does about one group, or waits for; empty when it is as wished for."""
        if self.leader is None:
            return ["no host coordinates the domain now: nothing can be changed"]
        return list(by_group(await self.plan(), group))

    def _plan(self, facts: Facts, state: DomainState) -> Plan:
        return plan(self._census.wishes(facts, state), facts)

    async def _act(self) -> bool:
        """Plan and carry out, if anything has changed since there was nothing to do; whether there was."""
        living = tuple(sorted(self._directory.sessions))
        seen = (self._directory.changes, living, self._census.lost(), self._control.cas)
        if seen == self._planned_for:
            return False
        await self._forget_gone()
        found = await self.plan()
        await self._do_all(found.actions[:ACTIONS_MAX])
        # What was done changes what is seen; what could not be is tried again at the next look.
        self._planned_for = seen if not found.actions else ()
        return bool(found.actions)

    async def _do_all(self, actions: Sequence[Action]) -> None:
        waiting = iter(actions)

        async def do_some() -> None:
            for action in waiting:
                if self._control.is_coordinator:
                    await self._do(action)

        done = await asyncio.gather(*(do_some() for _ in range(AT_A_TIME)), return_exceptions=True)
        for error in done:
            if error is not None:
                raise error

    async def _do(self, action: Action) -> None:
        if isinstance(action, Lead):
            self._groups.ask_hand_over(action.group, action.host)
            self._say(action, "a primary is to hand over")
            return
        seen = self._directory.seen_records.get(action.group)
        if seen is None:
            return
        what, recipe = self._step(action, seen)
        if isinstance(await perform(self._authority, recipe), Seen):
            self._say(action, what)

    def _step(self, action: Action, seen: Seen[GroupRecord]) -> tuple[str, Recipe[object]]:
        """In words, and as a change of exactly the record that was planned from."""
        group, host, nonce, as_of = action.group, action.host, self._nonces(), seen.modified
        match action:
            case Place():
                criteria = self._criteria(seen.value, host)
                recipe = add_member(group, host, nonce=nonce, as_of=as_of, criteria=criteria)
                return "a member is placed", recipe
            case Forget():
                return "a host is forgotten", have_left(group, host, nonce=nonce)
            case Tune(tuned=tuned):
                return "properties are told", tune_group(group, tuned, nonce=nonce, as_of=as_of)
            case _:
                return "a member is removed", remove_member(group, host, nonce=nonce, as_of=as_of)

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

    def _say(self, action: Action, what: str) -> None:
        record = self._directory.records.get(action.group)
        name = record.name if record is not None else ""
        log.info(what, group=action.group, name=name, host=action.host, why=action.why)
