"""Mutual TLS 1.3, and the layers between socket and session.

:class:`Tls` loads its contexts from a directory of certificates, and loads them again when the files are
replaced, so that nobody has to restart anything before a certificate expires. A peer is known by the name in
its certificate (role and id), never by its address. :class:`TlsPipe` runs TLS inside our own protocol instead
of the event loop's TLS transport, so that a failed TLS handshake has a reason like every other end of a
connection and falls under the same limits.

A :class:`Layer` is either plain or TLS, and both look the same to a connection. A layer also notices a peer
that speaks the other one. That peer can still be told so in plain text, and a peer that does not speak TLS
can tell us, instead of both seeing a connection that breaks for no reason.
"""

import contextlib
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, quote, urlsplit

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import HoldfastError, InvalidRequest
from holdfast.net.frame import FrameDecoder, Kind, Reason, Why
from holdfast.net.handshake import (
    HANDSHAKE_BYTES_MAX,
    CertifiedName,
    Role,
    read_goodbye,
)

URI_SCHEME: Final = "holdfast"
CA_FILE: Final = "ca.pem"
RECORD_BYTES_MAX: Final = 16 * 1024
"""The most plain bytes that a record of TLS holds."""
RECORD_TYPES: Final = range(0x14, 0x18)
"""The first bytes of TLS records; no Holdfast frame begins with one (:data:`.frame.FRAME_BYTES_LIMIT`)."""


LOCATION: Final = "location"
"""The key of a host's location in the URI of its certificate."""

log = LibraryLog("holdfast.net")


class TlsFailed(HoldfastError):
    """Raised when the TLS layer of a connection fails; the connection is over."""

    code = "tls_failed"


@dataclass(frozen=True, slots=True)
class Rotation:
    """How soon replaced certificates are used."""

    look_s: float = 1.0
    """How often at most the files are looked at. A look is cheap, and new connections come often."""
    renew_s: float = 5.0
    """How often connections are compared with the certificates in use. The end that connected, if its files
    were replaced, connects again within so much time."""
    outdated_s: float = 30.0
    """After so much time the accepting end closes what was accepted with files that have been replaced. It is
    longer than any order takes, whose sender would not know what became of it."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The three files of one process: whom it trusts, its certificate and its key."""

    directory: Path
    name: str

    @property
    def paths(self) -> tuple[Path, Path, Path]:
        return (
            self.directory / CA_FILE,
            self.directory / f"{self.name}.pem",
            self.directory / f"{self.name}.key",
        )

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """A value that differs once a file was replaced; empty while one is missing."""
        try:
            found = [file.stat() for file in self.paths]
        except OSError:
            return ()
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)


class Tls:
    """One process's certificate, for both ends of connections. May be used from several threads.

    New connections use the newest files. If those cannot be used (the key is there and its certificate is not
    yet, say), the last ones stay in use and the log says so.
    """

    def __init__(
        self,
        connector: ssl.SSLContext,
        acceptor: ssl.SSLContext,
        files: TlsFiles | None = None,
        rotation: Rotation | None = None,
    ) -> None:
        """Without *files*, the contexts stay what they are."""
        self.files = files
        self.rotation = rotation or Rotation()
        self._contexts = connector, acceptor
        self._stamp = files.stamp() if files is not None else ()
        self._complaint = ""
        self._generation = 1
        self._looked_at = time.monotonic()
        self._loading = Lock()

    @classmethod
    def load(cls, directory: Path, role: Role, id: str, rotation: Rotation | None = None) -> "Tls":
        """Load ``ca.pem``, ``ROLE-ID.pem`` and ``ROLE-ID.key``. Raises ``InvalidRequest`` for a bad file."""
        files = TlsFiles(directory, f"{role}-{id}")
        return cls(*_contexts(files), files, rotation)

    @property
    def connector(self) -> ssl.SSLContext:
        self._look()
        return self._contexts[0]

    @property
    def acceptor(self) -> ssl.SSLContext:
        self._look()
        return self._contexts[1]

    @property
    def generation(self) -> int:
        """How often certificates were loaded: a connection of an earlier generation is to be renewed."""
        self._look()
        return self._generation

    def _look(self) -> None:
        now = time.monotonic()
        if self.files is None or now - self._looked_at < self.rotation.look_s:
            return
        if not self._loading.acquire(blocking=False):
            return  # another thread is at it
        try:
            self._looked_at = now
            stamp = self.files.stamp()
            if stamp != self._stamp:
                self._contexts = _contexts(self.files)
                self._stamp, self._complaint = stamp, ""
                self._generation += 1
                log.info("renewed certificates are in use", name=self.files.name)
        except InvalidRequest as error:
            # They are tried again at every look, because what was wrong may pass: a full table of files, say.
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("renewed certificates cannot be used", name=self.files.name, why=str(error))
        finally:
            self._loading.release()


def _contexts(files: TlsFiles) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    connector = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    acceptor = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for context in (connector, acceptor):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        _load(context, files)
    # Without session tickets every connection is a full handshake, which checks the peer's certificate.
    acceptor.num_tickets = 0
    return connector, acceptor


def _load(context: ssl.SSLContext, files: TlsFiles) -> None:
    directory, name = files.directory, files.name
    ca, certificate, key = files.paths
    try:
        for file in files.paths:
            if not file.is_file():
                raise InvalidRequest(f"no {file.name} in {directory}: make it with `holdfast certs`")
        context.load_verify_locations(ca)
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise InvalidRequest(f"cannot use the certificates of {name} in {directory}: {error}") from error


def certificate_uri(domain: str, role: Role, id: str, location: str = "") -> str:
    """The URI that names the owner in a certificate, as a subject alternative name."""
    where = f"?{LOCATION}={quote(location)}" if location else ""
    return f"{URI_SCHEME}://{domain}/{role}/{id}{where}"


def parse_certificate_uri(uri: str) -> CertifiedName | None:
    """The name in *uri*, or None when it is not a Holdfast URI."""
    parts = urlsplit(uri)
    path = parts.path.split("/")
    if parts.scheme != URI_SCHEME or len(path) != 3 or path[1] not in Role._value2member_map_:
        return None
    locations = parse_qs(parts.query).get(LOCATION, [""])
    if len(locations) != 1:
        return None
    return CertifiedName(parts.netloc, Role(path[1]), path[2], locations[0])


def looks_like_tls(first: int) -> bool:
    """Whether a stream that begins with this byte is TLS."""
    return first in RECORD_TYPES


class TlsPipe:
    """The TLS layer of one connection, between encrypted bytes on the wire and plain bytes."""

    def __init__(self, context: ssl.SSLContext, *, is_connector: bool) -> None:
        self._from_wire = ssl.MemoryBIO()
        self._to_wire = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_wire, self._to_wire, server_side=not is_connector)
        self.is_ready = False
        """The handshake is done: ``peer`` is known and plain bytes may be sent."""

    def begin(self) -> None:
        """Start the handshake; take the output afterwards."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Return the plain bytes in *data*; empty during the handshake.

        Raises ``TlsFailed``; even then there may be output to send (the alert for the peer).
        """
        self._from_wire.write(data)
        if not self.is_ready:
            self._shake_hands()
        return self._read_all() if self.is_ready else b""

    def send(self, plain: bytes | bytearray) -> None:
        # Nothing can be sent after a failure; the ``receive`` that failed has reported it.
        with contextlib.suppress(ssl.SSLError):
            self._tls.write(plain)

    def take_output(self) -> bytes:
        return self._to_wire.read()

    def close(self) -> None:
        """Tell the peer, inside TLS, that nothing more will be sent, if the handshake was completed."""
        if self.is_ready:
            # unwrap raises while the peer's own close has not arrived; we do not wait for it.
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()

    def peer(self) -> CertifiedName:
        """The name in the peer's certificate. Raises ``TlsFailed`` when it is not a Holdfast certificate."""
        certificate: dict[str, Any] = dict(self._tls.getpeercert() or {})
        uris = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
        name = parse_certificate_uri(uris[0]) if len(uris) == 1 else None
        if name is None:
            raise TlsFailed("the peer's certificate names no Holdfast role and id")
        return name

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            raise TlsFailed(_explain(error)) from error
        self.is_ready = True

    def _read_all(self) -> bytes:
        chunks: list[bytes] = []
        try:
            while chunk := self._tls.read(RECORD_BYTES_MAX):
                chunks.append(chunk)
                if not self._from_wire.pending and not self._tls.pending():
                    # Asking once more would raise, and an exception costs as much as the record.
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise TlsFailed(_explain(error)) from error
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


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


def _explain(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is refused: {error.verify_message}"
    # Where we have no better text, use OpenSSL's; some errors have no reason.
    return _EXPLANATIONS.get(error.reason or "", str(error))


Bytes = bytes | bytearray


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
        if self._is_first and looks_like_tls(data[0]):
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
            return LayerFailed(Reason(Why.TLS, "this port requires TLS"), plain_goodbye=True)
        decoder = FrameDecoder(HANDSHAKE_BYTES_MAX)
        decoder.feed(data)
        frame = decoder.take_one()
        if frame is not None and frame[0] is Kind.GOODBYE:
            return LayerFailed(read_goodbye(frame[1]))
        return LayerFailed(Reason(Why.TLS, "the peer does not speak TLS"))
