"""What lies between the socket and the session: nothing, or TLS. Both look the same to a connection.

A layer also notices a peer that speaks the other one. Such a peer can still be told so plainly, and a peer
that does not speak TLS can still tell us, instead of both seeing a connection that breaks for no reason.
"""

from typing import Protocol

from holdfast.model.errors import HoldfastError
from holdfast.net.frame import FrameDecoder
from holdfast.net.handshake import HANDSHAKE_BYTES_MAX, CertifiedName, read_goodbye
from holdfast.net.kind import Kind
from holdfast.net.reason import Reason, Why
from holdfast.net.tls import Tls, TlsFailed, TlsPipe, looks_like_tls

Bytes = bytes | bytearray


class LayerFailed(HoldfastError):
    """Raised when a layer cannot go on: the connection is over. ``take_output`` may still have an alert."""

    code = "layer_failed"

    def __init__(self, reason: Reason, *, tell_plainly: bool = False) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.tell_plainly = tell_plainly
        """The peer would understand a Goodbye outside of this layer."""


class Layer(Protocol):
    is_ready: bool
    """Plain bytes can be sent, and ``peer`` asked."""

    def begin(self) -> None:
        """The socket is connected; there may be output afterwards."""
        ...

    def receive(self, data: bytes) -> bytes:
        """The plain bytes in what the socket brought. Raises ``LayerFailed``."""
        ...

    def wrap(self, plain: Bytes) -> Bytes:
        """What to write to the socket to send *plain*, other output included."""
        ...

    def take_output(self) -> bytes:
        """What the layer itself must write to the socket now: drains."""
        ...

    def peer(self) -> CertifiedName | None:
        """Whom the peer's certificate names, where there is one. Raises ``LayerFailed``."""
        ...

    def close(self) -> None:
        """Nothing more will be sent; there may be output afterwards."""
        ...


def layer_for(tls: Tls | None, *, is_connector: bool) -> Layer:
    return PlainLayer() if tls is None else TlsLayer(tls, is_connector=is_connector)


class PlainLayer:
    """No layer at all, but for a look at the first byte."""

    def __init__(self) -> None:
        self.is_ready = True
        self._is_first = True

    def begin(self) -> None:
        return None

    def receive(self, data: bytes) -> bytes:
        if self._is_first and looks_like_tls(data[0]):
            raise LayerFailed(Reason(Why.TLS, "this port does not speak TLS"), tell_plainly=True)
        self._is_first = False
        return data

    def wrap(self, plain: Bytes) -> Bytes:
        return plain

    def take_output(self) -> bytes:
        return b""

    def peer(self) -> CertifiedName | None:
        return None

    def close(self) -> None:
        return None


class TlsLayer:
    """Mutual TLS."""

    def __init__(self, tls: Tls, *, is_connector: bool) -> None:
        self._pipe = TlsPipe(tls.connector if is_connector else tls.acceptor, is_connector=is_connector)
        self._is_connector = is_connector
        self._is_first = True
        self.is_ready = False

    def begin(self) -> None:
        if self._is_connector:
            self._pipe.begin()

    def receive(self, data: bytes) -> bytes:
        if self._is_first and not looks_like_tls(data[0]):
            raise self._plain_peer(data)
        self._is_first = False
        try:
            plain = self._pipe.receive(data)
        except TlsFailed as failure:
            raise LayerFailed(Reason(Why.TLS, str(failure))) from failure
        self.is_ready = self._pipe.is_ready
        return plain

    def wrap(self, plain: Bytes) -> Bytes:
        if plain:
            self._pipe.send(plain)
        return self._pipe.take_output()

    def take_output(self) -> bytes:
        return self._pipe.take_output()

    def peer(self) -> CertifiedName | None:
        try:
            return self._pipe.peer()
        except TlsFailed as failure:
            raise LayerFailed(Reason(Why.TLS, str(failure))) from failure

    def close(self) -> None:
        self._pipe.close()

    def _plain_peer(self, data: bytes) -> LayerFailed:
        if not self._is_connector:
            return LayerFailed(Reason(Why.TLS, "this port requires TLS"), tell_plainly=True)
        decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
        decoder.feed(data)
        frame = decoder.take_one()
        if frame is not None and frame[0] is Kind.GOODBYE:
            return LayerFailed(read_goodbye(frame[1]))
        return LayerFailed(Reason(Why.TLS, "the peer does not speak TLS"))
