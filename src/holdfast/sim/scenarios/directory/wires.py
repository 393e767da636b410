"""Connections between masters: of each pair the first by name connects."""

from collections.abc import Callable

from holdfast.directory.replication.messages import Message, decode_message, encode_message
from holdfast.sim.engine.connections import OPENED, Acceptor, Connector, Packet, Stream
from holdfast.sim.engine.node import NodePorts


class Wires:
    """The Links port of one process."""

    def __init__(
        self,
        ports: NodePorts,
        peers: tuple[str, ...],
        *,
        on_up: Callable[[str], None],
        on_down: Callable[[str], None],
        on_message: Callable[[str, Message], None],
    ) -> None:
        self._on_up, self._on_down, self._on_message = on_up, on_down, on_message
        self._streams: dict[str, Stream] = {}
        """The last connection of each peer that connected here."""
        self._acceptor = Acceptor(ports, self._accepted)
        self._connector = Connector(
            ports,
            tuple(each for each in peers if ports.name < each),
            on_up=on_up,
            on_down=on_down,
            on_body=lambda peer, body: on_message(peer, decode_message(body)),
        )

    def on_packet(self, peer: str, packet: Packet) -> None:
        if packet.kind == OPENED or packet.is_answer:
            self._connector.on_packet(peer, packet)
        else:
            self._acceptor.on_packet(peer, packet)

    def _accepted(self, stream: Stream, body: bytes) -> None:
        if self._streams.get(stream.peer) is not stream:
            known = self._streams.get(stream.peer)
            if known is not None and _number(known) > _number(stream):
                return  # late words of an earlier connection
            self._streams[stream.peer] = stream
            self._on_up(stream.peer)
        self._on_message(stream.peer, decode_message(body))

    def send(self, peer: str, message: Message) -> None:
        stream = self._streams.get(peer)
        if stream is None:
            self._connector.send(peer, encode_message(message))
        else:
            self._acceptor.send(stream, encode_message(message))

    def close(self, peer: str) -> None:
        stream = self._streams.get(peer)
        if stream is None:
            self._connector.end(peer)
        else:
            self._acceptor.end(stream)


def _number(stream: Stream) -> int:
    return int(stream.accepter.rpartition("/")[2])
