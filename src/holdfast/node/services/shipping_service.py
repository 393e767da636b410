"""Shipping as a service of a host: files between hosts, on a thread and connections of its own.

Every host runs it, because any host may hold or need the files of an object, of a directory or of an index
set. Others find where it listens in the host's session.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from holdfast.machine import MachineRandom
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId
from holdfast.net import Address, Kind, Limits
from holdfast.node.services.running import HostServices, ServiceContext
from holdfast.shipping.shipping_thread import ShippingSettings, ShippingThread

NAME: Final = "shipping"
"""The service's name, and under which the session says where it listens."""

MEMBERS_MAX: Final = 512
"""The most hosts that are connected at a time: each has one fetch at a time, and most have none."""
HANDSHAKES_MAX: Final = 256


def _bounded(limits: Limits) -> Limits:
    members, handshakes = min(limits.members_max, MEMBERS_MAX), min(limits.handshakes_max, HANDSHAKES_MAX)
    return msgspec.structs.replace(limits, members_max=members, handshakes_max=handshakes)


class ShippingService:
    """Implements :class:`.services.Service`. What others do with files goes through :attr:`thread`."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        random: Random = MachineRandom().stream(NAME)
        self.thread: Final = ShippingThread(
            ShippingSettings(
                directory=context.directory,
                connection=replace(context.endpoint, limits=_bounded(context.endpoint.limits)),
                where=partial(address_in, context),
                on_failed=context.on_disk_failed,
                listen_at=Address(context.listen_at.host, context.ports.shipping),
                config=context.config.shipping,
            ),
            context.trace,
            random=random,
        )

    @property
    def shelf(self) -> Path:
        return self._context.directory

    async def listen(self) -> Mapping[str, str]:
        address = await asyncio.to_thread(self.thread.listen)
        return {NAME: str(self._context.reached(address))}

    async def start(self) -> None:
        await asyncio.to_thread(self.thread.open)

    def on_frame(self, host: HostId, kind: Kind, payload: bytes) -> None:
        raise msgspec.ValidationError(f"files travel on connections of their own, not as {kind.name}")

    async def close(self) -> None:
        await asyncio.to_thread(self.thread.close)


def shipping_of(services: HostServices) -> tuple[ShippingThread, Path]:
    """The thread that ships files, and its shelf. Raises ``Unavailable``."""
    service = services.running(NAME)
    assert isinstance(service, ShippingService)
    return service.thread, service.shelf


def address_in(context: ServiceContext, host: HostId) -> Address | None:
    """Where that host's shipping listens, as its session says."""
    try:
        return Address.parse(context.detail_of(host, NAME))
    except InvalidRequest:
        return None  # it is not in session, or its shipping has failed
