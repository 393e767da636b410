"""The hosts that this host's groups call, in its own domain and in others: it is a client of theirs."""

from collections.abc import Iterable
from dataclasses import replace

from holdfast.calling.config import ClientConfig
from holdfast.calling.hosts import HostEvents, Hosts
from holdfast.model.abroad import OtherDomain
from holdfast.model.calls import ToClient
from holdfast.model.ids import HostId
from holdfast.net import Address, Endpoint, Expected, Identity, Role
from holdfast.net.handshake import NAME_CHARACTERS_MAX


class HostCallees:
    """The :class:`holdfast.housing.ports.Callees` of a process. Set ``events`` before anything is called."""

    events: HostEvents

    def __init__(self, endpoint: Endpoint, config: ClientConfig) -> None:
        endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        self._me = endpoint.identity
        self._config = config
        self._hosts = Hosts(endpoint, self, config, insecure=False)
        self._abroad: list[HostCallees] = []

    @property
    def connected(self) -> list[HostId]:
        return self._hosts.connected

    def send(self, peer: str, message: object) -> None:
        self._hosts.send(peer, message)

    def keep(self, addresses: Iterable[str]) -> None:
        self._hosts.keep(Address.parse(each) for each in addresses)

    def abroad(self, other: OtherDomain, events: HostEvents) -> "HostCallees":
        """The hosts of another domain, of which this host is a client. On loopback alone: it has no
        certificate by which another domain would know it. Raises ``InvalidRequest`` for what is no
        address."""
        for each in other.addresses:
            Address.parse(each)
        name = f"{self._me.domain}.{self._me.id}"[:NAME_CHARACTERS_MAX]
        made = HostCallees(Endpoint(Identity(other.name, Role.CLIENT, name)), self._config)
        made.events = events
        self._abroad.append(made)
        return made

    async def close(self) -> None:
        for each in self._abroad:
            await each.close()
        await self._hosts.close()

    def on_up(self, host: HostId) -> None:
        self.events.on_up(host)

    def on_down(self, host: HostId) -> None:
        self.events.on_down(host)

    def on_message(self, host: HostId, message: ToClient) -> None:
        self.events.on_message(host, message)
