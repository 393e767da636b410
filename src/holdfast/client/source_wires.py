"""The ways of a source to the members: datagrams to each, one to all of them, or a connection to each."""

from collections.abc import Callable, Hashable
from typing import Final, Protocol

import msgspec

from holdfast.client.member_links import MemberLinks
from holdfast.model.admin.streams import StreamInfo
from holdfast.net import Address, Connection, ConnectionSettings, Kind, Reason
from holdfast.net.udp import Sender, UdpSocket, one_by_one, open_udp

MEMBERS_MAX: Final = 64
OnDatagram = Callable[[Hashable, bytes], None]


def address_of(text: str) -> Address:
    return Address.parse(text)


class Wire(Protocol):
    """How datagrams get to the members."""

    def set_members(self, info: StreamInfo) -> None: ...

    def send_all(self, data: bytes) -> None: ...

    def send_to(self, member: Hashable, data: bytes) -> None: ...

    async def close(self) -> None: ...


class UdpWire:
    """Each datagram is sent to every member."""

    def __init__(self, at: Address, on_datagram: OnDatagram) -> None:
        self._wire: UdpSocket = open_udp(at, one_by_one(on_datagram))
        self._members: tuple[Sender, ...] = ()

    def set_members(self, info: StreamInfo) -> None:
        found = [address_of(each.udp) for each in info.members if each.udp][:MEMBERS_MAX]
        self._members = tuple((each.host, each.port) for each in found)

    def send_all(self, data: bytes) -> None:
        for each in self._members:
            self._wire.send(each, data)

    def send_to(self, member: Hashable, data: bytes) -> None:
        self._wire.send(member, data)  # type: ignore[arg-type]  # where a datagram came from

    async def close(self) -> None:
        self._wire.close()


class MulticastWire(UdpWire):
    """Each datagram is sent once; what one member lacks is sent to it alone."""

    def __init__(self, at: Address, on_datagram: OnDatagram, group: str, interface: str, ttl: int) -> None:
        super().__init__(at, on_datagram)
        self._wire.multicast_on(interface, ttl)
        address = address_of(group)
        self._to = (address.host, address.port)

    def send_all(self, data: bytes) -> None:
        self._wire.send(self._to, data)


class TcpWire:
    """A connection to each member, made again when it breaks; what was lost with it is asked for."""

    def __init__(self, endpoint: ConnectionSettings, on_datagram: OnDatagram) -> None:
        self._on_datagram = on_datagram
        self._links = MemberLinks(endpoint, lambda member, connection: self)

    def set_members(self, info: StreamInfo) -> None:
        self._links.set_members([each.tcp for each in info.members if each.tcp][:MEMBERS_MAX])

    def send_all(self, data: bytes) -> None:
        for link in self._links:
            if link.connection is not None:
                link.send(Kind.STREAM, data)

    def send_to(self, member: Hashable, data: bytes) -> None:
        if isinstance(member, Connection):
            member.send(Kind.STREAM, data)

    async def close(self) -> None:
        await self._links.close()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        if kind is not Kind.STREAM:
            raise msgspec.ValidationError(f"a member sends no {kind.name} to a source")
        self._on_datagram(connection, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None
