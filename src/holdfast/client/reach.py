"""The hosts of a domain, as one client reaches them: where it begins, and wherever they go from there."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from holdfast.calling.config import ClientConfig
from holdfast.calling.hosts import HostEvents, Hosts
from holdfast.calling.whereabouts import KnownHosts
from holdfast.client.ordering import Given, give
from holdfast.model.calls import FollowHosts, ToClient, Whereabouts
from holdfast.model.errors import Unavailable
from holdfast.model.ids import HostId
from holdfast.model.orders import Order
from holdfast.model.reference import Reference
from holdfast.net import Address, Endpoint


class Called(HostEvents, Protocol):
    """The groups that are called, which want to know what befalls the hosts."""

    def references(self) -> Iterable[Reference]: ...


class Reach:
    """Of one client, which begins at *addresses*. Nothing happens until :meth:`open`."""

    def __init__(
        self,
        endpoint: Endpoint,
        addresses: list[Address],
        called: Called,
        config: ClientConfig,
        *,
        insecure: bool,
    ) -> None:
        self._endpoint = endpoint
        self._given = addresses
        self._called = called
        self._config = config
        self._insecure = insecure
        self._known = KnownHosts()
        self._hosts: Hosts | None = None
        self._connected = asyncio.Event()
        self._is_keeping = False

    async def open(self, within_s: float) -> None:
        """Be connected from here on; returns when one host is. Raises ``Unavailable``."""
        self._hosts = Hosts(self._endpoint, self, self._config, insecure=self._insecure)
        self._hosts.keep(self._given)
        try:
            async with asyncio.timeout(within_s):
                await self._connected.wait()
        except TimeoutError:
            where = ", ".join(map(str, self._given))
            why = "; ".join(self._hosts.failures)
            said = f"none of {where} could be reached within {within_s:g} s"
            raise Unavailable(f"{said}: {why}" if why else said) from None

    async def close(self) -> None:
        """Hang up."""
        hosts, self._hosts = self._hosts, None
        if hosts is not None:
            await hosts.close()

    @property
    def hosts(self) -> Hosts:
        """The connections. Raises ``Unavailable`` when they are closed."""
        if self._hosts is None:
            raise _closed()
        return self._hosts

    async def give(self, wanted: Order, kind: type[Given]) -> Given:
        """Have an order done by any host that is known. Raises ``Unavailable`` when closed, and what the
        order comes to."""
        if self._hosts is None:
            raise _closed()
        addresses = list(dict.fromkeys(self._addresses()))
        return await give(addresses, self._endpoint, wanted, kind, insecure=self._insecure)

    def keep_connected_soon(self) -> None:
        """Be connected to every host, before it is needed: looked at once per turn, since a host that dies
        makes many groups move together."""
        if not self._is_keeping:
            self._is_keeping = True
            asyncio.get_running_loop().call_soon(self._keep_connected)

    def _keep_connected(self) -> None:
        self._is_keeping = False
        if self._hosts is not None:
            self._hosts.keep(self._addresses())

    def _addresses(self) -> list[Address]:
        known = self._known.addresses(self._called.references())
        return [*self._given, *map(Address.parse, known)]

    # --- events of the hosts

    def on_up(self, host: HostId) -> None:
        if self._hosts is None:
            return  # it came while the others were hung up
        self._connected.set()
        self._hosts.send(host, FollowHosts())
        self._called.on_up(host)

    def on_down(self, host: HostId) -> None:
        if self._hosts is None or not self._hosts.connected:
            self._connected.clear()
        self._called.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        if isinstance(message, Whereabouts):
            self._known.learn(message.hosts)
            self.keep_connected_soon()
        else:
            self._called.on_message(host, message)


def _closed() -> Unavailable:
    return Unavailable("the domain is closed: use it within `async with`")
