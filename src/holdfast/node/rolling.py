"""Bringing a group to other code, host by host, while it serves (E7, decision 0028).

A process has the code that it imported, so a host gets new code by being started again: the backups first,
each of them in order and back in sync before the next; then the group is wished to go on with the new code,
and handed to a member that has it; the last primary's host comes last. What is done shows in what the domain
knows, and nowhere else: whoever begins again after an interruption goes on where it ended.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from holdfast.model.code import Code
from holdfast.model.code_orders import UpgradeGroup
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.orders import (
    Answer,
    GroupHistory,
    GroupInfo,
    GroupList,
    HandedOver,
    ListGroups,
    Order,
    SetPrimary,
    ShowHistory,
)
from holdfast.node.asking import status_of
from holdfast.node.holders import signal_holder
from holdfast.node.layout import Layout
from holdfast.node.messages import HostStatus

STEP_S: Final = 120.0
"""For any one step: a host that starts replays what it holds, and members catch up."""
POLL_S: Final = 0.1
HISTORY_S: Final = 15.0
"""In which a change that was made is in the group's history, however busy the domain is with others."""
TRIES_MAX: Final = 3
"""Of a host that should come back with the new code, and does with another: somebody edits it."""

FAILURES_MAX: Final = 3
"""Of hand-overs from one host; the rest fail over when it ends, sooner than one after the other is tried."""

Given = TypeVar("Given", bound=Answer)
T = TypeVar("T")
Say = Callable[[str], None]


class Give(Protocol):
    """Have an order done by any host of the domain."""

    def __call__(self, wanted: Order, kind: type[Given]) -> Awaitable[Given]: ...


def to_restart(info: GroupInfo, new: Code) -> list[HostId]:
    """The hosts of the group that have not told that they have *new*; its primary last."""
    found = [host for host in info.placed_on if not has(info, host, new)]
    return sorted(found, key=lambda host: (host == info.primary, host))


def has(info: GroupInfo, host: HostId, code: Code) -> bool:
    """Whether that host has told that the group's class is that code there."""
    return host in info.codes and info.codes[host].code.is_same(code)


def is_served_by(info: GroupInfo, code: Code) -> bool:
    return info.code is not None and info.code.code.is_same(code)


class Rolling:
    """One group's way to *new*. *say* is told of each step."""

    def __init__(self, layout: Layout, give: Give, name: str, new: Code, say: Say) -> None:
        self._layout = layout
        self._give = give
        self._name = name
        self._new = new
        self._say = say

    async def roll(self, *, replays: bool = False) -> GroupHistory:
        """Do what is left to do; the history then says so. Raises ``Unavailable`` with the step that did not
        come true."""
        info = await self.info()
        before = info.code.code if info.code is not None else None
        for host in to_restart(info, self._new):
            info = await self.info()
            if host == info.primary and not is_served_by(info, self._new):
                await self._wish(replays=replays)
                if await self._hand_over(info):
                    await self._until_served()
            if not has(info, host, self._new):
                await self._restart(host)
        if not is_served_by(await self.info(), self._new):
            await self._wish(replays=replays)
            await self._until_served()
        await self._until("every member is in sync", lambda found: set(found.in_sync) == set(found.placed_on))
        return await self._told(before)

    async def info(self) -> GroupInfo:
        return (await self._insist(lambda: self._give(ListGroups(name=self._name), GroupList))).groups[0]

    # --- the group

    async def _until_served(self) -> None:
        await self._until(f"it is served by {self._new}", lambda found: is_served_by(found, self._new))
        self._say(f"{self._name} is served by {self._new}")

    async def _wish(self, *, replays: bool) -> None:
        """Let whoever has the new code go on with it, when it comes to serve."""
        wanted = UpgradeGroup(
            name=self._name, version=self._new.version, digest=self._new.digest, replays=replays
        )
        await self._insist(lambda: self._give(wanted, GroupList))

    async def _hand_over(self, info: GroupInfo) -> bool:
        """To a member with the new code; whether that was done. If not, the old primary's restart does the
        same, at the price of a fail-over."""
        for host in info.in_sync:
            if host != info.primary and has(info, host, self._new):
                try:
                    await self._give(SetPrimary(name=self._name, host=host, is_any_style=True), HandedOver)
                except HoldfastError as error:
                    self._say(f"{info.primary} could not hand over to {host}: {error}")
                else:
                    self._say(f"{info.primary} handed over to {host}")
                    return True
        return False

    async def _told(self, before: Code | None) -> GroupHistory:
        """The history, as soon as it says that the group went on with the new code: it is written at leisure,
        and of a group without a state there is nothing to write."""

        async def history() -> GroupHistory:
            return await self._give(ShowHistory(name=self._name), GroupHistory)

        found = await self._insist(history)
        if before is None or before.is_same(self._new):
            return found
        for _ in range(round(HISTORY_S / POLL_S)):
            if any(each.to_code == str(self._new) for each in found.code_changes):
                break
            await asyncio.sleep(POLL_S)
            found = await self._insist(history)
        return found

    # --- hosts

    async def _restart(self, host: HostId) -> None:
        for _ in range(TRIES_MAX):
            await self._empty(host)
            was = await self._status(host)
            self._say(f"{host} is started again")
            signal_holder(self._layout.host(host), signal.SIGTERM)
            await self._back(host, was)
            info = await self._until(f"{host} has told its code", lambda found: host in found.codes)
            if has(info, host, self._new):
                # A member that waits for its group to go on with its code is in sync as any other.
                await self._until(f"{host} is in sync", lambda found: host in found.in_sync)
                return
        found = info.codes[host].code
        raise Unavailable(f"{host} came back with {found}, not with {self._new}: is it being edited?")

    async def _back(self, host: HostId, was: HostStatus) -> None:
        """It lives again, as another process."""

        def is_back(found: HostStatus) -> bool:
            return found.alive and found.incarnation is not None and found.incarnation != was.incarnation

        await self._awaited(f"{host} lives again", lambda: self._status(host), is_back)

    async def _empty(self, host: HostId) -> None:
        """Let others be primary in its place, so that no call waits for a fail-over. Who cannot, fails over
        when the host ends."""
        groups = await self._insist(lambda: self._give(ListGroups(is_whole=True), GroupList))
        failures = 0
        for each in groups.groups:
            if failures == FAILURES_MAX:
                return
            others = [other for other in each.in_sync if other != host]
            if each.primary != host or not others:
                continue
            served = each.code.code if each.code is not None else Code()
            others.sort(key=lambda other: not has(each, other, served))
            if each.code is not None and not has(each, others[0], served):
                continue  # nobody could serve it before this host has other code as well
            wanted = SetPrimary(name=each.name, host=others[0], is_any_style=True)
            try:
                await self._give(wanted, HandedOver)
            except HoldfastError as error:
                failures += 1
                self._say(f"{host} could not hand {each.name} over to {others[0]}: {error}")

    async def _status(self, host: HostId) -> HostStatus:
        found = await status_of(self._layout, self._layout.read())
        return next(each for each in found.hosts if each.id == host)

    # --- waiting

    async def _until(self, what: str, holds: Callable[[GroupInfo], bool]) -> GroupInfo:
        return await self._awaited(what, self.info, holds)

    async def _awaited(self, what: str, ask: Callable[[], Awaitable[T]], holds: Callable[[T], bool]) -> T:
        try:
            async with asyncio.timeout(STEP_S):
                while not holds(found := await self._insist(ask)):
                    await asyncio.sleep(POLL_S)
                return found
        except TimeoutError:
            said = f"not within {STEP_S:g} s: {what}; `holdfast explain {self._name}` says why"
            raise Unavailable(f"{said}. Nothing is lost; begin again to go on") from None

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Hosts come and go meanwhile: ask until one answers."""
        async with asyncio.timeout(STEP_S):
            while True:
                try:
                    return await ask()
                except (Unavailable, OutcomeUnknown):
                    await asyncio.sleep(POLL_S)
