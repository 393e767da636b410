"""Mutual TLS 1.3: whom a process trusts, and how it says who it is.

:class:`Tls` loads its contexts from a directory of certificates, and loads them again when the files are
replaced, so that nobody has to restart anything before a certificate expires. A peer is known by the name in
its certificate (role and id), never by its address. :mod:`.layer` encrypts with it.
"""

import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import InvalidRequest
from holdfast.net.handshake import CertifiedName, Role

URI_SCHEME: Final = "holdfast"
CA_FILE: Final = "ca.pem"

LOCATION: Final = "location"
"""The key of a host's location in the URI of its certificate."""

log = LibraryLog("holdfast.net")


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

    def check(self) -> None:
        """Raise ``InvalidRequest`` if a peer with the same ``ca.pem`` would refuse the certificate: it has
        expired, say, or another domain's authority signed it."""
        if why := _why_refused(*self._contexts):
            name = "the certificate" if self.files is None else str(self.files.paths[1])
            raise InvalidRequest(
                f"{name} is refused by whoever has the same {CA_FILE}: {why}; make it anew with "
                "`holdfast certs`"
            )

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


def _why_refused(connector: ssl.SSLContext, acceptor: ssl.SSLContext) -> str:
    """What a process says that shakes hands with itself; empty if it is satisfied."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    connecting = connector.wrap_bio(back, there)
    accepting = acceptor.wrap_bio(there, back, server_side=True)
    try:
        for end in (connecting, accepting, connecting):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    return ""


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
