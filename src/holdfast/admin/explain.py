"""Explains in words why a group is in its present state.

:class:`Explainer` says which members are not in sync, why nobody serves, and what the manager waits for.
:class:`UnkeptStates` finds states of which no checkpoint could be made (PROTOCOL E9). A member records at the
authority why its last checkpoint failed, and that outlives its process: what could not be read back is the
group's state, and the next primary executes the same calls and gets the same state. So the reason counts
until a checkpoint succeeds, not until a process dies.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from holdfast.admin.groups import GroupsAdmin
from holdfast.admin.reconciler import Reconciler
from holdfast.admin.recovery import RecoveryAdmin
from holdfast.app_code.known_code import code_says
from holdfast.authority.driver import insist
from holdfast.authority.history import History, read_history
from holdfast.authority.recipe import Authority, perform
from holdfast.groups.catalog import GroupCatalog
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupInfo, UnkeptInfo, WithoutObject
from holdfast.model.ids import SECOND, Epoch, HostId
from holdfast.sequence.messages import Held
from holdfast.sequence.recovery import Inspection
from holdfast.sequence.role import Rank, Role

ADVICE: Final = (
    "the checkpoint before it and all calls since are kept, and executed again by whoever takes over; put "
    "right what is named, a state by a call of the group's own, or calls are refused once the log is full"
)


class UnkeptStates:
    """The failed checkpoints recorded at the authority that still matter for the hosts in session."""

    def __init__(self, catalog: GroupCatalog, authority: Authority) -> None:
        self._catalog = catalog
        self._authority = authority

    async def of(self, info: GroupInfo) -> tuple[UnkeptInfo, ...]:
        return self.among(info, await self.history(info))

    async def history(self, info: GroupInfo) -> History:
        found: History = await insist(lambda: perform(self._authority, read_history(info.group)), History)
        return found

    def among(self, info: GroupInfo, history: History) -> tuple[UnkeptInfo, ...]:
        """The failed checkpoints of the group's members, including those that are leaving."""
        running = {host: session.incarnation for host, session in self._catalog.sessions.items()}
        members = {*info.placed_on, *info.leaving}
        return tuple(
            UnkeptInfo(at_ns=each.at_ns, host=each.host, why=each.why)
            for each in history.unkept_now(running)
            if each.host in members
        )


def unkept_says(unkept: tuple[UnkeptInfo, ...]) -> Iterator[str]:
    """Describe failed checkpoints for people; a reason shared by several members is given once."""
    hosts: dict[str, list[UnkeptInfo]] = {}
    for each in unkept:
        hosts.setdefault(each.why, []).append(each)
    for why, failed in hosts.items():
        since = datetime.fromtimestamp(min(each.at_ns for each in failed) / SECOND, UTC)
        where = ", ".join(each.host for each in failed)
        yield f"the last checkpoint of {where} failed ({since:%Y-%m-%d %H:%M:%S} UTC): {why}"
    if hosts:
        yield ADVICE


NEVER_BEGUN: Final = Epoch(0)
"""The epoch of a group that has had no view (FTC-213)."""


class Explainer:
    """Explains a group through one host, which asks every host where the group has a member."""

    def __init__(
        self,
        catalog: GroupCatalog,
        groups_admin: GroupsAdmin,
        recovery_admin: RecoveryAdmin,
        reconciler: Reconciler,
        unkept: UnkeptStates,
    ) -> None:
        self._catalog = catalog
        self._groups_admin = groups_admin
        self._recovery_admin = recovery_admin
        self._reconciler = reconciler
        self._unkept = unkept

    async def explain(self, order: ExplainGroup) -> GroupExplained:
        info = await self._groups_admin.info(order.name)
        if info.epoch == NEVER_BEGUN:
            return await self._of_unbegun(info)
        found = await self._recovery_admin.inspected(info)
        info = with_lacking(info, found)
        return GroupExplained(
            group=info,
            is_served=found.is_ready,
            members=tuple(self._of_members(info, found)),
            group_says=tuple(group_says(info, found)),
            manager_says=tuple(await self._reconciler.explain(info.group)),
            manager=self._reconciler.leader or HostId(""),
            code_says=tuple(code_says(info)),
            checkpoint_says=tuple(unkept_says(await self._unkept.of(info))),
        )

    async def _of_unbegun(self, info: GroupInfo) -> GroupExplained:
        says = "its first member has not begun yet" if info.placed_on else "it has no members yet"
        return GroupExplained(
            group=info,
            is_served=False,
            members=(),
            group_says=(says,),
            manager_says=tuple(await self._reconciler.explain(info.group)),
            manager=self._reconciler.leader or HostId(""),
        )

    def _of_members(self, info: GroupInfo, found: Inspection) -> Iterator[str]:
        """Describe each member that is not in sync, has no object, or is leaving."""
        held = {each.member.host: each for each in found.held}
        end = max((each.tail.position for each in found.held), default=0)
        for host in info.placed_on:
            if host not in info.in_sync:
                yield f"{host} is not in sync: {self._why_not(host, held.get(host), end)}"
        yield from (
            f"the disk of {each.member.host} is nearly full: {each.lacks_space}"
            for each in found.held
            if each.lacks_space
        )
        yield from map(_of_lacking, info.without_object)
        yield from (f"{host} never leads" for host in info.never_lead if host in info.placed_on)
        for host in info.leaving:
            where = "still in sync, until the others can do without it" if host in info.in_sync else "dropped"
            gone = "" if host in self._catalog.sessions else "; it does not live, and forgets when it does"
            yield f"{host} is leaving: {where}{gone}"

    def _why_not(self, host: HostId, held: Held | None, end: int) -> str:
        if host not in self._catalog.sessions:
            return "it does not live"
        if held is None:
            return "it did not say what it holds: it has just died, or is cut off, or its class is not there"
        if held.role == Role.HALTED.value:
            return "its member has stopped for good; the host's output says why"
        return f"it is catching up, and holds {held.tail.position} of {end}"


def with_lacking(info: GroupInfo, found: Inspection) -> GroupInfo:
    """*info* with the members that report having no object (O3, E8)."""
    lacking = tuple(
        WithoutObject(
            host=each.member.host,
            why=each.why,
            since_ns=each.since_ns,
            never_leads=each.rank == Rank.UNFIT,
        )
        for each in found.held
        if each.rank >= Rank.UNABLE
    )
    return msgspec.structs.replace(info, without_object=lacking)


def _of_lacking(each: WithoutObject) -> str:
    since = datetime.fromtimestamp(each.since_ns / SECOND, UTC) if each.since_ns else None
    said = f"{each.host} has no object{f' since {since:%Y-%m-%d %H:%M:%S} UTC' if since else ''}: {each.why}"
    return f"{said}; it holds what is acknowledged, and never leads" if each.never_leads else said


def _of_none(info: GroupInfo, silent: list[HostId]) -> Iterator[str]:
    """What helps a group if no member that answers has the object."""
    if silent:
        yield (
            f"no in-sync member that answers has the object; {', '.join(silent)} may have it: bring it back, "
            f"or, if it is gone for good, see what `holdfast group recover {info.name}` would cost"
        )
        return
    in_sync = [each for each in info.without_object if each.host in info.in_sync]
    if all(each.never_leads for each in in_sync):
        yield (
            "no in-sync member has the object: put right what is told of them, or go on from one of them all "
            f"the same with `holdfast group recover {info.name}`"
        )
        return
    yield (
        "no in-sync member can make the object of what it holds, and all that was acknowledged is held: put "
        "right what is told of them; if that is in the class, edit it and `holdfast group upgrade "
        f"{info.name}`. `holdfast group recover` would not help: it makes the object of the same"
    )


def _of_barred(info: GroupInfo, answering: list[HostId], silent: list[HostId]) -> Iterator[str]:
    """What helps a group if only members that never lead are left (W3)."""
    back = [host for host in silent if host not in info.never_lead]
    yield (
        f"only {', '.join(answering)} of its in-sync members answers, and never leads: it goes on when "
        f"{' or '.join(back) or 'one that may lead'} is back; if that is gone for good, let it go on from "
        f"{answering[0]} with `holdfast group recover {info.name}`"
    )


def group_says(info: GroupInfo, found: Inspection) -> Iterator[str]:
    """Why a group is not served, and what helps; *info* names the members that have no object."""
    if found.is_ready:
        return
    without = {each.host for each in info.without_object}
    answering = [each.member.host for each in found.held if each.member.host in info.in_sync]
    silent = [host for host in info.in_sync if host not in answering]
    if not answering:
        held = "which hold all that was acknowledged"
        if info.durability == "memory":
            held = "unless their processes have ended, and with them what was acknowledged"
        yield f"no in-sync member answers: it goes on when enough of {', '.join(silent)} are back, {held}"
        return
    if without.issuperset(answering):
        yield from _of_none(info, silent)
        return
    if found.view.value.primary not in answering and set(info.never_lead).issuperset(answering):
        yield from _of_barred(info, answering, silent)
        return
    if info.primary in found.silent:
        yield f"{info.primary}, its primary, does not answer; an in-sync member takes over as soon as it may"
    if len(answering) < info.min_in_sync:
        yield (
            f"{len(answering)} of its in-sync members answer, and {info.min_in_sync} must hold an operation: "
            "nothing is acknowledged until another is back"
        )
    elif info.primary in without:
        yield f"{info.primary} is primary without its object, and hands over as soon as another can serve"
    elif info.primary not in found.silent:
        yield f"{info.primary} is primary and takes no calls yet"
