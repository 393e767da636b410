"""Orders about groups of a domain on this machine, from the command line."""

from holdfast.client.ordering import order
from holdfast.model.orders import GroupInfo, Order
from holdfast.net import Endpoint, Identity, Role
from holdfast.node.layout import Layout
from holdfast.node.reaching import addresses_of


async def order_at(layout: Layout, wanted: Order) -> tuple[GroupInfo, ...]:
    """Have *wanted* done by a host of the domain in *layout*."""
    description = layout.read()
    endpoint = Endpoint(Identity(description.domain, Role.ADMIN, "cli"))
    return await order(await addresses_of(layout, description), endpoint, wanted)
