"""Where the hosts of a domain on this machine are reached, by its directory."""

from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.net import Address
from holdfast.node.asking import status_of
from holdfast.node.layout import Description, Layout


async def addresses_of(layout: Layout, description: Description) -> list[Address]:
    """Of the hosts that live. Raises ``Unavailable`` when none does."""
    status = await status_of(layout, description)
    found = [host.address for host in status.hosts if host.alive and host.address is not None]
    if not found:
        raise Unavailable(
            f"no host of {layout.directory} lives; `holdfast status --dir {layout.directory}` says why, "
            f"`holdfast up --dir {layout.directory}` starts them"
        )
    return [Address.parse(each) for each in found]


async def address_of(layout: Layout, description: Description, host: HostId) -> Address:
    """Of that host. Raises ``Unavailable`` when it does not live."""
    status = await status_of(layout, description)
    (found,) = (each for each in status.hosts if each.id == host)
    if not found.alive or found.address is None:
        raise Unavailable(f"{host} does not live now ({found.state}); `holdfast status` shows when it does")
    return Address.parse(found.address)


async def url_of(layout: Layout, description: Description) -> str:
    """What a client connects to. Raises ``Unavailable`` when no host lives."""
    addresses = await addresses_of(layout, description)
    return f"holdfast://{','.join(map(str, addresses))}/{description.domain}"
