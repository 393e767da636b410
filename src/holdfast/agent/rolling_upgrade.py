"""Moves a group to new code, host by host, while it serves (E7, decision 0028).

A process runs the code that it imported, so a host gets new code by a restart. The backups' hosts are
restarted first, one after the other, each in order and back in sync before the next. Then the group is told
to continue with the new code and handed over to a member that has it; the last primary's host is restarted
last. Progress shows only in what the domain knows of the group, so whoever repeats an interrupted upgrade
continues where it stopped.

:func:`probe` finds the code that a class of the application has now, as a newly started process would see it
(E7). The asking process may already have imported an older one, and importing executes the module. So a
separate process imports it, ``python -m holdfast.agent.rolling_upgrade PID``, which ends with its parent,
PID.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from holdfast.agent.patient_steps import POLL_S, awaited, insist
from holdfast.agent.status_client import signal_holder, status_of
from holdfast.app_code.finder import BadClass
from holdfast.app_code.loader import load_code, offer_classes
from holdfast.machine.process_end import end_with
from holdfast.model.admin.groups import (
    Answer,
    ExplainGroup,
    GroupExplained,
    GroupHistory,
    GroupInfo,
    GroupList,
    HandedOver,
    ListGroups,
    Order,
    SetPrimary,
    ShowHistory,
)
from holdfast.model.admin.upgrades import UpgradeGroup, WithdrawUpgrade
from holdfast.model.code import Code
from holdfast.model.errors import HoldfastError, Rejected, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.outcome import error_in_words
from holdfast.node.layout import Layout
from holdfast.node.messages import HostStatus
from holdfast.styles.code_replay import TRIED
from holdfast.styles.serving_state import UNMADE

HISTORY_S: Final = 15.0
"""Time within which the group's history shows a change, however busy the domain is."""
TRIES_MAX: Final = 3
"""How often a host is restarted that comes back with code other than the new one: somebody is editing it."""

FAILURES_MAX: Final = 3
"""How many handovers from one host may fail. The remaining groups fail over when the host ends, which is
faster than trying each of them."""

FAILING_S: Final = 15.0
"""How long a takeover may keep failing while nobody serves the group: the cause may be the machine."""
RETURNED_S: Final = 2.0
"""How long the old code must have served again. By then, what hosts know of each other is up to date."""

Given = TypeVar("Given", bound=Answer)
T = TypeVar("T")
Say = Callable[[str], None]
Try = Callable[[], Awaitable[str]]
"""Returns why the group could not continue with the new code from its present state; empty if it could."""


class Give(Protocol):
    """Has an order executed by any host of the domain."""

    def __call__(self, wanted: Order, kind: type[Given]) -> Awaitable[Given]: ...


class NotUpgraded(Rejected):
    """Raised when a group could not continue with the new code."""

    code = "not_upgraded"


class Returned(Unavailable):
    """Raised when the old code serves again without a failure: the member that had the new code died."""


def to_restart(info: GroupInfo, new: Code) -> list[HostId]:
    """The group's hosts that have not reported having *new*, the primary's host last."""
    found = [host for host in info.placed_on if not has(info, host, new)]
    return sorted(found, key=lambda host: (host == info.primary, host))


def has(info: GroupInfo, host: HostId, code: Code) -> bool:
    """Whether *host* has reported that the group's class is *code* there."""
    return host in info.codes and info.codes[host].code.is_same(code)


def is_served_by(info: GroupInfo, code: Code) -> bool:
    return info.code is not None and info.code.code.is_same(code)


def why_failed(found: GroupExplained, new: Code) -> str:
    """How a member that has *new* failed to create an object of it; empty if none failed."""
    for each in found.group.without_object:
        if has(found.group, each.host, new) and (TRIED in each.why or UNMADE in each.why):
            return f"{each.host}: {each.why}"
    return ""


class Takeover:
    """Follows a takeover by a member with the code *new* from one with *own*."""

    def __init__(self, new: Code, own: Code | None) -> None:
        self._new = new
        self._own = own
        self._failing_since: float | None = None
        self._returned_since: float | None = None

    def is_over(self, found: GroupExplained, now_s: float) -> bool:
        """Whether the new code serves. Raises :class:`NotUpgraded`, :class:`Returned`."""
        info, own = found.group, self._own
        if is_served_by(info, self._new):
            return True
        why = why_failed(found, self._new)
        is_back = found.is_served and own is not None and has(info, info.primary, own)
        if why and self._failing_since is None:
            self._failing_since = now_s
        if not is_back:
            self._returned_since = None
        elif self._returned_since is None:
            self._returned_since = now_s
        elif now_s - self._returned_since >= RETURNED_S:
            said = f"{info.name} is served by {own} again"
            raise NotUpgraded(f"{said}: {why}") if why else Returned(said)
        if why and not found.is_served and now_s - (self._failing_since or now_s) >= FAILING_S:
            helps = f"put {own} back and order this again" if own is not None else "put that right"
            raise NotUpgraded(f"nobody can serve {info.name}: {why}; {helps}")
        return False


class RollingUpgrade:
    """Upgrades one group to *new*. *say* receives each step; *try_it* is asked before the code changes."""

    def __init__(self, layout: Layout, give: Give, name: str, new: Code, say: Say, try_it: Try) -> None:
        self._layout = layout
        self._give = give
        self._name = name
        self._new = new
        self._say = say
        self._try_it = try_it

    async def roll(self, *, replays: bool = False) -> GroupHistory:
        """Do whatever is left to do; returns the group's history, which then shows the change.

        Raises :class:`NotUpgraded` if the group could not continue with the new code; the request for it is
        then withdrawn. Raises ``Unavailable`` with the step that did not complete.
        """
        try:
            return await self._rolled(replays=replays)
        except NotUpgraded:
            await self._withdraw()
            raise

    async def _rolled(self, *, replays: bool) -> GroupHistory:
        info = await self.info()
        before = info.code.code if info.code is not None else None
        for host in to_restart(info, self._new):
            info = await self.info()
            if host == info.primary and not is_served_by(info, self._new):
                await self._switch_code(info, replays=replays)
            if not has(info, host, self._new):
                await self._restart(host)
        info = await self.info()
        if not is_served_by(info, self._new):
            await self._request_upgrade(replays=replays)
            await self._until_served(info)
        elif info.upgrade is not None:
            await self._withdraw()  # a request for other code that is no longer wanted
        await self._until("every member is in sync", lambda found: set(found.in_sync) == set(found.placed_on))
        return await self._history_after(before)

    async def info(self) -> GroupInfo:
        return (await insist(lambda: self._give(ListGroups(name=self._name), GroupList))).groups[0]

    # --- the group

    async def _switch_code(self, info: GroupInfo, *, replays: bool) -> None:
        """Have the group continue with the new code on a member that has it; repeats if that member dies."""
        for _ in range(TRIES_MAX):
            refused = await insist(self._try_it)
            if refused:
                raise NotUpgraded(f"{self._name} goes on with the code it has: {refused}")
            await self._request_upgrade(replays=replays)
            if not await self._hand_over(info):
                return
            try:
                await self._until_served(info)
                return
            except Returned as error:
                self._say(str(error))
            info = await self._until(f"a member with {self._new} is in sync", self._has_successor)

    def _has_successor(self, info: GroupInfo) -> bool:
        return any(host != info.primary and has(info, host, self._new) for host in info.in_sync)

    async def _until_served(self, before: GroupInfo) -> None:
        """Wait until the new code serves the group.

        Raises :class:`NotUpgraded` if a member that has it cannot take the group over, and :class:`Returned`
        if the old code is back for another reason.
        """
        takeover = Takeover(self._new, before.code.code if before.code is not None else None)
        now_s = asyncio.get_running_loop().time

        async def explained() -> GroupExplained:
            return await self._give(ExplainGroup(name=self._name), GroupExplained)

        await self._awaited(
            f"it is served by {self._new}", explained, lambda found: takeover.is_over(found, now_s())
        )
        self._say(f"{self._name} is served by {self._new}")

    async def _request_upgrade(self, *, replays: bool) -> None:
        """Permit a member that has the new code to continue with it when it becomes primary."""
        wanted = UpgradeGroup(
            name=self._name, version=self._new.version, digest=self._new.digest, replays=replays
        )
        await insist(lambda: self._give(wanted, GroupList))

    async def _withdraw(self) -> None:
        await insist(lambda: self._give(WithdrawUpgrade(name=self._name), GroupList))

    async def _hand_over(self, info: GroupInfo) -> bool:
        """Hand over to a member with the new code; returns whether that succeeded.

        If not, the restart of the old primary's host does the same, at the price of a failover.
        """
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

    async def _history_after(self, before: Code | None) -> GroupHistory:
        """The history, as soon as it shows that the group continued with the new code.

        The history is written in the background, and for a group without a state there is nothing to write.
        """

        async def history() -> GroupHistory:
            return await self._give(ShowHistory(name=self._name), GroupHistory)

        found = await insist(history)
        if before is None or before.is_same(self._new):
            return found
        for _ in range(round(HISTORY_S / POLL_S)):
            if any(each.to_code == str(self._new) for each in found.code_changes):
                break
            await asyncio.sleep(POLL_S)
            found = await insist(history)
        return found

    # --- hosts

    async def _restart(self, host: HostId) -> None:
        for _ in range(TRIES_MAX):
            await self._hand_over_all(host)
            was = await self._status(host)
            self._say(f"{host} is started again")
            signal_holder(self._layout.host(host), signal.SIGTERM)
            await self._back(host, was)
            info = await self._until(f"{host} has told its code", lambda found: host in found.codes)
            if has(info, host, self._new):
                # A member that waits for its group to continue with its code is in sync like any other.
                await self._until(f"{host} is in sync", lambda found: host in found.in_sync)
                return
        found = info.codes[host].code
        raise Unavailable(f"{host} came back with {found}, not with {self._new}: is it being edited?")

    async def _back(self, host: HostId, was: HostStatus) -> None:
        """Wait until the host is alive again as another process."""

        def is_back(found: HostStatus) -> bool:
            return found.alive and found.incarnation is not None and found.incarnation != was.incarnation

        await self._awaited(f"{host} lives again", lambda: self._status(host), is_back)

    async def _hand_over_all(self, host: HostId) -> None:
        """Hand the groups of which this host is primary over to others, so that no call waits for a failover.

        Groups that cannot be handed over fail over when the host ends.
        """
        groups = await insist(lambda: self._give(ListGroups(is_whole=True), GroupList))
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
                continue  # nobody can serve it until this host has new code as well
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
        return await awaited(what, ask, holds, advice=f"`holdfast explain {self._name}` says why")


LIMIT_S: Final = 60.0
ANSWER_BYTES_MAX: Final = 64 << 10
WHY_CHARACTERS_MAX: Final = 1_000
_PROGRAM: Final = ("-P", "-B", "-m", "holdfast.agent.rolling_upgrade")


class Probe(msgspec.Struct, frozen=True):
    app: str
    allowed: tuple[str, ...]
    class_name: str


class Probed(msgspec.Struct, frozen=True):
    code: Code = Code()
    why: str = ""
    """Why the code could not be found."""


async def probe(app: Path, allowed: tuple[str, ...], class_name: str) -> Code:
    """The code of that class in *app*. Raises :class:`BadClass` if it cannot be imported there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *_PROGRAM,
        str(os.getpid()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            asked = msgspec.msgpack.encode(Probe(str(app), allowed, class_name))
            answer, _ = await process.communicate(asked)
        found = msgspec.msgpack.decode(answer[:ANSWER_BYTES_MAX], type=Probed)
    except (TimeoutError, msgspec.DecodeError):
        raise Unavailable(f"{class_name} could not be imported from {app} within {LIMIT_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if found.why:
        raise BadClass(found.why)
    return found.code


def main() -> None:
    """Run the separate process: import the class, write the answer and exit."""
    end_with(int(sys.argv[1]), signal.SIGKILL)
    answers = os.dup(1)
    os.dup2(2, 1)  # keeps what the module prints out of the answer
    wanted = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Probe)
    try:
        offer_classes(Path(wanted.app), wanted.allowed)
        found = Probed(load_code(wanted.class_name)[1].code)
    except BaseException as error:
        # The module's own code may fail in any way.
        found = Probed(why=error_in_words(error)[:WHY_CHARACTERS_MAX])
    os.write(answers, msgspec.msgpack.encode(found))
    os._exit(0)


if __name__ == "__main__":
    main()
