"""Bringing a group to other code, host by host, while it serves (E7, decision 0028).

A process has the code that it imported, so a host gets new code by being started again: the backups first,
each of them in order and back in sync before the next; then the group is wished to go on with the new code,
and handed to a member that has it; the last primary's host comes last. What is done shows in what the domain
knows, and nowhere else: whoever begins again after an interruption goes on where it ended.

What code a class of the application is now, as a process that starts now would have it (E7).

Whoever asks has perhaps imported the class before, and importing runs what its module says: so it is imported
in a process of its own, ``python -m holdfast.agent.rolling_upgrade PID``, which ends with its parent, PID.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

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
from holdfast.model.errors import HoldfastError, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.ids import HostId
from holdfast.model.outcome import error_in_words
from holdfast.node.layout import Layout
from holdfast.node.messages import HostStatus
from holdfast.styles.code_replay import TRIED
from holdfast.styles.serving_state import UNMADE

STEP_S: Final = 120.0
"""For any one step: a host that starts replays what it holds, and members catch up."""
POLL_S: Final = 0.1
HISTORY_S: Final = 15.0
"""In which a change that was made is in the group's history, however busy the domain is with others."""
TRIES_MAX: Final = 3
"""Of a host that should come back with the new code, and does with another: somebody edits it."""

FAILURES_MAX: Final = 3
"""Of hand-overs from one host; the rest fail over when it ends, sooner than one after the other is tried."""

FAILING_S: Final = 15.0
"""A member that fails to take the group over is given so long where nobody else serves it: what failed may
have been the machine."""
RETURNED_S: Final = 2.0
"""The same where the old code serves again; and what hosts know of each other is younger than that."""

Given = TypeVar("Given", bound=Answer)
T = TypeVar("T")
Say = Callable[[str], None]
Try = Callable[[], Awaitable[str]]
"""Why the group would not go on with the new code from its present state; empty: it would."""


class Give(Protocol):
    """Have an order done by any host of the domain."""

    def __call__(self, wanted: Order, kind: type[Given]) -> Awaitable[Given]: ...


class NotUpgraded(Rejected):
    """Raised when a group could not go on with the new code."""

    code = "not_upgraded"


class Returned(Unavailable):
    """Raised when the old code serves again, though nobody failed: whoever had the new one died."""


def to_restart(info: GroupInfo, new: Code) -> list[HostId]:
    """The hosts of the group that have not told that they have *new*; its primary last."""
    found = [host for host in info.placed_on if not has(info, host, new)]
    return sorted(found, key=lambda host: (host == info.primary, host))


def has(info: GroupInfo, host: HostId, code: Code) -> bool:
    """Whether that host has told that the group's class is that code there."""
    return host in info.codes and info.codes[host].code.is_same(code)


def is_served_by(info: GroupInfo, code: Code) -> bool:
    return info.code is not None and info.code.code.is_same(code)


def why_failed(found: GroupExplained, new: Code) -> str:
    """How a member that has *new* failed to have an object of it; empty when none did."""
    for each in found.group.without_object:
        if has(found.group, each.host, new) and (TRIED in each.why or UNMADE in each.why):
            return f"{each.host}: {each.why}"
    return ""


class Takeover:
    """A member with the code *new* is to take the group over from *own*: what comes of that, as it is told
    again and again."""

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
    """One group's way to *new*. *say* is told of each step; *try_it* is asked before the group leaves the
    code that serves it."""

    def __init__(self, layout: Layout, give: Give, name: str, new: Code, say: Say, try_it: Try) -> None:
        self._layout = layout
        self._give = give
        self._name = name
        self._new = new
        self._say = say
        self._try_it = try_it

    async def roll(self, *, replays: bool = False) -> GroupHistory:
        """Do what is left to do; the history then says so. Raises :class:`NotUpgraded` when the group could
        not go on with the new code, and nobody wishes it any more; ``Unavailable`` with the step that did not
        come true."""
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
                await self._leave(info, replays=replays)
            if not has(info, host, self._new):
                await self._restart(host)
        info = await self.info()
        if not is_served_by(info, self._new):
            await self._wish(replays=replays)
            await self._until_served(info)
        elif info.upgrade is not None:
            await self._withdraw()  # of other code, which somebody thought better of
        await self._until("every member is in sync", lambda found: set(found.in_sync) == set(found.placed_on))
        return await self._told(before)

    async def info(self) -> GroupInfo:
        return (await self._insist(lambda: self._give(ListGroups(name=self._name), GroupList))).groups[0]

    # --- the group

    async def _leave(self, info: GroupInfo, *, replays: bool) -> None:
        """Have the group go on with the new code, where a member has it: as often as whoever should dies."""
        for _ in range(TRIES_MAX):
            refused = await self._insist(self._try_it)
            if refused:
                raise NotUpgraded(f"{self._name} goes on with the code it has: {refused}")
            await self._wish(replays=replays)
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
        """By the new code. Raises :class:`NotUpgraded` when whoever has it cannot take the group over, and
        :class:`Returned` when the old one is back for another reason."""
        takeover = Takeover(self._new, before.code.code if before.code is not None else None)
        now_s = asyncio.get_running_loop().time

        async def explained() -> GroupExplained:
            return await self._give(ExplainGroup(name=self._name), GroupExplained)

        await self._awaited(
            f"it is served by {self._new}", explained, lambda found: takeover.is_over(found, now_s())
        )
        self._say(f"{self._name} is served by {self._new}")

    async def _wish(self, *, replays: bool) -> None:
        """Let whoever has the new code go on with it, when it comes to serve."""
        wanted = UpgradeGroup(
            name=self._name, version=self._new.version, digest=self._new.digest, replays=replays
        )
        await self._insist(lambda: self._give(wanted, GroupList))

    async def _withdraw(self) -> None:
        await self._insist(lambda: self._give(WithdrawUpgrade(name=self._name), GroupList))

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
    """It cannot be had."""


async def probe(app: Path, allowed: tuple[str, ...], class_name: str) -> Code:
    """The code of that class in *app*. Raises :class:`BadClass` when it cannot be imported there."""
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
    """Live, once."""
    end_with(int(sys.argv[1]), signal.SIGKILL)
    answers = os.dup(1)
    os.dup2(2, 1)  # what the module prints as it runs is not the answer
    wanted = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Probe)
    try:
        offer_classes(Path(wanted.app), wanted.allowed)
        found = Probed(load_code(wanted.class_name)[1].code)
    except BaseException as error:
        # The module's own code, in whatever way it fails.
        found = Probed(why=error_in_words(error)[:WHY_CHARACTERS_MAX])
    os.write(answers, msgspec.msgpack.encode(found))
    os._exit(0)


if __name__ == "__main__":
    main()
