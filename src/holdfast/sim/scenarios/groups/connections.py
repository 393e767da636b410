"""The connections of a caller of groups: a client, or a host on behalf of its groups."""

from collections.abc import Callable, Iterable

from holdfast.calling.client_heartbeats import ClientHeartbeats
from holdfast.calling.config import ClientConfig
from holdfast.model.calls import Pong, ToClient, decode_to_client, encode_message
from holdfast.model.ids import HostId
from holdfast.sim.engine.connections import Connector, Packet
from holdfast.sim.engine.node import NodePorts


class Connections:
    """One connection to each named host; it is reopened when it ends, and heartbeats give up silent hosts.

    This is the Network port of :mod:`holdfast.calling`, and the Callees of :mod:`holdfast.groups`.
    """

    def __init__(
        self,
        ports: NodePorts,
        config: ClientConfig,
        hosts: tuple[str, ...],
        *,
        on_up: Callable[[HostId], None],
        on_down: Callable[[HostId], None],
        on_message: Callable[[HostId, ToClient], None],
    ) -> None:
        self._connected: dict[HostId, None] = {}
        self._tell_up, self._tell_down, self._tell = on_up, on_down, on_message
        self._heartbeats = ClientHeartbeats(
            clock=ports.clock,
            timers=ports.timers,
            network=self,
            give_up=lambda host: self._connector.end(host),
            interval_ns=config.heartbeat_interval_ns,
            timeout_ns=config.heartbeat_timeout_ns,
        )
        self._connector = Connector(
            ports, hosts, on_up=self._on_up, on_down=self._on_down, on_body=self._on_body
        )

    @property
    def connected(self) -> list[HostId]:
        return list(self._connected)

    def keep(self, addresses: Iterable[str]) -> None:
        """Keep connections to these addresses only."""
        self._connector.keep(tuple(dict.fromkeys(each.partition(":")[0] for each in addresses)))

    def send(self, peer: str, message: object) -> None:
        self._connector.send(peer, encode_message(message))  # type: ignore[arg-type]  # cores send these

    def on_packet(self, host: str, packet: Packet) -> None:
        self._connector.on_packet(host, packet)

    def _on_up(self, name: str) -> None:
        host = HostId(name)
        self._connected[host] = None
        self._heartbeats.on_connected(host)
        self._tell_up(host)

    def _on_down(self, name: str) -> None:
        host = HostId(name)
        self._connected.pop(host, None)
        self._heartbeats.on_disconnected(host)
        self._tell_down(host)

    def _on_body(self, name: str, body: bytes) -> None:
        host, message = HostId(name), decode_to_client(body)
        self._heartbeats.on_heard(host)
        if not isinstance(message, Pong):
            self._tell(host, message)
