"""`holdfast group move`: a group's members on hosts that are named, or where the manager chooses again."""

import asyncio
import time
from typing import Annotated, Final

import uvloop
from cyclopts import Parameter

from holdfast.cli.admin import give_at
from holdfast.cli.output import Output, print_json, talk
from holdfast.cli.where import HERE, Target, Where
from holdfast.machine.real_ports import fresh_nonce
from holdfast.model.admin.groups import ExplainGroup, GroupExplained, GroupInfo, GroupList, MoveGroup
from holdfast.model.errors import HoldfastError, InvalidRequest, Unavailable
from holdfast.model.ids import HostId

WAIT_S: Final = 300.0
"""How long to wait without any progress."""
POLL_S: Final = 0.3


def hosts_in(text: str) -> tuple[HostId, ...]:
    """The hosts in *text*, as ``a,b,c``. Raises ``InvalidRequest`` for an empty name or one given twice."""
    found = tuple(HostId(each.strip()) for each in text.split(",")) if text else ()
    if "" in found or len(set(found)) < len(found):
        raise InvalidRequest(f"hosts are named once each, as a,b,c, not {text!r}")
    return found


def move(
    name: str,
    *,
    on: str = "",
    never_lead: str = "",
    anywhere: Annotated[bool, Parameter(negative="")] = False,
    wait: bool = True,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Bring a group to exactly these hosts, member by member, and keep it there. No call fails.

    Members are placed on the named hosts first; the others go one by one once all named ones are in sync.

    Parameters
    ----------
    name
        The group's name.
    on
        The hosts, separated by commas.
    never_lead
        Those of them whose members hold and acknowledge, and are never primary; of the others, all may lead.
    anywhere
        Name no hosts any more: the manager chooses again, and moves nothing that is well placed.
    wait
        Wait until it is there, and show the progress; Ctrl-C ends the waiting, not the moving.
    output
        `table` for people, `json` for machines.
    """
    if bool(on) == anywhere:
        raise InvalidRequest("say either --on HOST,HOST,... or --anywhere")
    order = MoveGroup(name=name, hosts=hosts_in(on), never_lead=hosts_in(never_lead), nonce=fresh_nonce())
    info = uvloop.run(_moved(at.target, order, wait=wait))
    if output == "json":
        print_json(info)
    return 0


async def _moved(target: Target, order: MoveGroup, *, wait: bool) -> GroupInfo:
    (info,) = (await give_at(target, order, GroupList)).groups
    said, said_at = "", time.monotonic()
    while True:
        if is_there(info, order):
            talk.print(f"{info.name}: {_standing(info)}; it is there", markup=False, soft_wrap=True)
            return info
        if not wait:
            talk.print(f"{info.name}: {_standing(info)}", markup=False, soft_wrap=True)
            return info
        try:
            found = await give_at(target, ExplainGroup(name=order.name), GroupExplained)
        except HoldfastError as error:
            says = str(error)
        else:
            info = found.group
            says = "; ".join((_standing(info), *found.manager_says))
        if says != said:
            said, said_at = says, time.monotonic()
            talk.print(f"{order.name}: {says}", markup=False, soft_wrap=True)
        elif time.monotonic() - said_at > WAIT_S:
            raise Unavailable(
                f"{order.name} made no progress for {WAIT_S:g} s: {says}; it goes on, and "
                f"`holdfast explain {order.name}` says how far it is"
            )
        await asyncio.sleep(POLL_S)


def is_there(info: GroupInfo, order: MoveGroup) -> bool:
    """Whether the group is as ordered: where no hosts are named, any place will do."""
    if not order.hosts:
        return not info.named and not info.leaving
    is_placed = sorted(info.placed_on) == sorted(order.hosts) and not info.leaving
    is_whole = set(order.hosts) <= set(info.in_sync) and len(info.in_sync) == len(order.hosts)
    return is_placed and is_whole and sorted(info.never_lead) == sorted(order.never_lead)


def _standing(info: GroupInfo) -> str:
    parts = [f"in sync {', '.join(info.in_sync)}"]
    learning = [host for host in info.placed_on if host not in info.in_sync]
    if learning:
        parts.append(f"catching up {', '.join(learning)}")
    if info.leaving:
        parts.append(f"leaving {', '.join(info.leaving)}")
    return "; ".join(parts)
