"""Orders about groups of a domain on this machine, from the command line."""

from collections.abc import Sequence

from holdfast.cli.output import talk
from holdfast.client.ordering import order
from holdfast.model.orders import CreateGroup, GroupInfo, ListGroups, Order
from holdfast.net import Endpoint, Identity, Role
from holdfast.node.layout import DIRECTORY_DEFAULT, Layout
from holdfast.node.reaching import addresses_of


async def order_at(layout: Layout, wanted: Order) -> tuple[GroupInfo, ...]:
    """Have *wanted* done by a host of the domain in *layout*."""
    description = layout.read()
    endpoint = Endpoint(Identity(description.domain, Role.ADMIN, "cli"))
    return await order(await addresses_of(layout, description), endpoint, wanted)


async def ensure_groups(layout: Layout, wanted: Sequence[CreateGroup]) -> None:
    """Create those that are not there, and say what to type to see one survive."""
    known = [each.name for each in await order_at(layout, ListGroups())] if wanted else []
    for each in wanted:
        if each.name not in known:
            await order_at(layout, each)
        here = "" if layout.directory == DIRECTORY_DEFAULT.absolute() else f" --dir {layout.directory}"
        talk.print(f"group {each.name} ({each.class_name}); kill its primary and see it survive:")
        talk.print(f"  holdfast chaos kill-primary {each.name}{here}", markup=False, soft_wrap=True)
