"""What stands between a connection's socket and its session: nothing, or TLS.

A :class:`Layer` is either plain or TLS, and both look the same to a connection. A layer also notices a peer
that speaks the other one. That peer can still be told so in plain text, and a peer that does not speak TLS
can tell us, instead of both seeing a connection that breaks for no reason.

:class:`TlsLayer` runs TLS inside our own protocol instead of the event loop's TLS transport, so that a failed
TLS handshake has a reason like every other end of a connection and falls under the same limits. One call of a
group passes through it a dozen times, each time in a process that has just been woken: what counts is how
little is done per record. What is written at once is one record (up to its limit), reading it takes one call
of OpenSSL, and no exception says that there is no more. A test counts all three.
"""

import contextlib
import ssl
from typing import Any, Final, Protocol

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import HoldfastError
from holdfast.net.frame import FrameDecoder, Kind, Reason, Why
from holdfast.net.handshake import HANDSHAKE_BYTES_MAX, CertifiedName, read_goodbye
from holdfast.net.tls import Tls, parse_certificate_uri

RECORD_BYTES_MAX: Final = 16 * 1024
"""The most plain bytes that a record of TLS holds. A read that asks for as many leaves nothing of the record
behind."""
RECORD_TYPES: Final = range(0x14, 0x18)
"""The first bytes of TLS records; no Holdfast frame begins with one (:data:`.frame.FRAME_BYTES_LIMIT`)."""

Bytes = bytes | bytearray

log = LibraryLog("holdfast.net")


class LayerFailed(HoldfastError):
    """Raised when a layer fails and the connection is over. ``take_output`` may still have an alert."""

    code = "layer_failed"

    def __init__(self, reason: Reason, *, plain_goodbye: bool = False) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.plain_goodbye = plain_goodbye
        """The peer would understand a Goodbye sent outside this layer."""


class Layer(Protocol):
    """The bytes between a socket and a session: passed through unchanged, or encrypted with TLS."""

    is_ready: bool
    """Plain bytes can be sent, and ``peer`` is known."""

    def begin(self) -> None:
        """Begin when the socket is connected; there may be output afterwards."""
        ...

    def receive(self, data: bytes) -> bytes:
        """The plain bytes in what the socket received. Raises ``LayerFailed``."""
        ...

    def wrap(self, plain: Bytes) -> Bytes:
        """The bytes to write to the socket to send *plain*, including other output."""
        ...

    def take_output(self) -> bytes:
        """Return and clear the bytes that the layer itself must write to the socket now."""
        ...

    def peer(self) -> CertifiedName | None:
        """The name in the peer's certificate, if there is one. Raises ``LayerFailed``."""
        ...

    def close(self) -> None:
        """Say that nothing more will be sent; there may be output afterwards."""
        ...


def layer_for(tls: Tls | None, *, is_connector: bool) -> Layer:
    return PlainLayer() if tls is None else TlsLayer(tls, is_connector=is_connector)


class PlainLayer:
    """Passes bytes through unchanged and only checks the first one."""

    def __init__(self) -> None:
        self.is_ready = True
        self._is_first = True

    def begin(self) -> None:
        return None

    def receive(self, data: bytes) -> bytes:
        if self._is_first and data[0] in RECORD_TYPES:
            raise LayerFailed(Reason(Why.TLS, "this port does not speak TLS"), plain_goodbye=True)
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
    """Encrypts with mutual TLS."""

    def __init__(self, tls: Tls, *, is_connector: bool) -> None:
        context = tls.connector if is_connector else tls.acceptor
        self._from_wire, self._to_wire = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_wire, self._to_wire, server_side=not is_connector)
        # Bound once: they are called for every record.
        self._put_received, self._decrypt = self._from_wire.write, self._tls.read
        self._encrypt, self.take_output = self._tls.write, self._to_wire.read
        self._is_connector = is_connector
        self._is_first = True
        self.is_ready = False

    def begin(self) -> None:
        if self._is_connector:
            self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        self._put_received(data)
        if not self.is_ready and not self._becomes_ready(data):
            return b""
        try:
            plain = self._decrypt(RECORD_BYTES_MAX)
            # Nearly always that was all. Asking for another record would raise, which costs as much as one.
            return plain + self._decrypt_rest() if plain and self._from_wire.pending else plain
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise _failed(error) from error

    def wrap(self, plain: Bytes) -> Bytes:
        try:
            if plain:
                self._encrypt(plain)
        except ssl.SSLError as error:
            log.debug("nothing can be sent any more", why=str(error))  # ``receive`` has reported that
        return self.take_output()

    def peer(self) -> CertifiedName | None:
        certificate: dict[str, Any] = dict(self._tls.getpeercert() or {})
        uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
        name = parse_certificate_uri(uris[0]) if len(uris) == 1 else None
        if name is None:
            raise LayerFailed(Reason(Why.TLS, "the peer's certificate names no Holdfast role and id"))
        return name

    def close(self) -> None:
        if self.is_ready:
            # unwrap raises while the peer's own close has not arrived; we do not wait for it.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()

    def _decrypt_rest(self) -> bytes:
        records: list[bytes] = []
        try:
            while self._from_wire.pending and (plain := self._decrypt(RECORD_BYTES_MAX)):
                records.append(plain)
        except ssl.SSLWantReadError:
            pass  # the last one is not here as a whole
        return b"".join(records)

    def _becomes_ready(self, data: bytes) -> bool:
        if self._is_first and data[0] not in RECORD_TYPES:
            raise self._plain_peer(data)
        self._is_first = False
        self._shake_hands()
        return self.is_ready

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise _failed(error) from error
        self.is_ready = True

    def _plain_peer(self, data: bytes) -> LayerFailed:
        if not self._is_connector:
            return LayerFailed(Reason(Why.TLS, "this port requires TLS"), plain_goodbye=True)
        decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
        decoder.feed(data)
        frame = decoder.take_one()
        if frame is not None and frame[0] is Kind.GOODBYE:
            return LayerFailed(read_goodbye(frame[1]))
        return LayerFailed(Reason(Why.TLS, "the peer does not speak TLS"))


_EXPLANATIONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the peer sent no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the peer demands a certificate",
    "TLSV1_ALERT_UNKNOWN_CA": "the peer does not trust the authority that signed our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the peer says that our certificate has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the peer refuses our certificate",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the peer does not speak TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "the peer does not speak TLS 1.3",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS",
}


def _failed(error: ssl.SSLError) -> LayerFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        said = f"the peer's certificate is refused: {error.verify_message}"
    else:
        # Where we have no better text, use OpenSSL's; some errors have no reason.
        said = _EXPLANATIONS.get(error.reason or "", str(error))
    return LayerFailed(Reason(Why.TLS, said))
