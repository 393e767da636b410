"""The services that hosts run: here, and nowhere else, is a service entered."""

from typing import Final

from holdfast.net import Limits
from holdfast.node.services import ServiceEntry
from holdfast.node.shipping_service import NAME as SHIPPING
from holdfast.node.shipping_service import ShippingService

_LIMITS: Final = Limits()

SERVICES: Final[tuple[ServiceEntry, ...]] = (
    ServiceEntry(
        name=SHIPPING,
        role=None,
        make=ShippingService,
        files_max=_LIMITS.members_max + _LIMITS.handshakes_max,
    ),
)
"""In the order in which they start."""
