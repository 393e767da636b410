"""The services that hosts run: here, and nowhere else, is a service entered."""

from typing import Final

from holdfast.node.services import ServiceEntry
from holdfast.node.shipping_service import HANDSHAKES_MAX, MEMBERS_MAX, ShippingService
from holdfast.node.shipping_service import NAME as SHIPPING

SERVICES: Final[tuple[ServiceEntry, ...]] = (
    ServiceEntry(
        name=SHIPPING,
        role=None,
        make=ShippingService,
        files_max=MEMBERS_MAX + HANDSHAKES_MAX,
    ),
)
"""In the order in which they start."""
