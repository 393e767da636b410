"""The hosts that this host's groups call: it is a client of theirs, perhaps of itself."""

from collections.abc import Iterable
from dataclasses import replace

from holdfast.calling.config import ClientConfig
from holdfast.calling.hosts import HostEvents, Hosts
from holdfast.model.calls import ToClient
from holdfast.model.ids import HostId
from holdfast.net import Address, Endpoint, Expected, Role


class HostCallees:
    """The :class:`holdfast.housing.ports.Callees` of a process. Set ``events`` before anything is called."""

    events: HostEvents

    def __init__(self, endpoint: Endpoint, config: ClientConfig) -> None:
        endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        self._hosts = Hosts(endpoint, self, config, insecure=False)

    @property
    def connected(self) -> list[HostId]:
        return self._hosts.connected

    def send(self, peer: str, message: object) -> None:
        self._hosts.send(peer, message)

    def keep(self, addresses: Iterable[str]) -> None:
        self._hosts.keep(Address.parse(each) for each in addresses)

    async def close(self) -> None:
        await self._hosts.close()

    def on_up(self, host: HostId) -> None:
        self.events.on_up(host)

    def on_down(self, host: HostId) -> None:
        self.events.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        self.events.on_message(host, message)
