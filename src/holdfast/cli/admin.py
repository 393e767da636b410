"""Gives orders about groups of a domain on this machine, for the commands."""

from collections.abc import Sequence
from typing import TypeVar

from holdfast.agent.status_client import address_of, addresses_of, admin_of
from holdfast.cli.output import talk
from holdfast.client.admin_client import AboutGroups, give, order
from holdfast.model.admin.groups import Answer, CreateGroup, GroupInfo, ListGroups, Order
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout

Given = TypeVar("Given", bound=Answer)


async def order_at(layout: Layout, wanted: AboutGroups) -> tuple[GroupInfo, ...]:
    """Have *wanted* executed by a host of the domain in *layout*."""
    description = layout.read()
    return await order(await addresses_of(layout, description), admin_of(layout, description), wanted)


async def give_at(layout: Layout, wanted: Order, kind: type[Given], *, host: HostId | None = None) -> Given:
    """Have *wanted* executed by *host*, or by any host. Raises ``InvalidRequest`` if there is no such host,
    ``Unavailable`` if it is not alive."""
    description = layout.read()
    if host is None:
        addresses = await addresses_of(layout, description)
    else:
        addresses = [await address_of(layout, description, check_host(layout, host))]
    return await give(addresses, admin_of(layout, description), wanted, kind)


async def ensure_groups(layout: Layout, wanted: Sequence[CreateGroup]) -> None:
    """Create the groups that do not exist yet, and print the command that shows one surviving a kill."""
    known = [each.name for each in await order_at(layout, ListGroups())] if wanted else []
    for each in wanted:
        if each.name not in known:
            await order_at(layout, each)
        talk.print(f"group {each.name} ({each.class_name}); kill its primary and see it survive:")
        talk.print(f"  holdfast chaos kill-primary {each.name}{here(layout)}", markup=False, soft_wrap=True)


def here(layout: Layout) -> str:
    """The option that makes a command refer to this domain; empty if it is the default one."""
    return "" if layout.directory == DIRECTORY_DEFAULT.absolute() else f" --dir {layout.directory}"


def check_host(layout: Layout, host: str) -> HostId:
    """*host*, if the domain has it on this machine. Raises ``InvalidRequest``."""
    hosts = layout.read().hosts
    if host not in hosts:
        raise InvalidRequest(f"there is no host {host!r} here; these are: {', '.join(hosts)}")
    return HostId(host)
