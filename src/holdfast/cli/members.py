"""`holdfast group add-member | remove-member | set-primary`: where a group has its members."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import uvloop

from holdfast.cli.domain import Dir
from holdfast.cli.ordering import give_at, order_at
from holdfast.cli.output import Output, print_json, talk
from holdfast.client.ordering import AboutGroups
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.model.orders import AddMember, GroupInfo, HandedOver, ListGroups, RemoveMember, SetPrimary
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

WAIT_S: Final = 60.0
POLL_S: Final = 0.1


def add_member(
    name: str,
    host: str,
    *,
    own: str = "",
    wait: bool = True,
    dir: Dir = DIRECTORY_DEFAULT,
    output: Output = "table",
) -> int:
    """Let a group have a member on another host.

    Parameters
    ----------
    name
        The group's name.
    host
        Where it shall have a member.
    own
        The object there that the application made itself, as package.module:name; without, one is made.
    wait
        Until it has caught up and is in sync, a minute at most.
    output
        `table` for people, `json` for machines.
    """
    wanted = AddMember(name=name, host=HostId(host), own=own)
    what = f"{host} has not caught up with {name}"
    return _changed(dir, wanted, what, lambda info: host in info.in_sync, wait=wait, output=output)


def remove_member(
    name: str, host: str, *, wait: bool = True, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table"
) -> int:
    """Let a group have no member on a host; a primary hands over first, and no call fails.

    Parameters
    ----------
    name
        The group's name.
    host
        Where it shall have none.
    wait
        Until it has left and forgotten what it held, a minute at most.
    output
        `table` for people, `json` for machines.
    """
    wanted = RemoveMember(name=name, host=HostId(host))
    what = f"{host} has not left {name}"
    return _changed(dir, wanted, what, lambda info: host not in info.leaving, wait=wait, output=output)


def set_primary(name: str, host: str, *, dir: Dir = DIRECTORY_DEFAULT, output: Output = "table") -> int:
    """Let an in-sync member be primary, without a failed call: to empty a machine, or to move load.

    Parameters
    ----------
    name
        The group's name.
    host
        The host that shall be primary.
    output
        `table` for people, `json` for machines.
    """
    return primary_set(SetPrimary(name=name, host=HostId(host)), dir, output)


def primary_set(wanted: SetPrimary, dir: Dir, output: Output) -> int:
    """Have it done, and say so."""
    done = uvloop.run(give_at(Layout(dir), wanted, HandedOver))
    if output == "json":
        print_json({"group": done.group, "took_ms": done.took_ms})
    else:
        said = f"{wanted.host} is the primary of {wanted.name}, {done.took_ms:.1f} ms after the order"
        talk.print(said, markup=False)
    return 0


def _changed(
    dir: Dir,
    wanted: AboutGroups,
    what: str,
    holds: Callable[[GroupInfo], bool],
    *,
    wait: bool,
    output: Output,
) -> int:
    info = uvloop.run(_change(Layout(dir), wanted, what, holds if wait else None))
    if output == "json":
        print_json(info)
        return 0
    parts = [f"{info.name}: members on {', '.join(info.placed_on)}", f"in sync {', '.join(info.in_sync)}"]
    if info.leaving:
        parts.append(f"leaving {', '.join(info.leaving)}")
    talk.print("; ".join(parts), markup=False)
    return 0


async def _change(
    layout: Layout, wanted: AboutGroups, what: str, holds: Callable[[GroupInfo], bool] | None
) -> GroupInfo:
    """Have it done; *holds*: wait until that is so."""
    (info,) = await order_at(layout, wanted)
    deadline = time.monotonic() + WAIT_S
    while holds is not None and not holds(info):
        if time.monotonic() > deadline:
            raise Unavailable(f"{what} within {WAIT_S:g} s; `holdfast group show {info.name}` says how far")
        await asyncio.sleep(POLL_S)
        (info,) = await order_at(layout, ListGroups(name=info.name))
    return info
