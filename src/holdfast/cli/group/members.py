"""`holdfast group add-member | remove-member | set-primary | sends`: its members and unsent calls."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import uvloop

from holdfast.calling.config import CallPolicy
from holdfast.cli.admin import connect_at, give_at, order_at
from holdfast.cli.output import Output, print_json, print_table, say, talk
from holdfast.cli.where import HERE, Target, Where
from holdfast.client.admin_client import AboutGroups
from holdfast.execution.sends import LIST_QUERY
from holdfast.model.admin.groups import AddMember, GroupInfo, HandedOver, ListGroups, RemoveMember, SetPrimary
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, HostId

WAIT_S: Final = 60.0
POLL_S: Final = 0.1


def add_member(
    name: str,
    host: str,
    *,
    own: str = "",
    wait: bool = True,
    at: Where = HERE,
    output: Output = "table",
) -> int:
    """Add a member of a group on another host.

    Parameters
    ----------
    name
        The group's name.
    host
        Where the member is to be.
    own
        The object there that the application made itself, as package.module:name; without it, one is created.
    wait
        Wait until it has caught up and is in sync, a minute at most.
    output
        `table` for people, `json` for machines.
    """
    wanted = AddMember(name=name, host=HostId(host), own=own)
    what = f"{host} has not caught up with {name}"
    return _changed(at, wanted, what, lambda info: host in info.in_sync, wait=wait, output=output)


def remove_member(
    name: str, host: str, *, wait: bool = True, at: Where = HERE, output: Output = "table"
) -> int:
    """Remove the member of a group on a host; a primary hands over first, and no call fails.

    Parameters
    ----------
    name
        The group's name.
    host
        Where the member is.
    wait
        Wait until it has left and its data is deleted, a minute at most.
    output
        `table` for people, `json` for machines.
    """
    wanted = RemoveMember(name=name, host=HostId(host))
    what = f"{host} has not left {name}"
    return _changed(at, wanted, what, lambda info: host not in info.leaving, wait=wait, output=output)


def set_primary(name: str, host: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Make an in-sync member primary, without a failed call: to empty a machine, or to move load.

    Parameters
    ----------
    name
        The group's name.
    host
        The host that is to be primary.
    output
        `table` for people, `json` for machines.
    """
    return primary_set(SetPrimary(name=name, host=HostId(host)), at, output)


def primary_set(wanted: SetPrimary, at: Where, output: Output) -> int:
    """Set the primary, and print how long it took."""
    done = uvloop.run(give_at(at.target, wanted, HandedOver))
    if output == "json":
        print_json({"group": done.group, "took_ms": done.took_ms})
    else:
        said = f"{wanted.host} is the primary of {wanted.name}, {done.took_ms:.1f} ms after the order"
        talk.print(said, markup=False)
    return 0


def _changed(
    at: Where,
    wanted: AboutGroups,
    what: str,
    holds: Callable[[GroupInfo], bool],
    *,
    wait: bool,
    output: Output,
) -> int:
    info = uvloop.run(_change(at.target, wanted, what, holds if wait else None))
    if output == "json":
        print_json(info)
        return 0
    parts = [f"{info.name}: members on {', '.join(info.placed_on)}", f"in sync {', '.join(info.in_sync)}"]
    if info.leaving:
        parts.append(f"leaving {', '.join(info.leaving)}")
    talk.print("; ".join(parts), markup=False)
    return 0


async def _change(
    target: Target, wanted: AboutGroups, what: str, holds: Callable[[GroupInfo], bool] | None
) -> GroupInfo:
    """Give the order; with *holds*, wait until that is true."""
    (info,) = await order_at(target, wanted)
    deadline = time.monotonic() + WAIT_S
    while holds is not None and not holds(info):
        if time.monotonic() > deadline:
            raise Unavailable(f"{what} within {WAIT_S:g} s; `holdfast group show {info.name}` says how far")
        await asyncio.sleep(POLL_S)
        (info,) = await order_at(target, ListGroups(name=info.name))
    return info


SENDS_WAIT_S = 10


def sends(name: str, *, at: Where = HERE, output: Output = "table") -> int:
    """Show the calls that a group has still to send, and the latest that failed.

    Parameters
    ----------
    name
        Its name.
    output
        `table` for people, `json` for machines.
    """
    found = uvloop.run(_ask(at.target, name))
    if output == "json":
        print_json(found)
        return 0
    say(f"{name}: {found['waiting_count']} to send, {found['failures']} came to nothing")
    if found["waiting"]:
        rows = [(str(each["number"]), _call(each), _time(each["expires_ns"])) for each in found["waiting"]]
        print_table(("number", "to send", "expires"), rows)
    if found["failed"]:
        rows = [
            (str(each["number"]), _call(each), f"{_time(each['ended_ns'])} {each['code']}: {each['text']}")
            for each in found["failed"]
        ]
        print_table(("number", "came to nothing", "why"), rows)
    return 0


async def _ask(target: Target, name: str) -> dict[str, Any]:
    policy = CallPolicy(duration_ns=SENDS_WAIT_S * SECOND)
    async with await connect_at(target, policy) as domain:
        group = await domain.group(name)
        found: dict[str, Any] = await group.call(LIST_QUERY)
        return found


def _call(each: dict[str, Any]) -> str:
    return f"{each['group']}.{each['method']}"


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / SECOND, UTC).isoformat(sep=" ", timespec="seconds")
