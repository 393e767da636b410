"""The services that hosts run: here, and nowhere else, is a service entered.

What only some hosts run is imported by those alone: a host for groups has no use for a directory's tables.
"""

from importlib import import_module
from typing import Final

from holdfast.model.host_roles import DIRECTORY
from holdfast.node.services.running import Service, ServiceContext, ServiceEntry
from holdfast.node.services.shipping_service import HANDSHAKES_MAX, MEMBERS_MAX, ShippingService
from holdfast.node.services.shipping_service import NAME as SHIPPING


def _directory(context: ServiceContext) -> Service:
    made: Service = import_module("holdfast.node.services.directory_service").DirectoryService(context)
    return made


SERVICES: Final[tuple[ServiceEntry, ...]] = (
    ServiceEntry(
        name=SHIPPING,
        role=None,
        make=ShippingService,
        files_max=MEMBERS_MAX + HANDSHAKES_MAX,
    ),
    ServiceEntry(
        name=DIRECTORY,
        role=DIRECTORY,
        make=_directory,
        files_max=640,  # masters and people, connected and connecting, and the store's files
    ),
)
"""In the order in which they start."""
