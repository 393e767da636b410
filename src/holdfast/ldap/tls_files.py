"""The door's TLS context, from files that may be replaced while it is in use.

A context is one object for as long as its door is open. When the files change, the new certificate is loaded
into it: connections that are there stay, and the next handshake shows the new one.
"""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from holdfast.machine.trace import LibraryLog
from holdfast.model.errors import InvalidRequest

log = LibraryLog("holdfast.ldap")


@dataclass(frozen=True, slots=True)
class DoorFiles:
    """What a door shows to clients, and whom it believes."""

    certificate: Path
    key: Path | None = None
    """None if it is in the certificate's file."""
    ca: Path | None = None
    """With a CA, clients may prove who they are (SASL EXTERNAL)."""

    def stamp(self) -> tuple[tuple[int, int, int], ...]:
        """A value that differs once a file was replaced; empty while one is missing."""
        try:
            found = [each.stat() for each in (self.certificate, self.key, self.ca) if each is not None]
        except OSError:
            return ()
        return tuple((each.st_mtime_ns, each.st_ino, each.st_size) for each in found)


class DoorTls:
    """The TLS of one door. Raises ``InvalidRequest`` if its files cannot be used."""

    def __init__(self, files: DoorFiles) -> None:
        self._files = files
        self._stamp = files.stamp()
        self._complaint = ""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load(self.context)

    def look(self) -> None:
        """Use replaced files from now on. What cannot be used leaves things as they are, and is told once."""
        stamp = self._files.stamp()
        if not stamp or stamp == self._stamp:
            return
        try:
            self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # or half of it would be in use
            self._load(self.context)
            self._stamp, self._complaint = stamp, ""
            log.info("renewed certificates are in use", file=str(self._files.certificate))
        except InvalidRequest as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning("renewed certificates cannot be used", why=str(error))

    def _load(self, context: ssl.SSLContext) -> None:
        files = self._files
        try:
            context.load_cert_chain(files.certificate, files.key)
            if files.ca is not None:
                context.load_verify_locations(files.ca)
                context.verify_mode = ssl.CERT_OPTIONAL
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(_named(files))
            raise InvalidRequest(f"the certificate or key cannot be used: {names}: {error}") from error


def _named(files: DoorFiles) -> Iterable[str]:
    return (str(each) for each in (files.certificate, files.key, files.ca) if each is not None)
