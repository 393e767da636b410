"""Connects to the authority at a place, with the certificates and the user that an etcd asks for.

Those are files in the domain's directory (:class:`~.place.EtcdAccess`); a password file that others can read
is refused.
"""

import os
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.authority.client import ClientConfig
from holdfast.authority.move.following import Backend
from holdfast.authority.move.place import EtcdAccess, EtcdSettings, Place
from holdfast.authority.remote import RemoteAuthority
from holdfast.machine.files import OTHERS, make_private, write_durably
from holdfast.model.errors import InvalidRequest
from holdfast.net import Address, ConnectionSettings

if TYPE_CHECKING:
    from holdfast.authority.etcd.backend import EtcdAuthority

ACCESS_DIRECTORY: Final = "etcd"
"""Where a domain keeps what its etcd asks for, below its own directory."""
PASSWORD_BYTES_MAX: Final = 1_024
FILE_BYTES_MAX: Final = 1 << 20
"""The longest certificate or key file that is copied: a chain of certificates has a few kilobytes."""


def connect_place(
    place: Place,
    endpoint: ConnectionSettings,
    directory: Path,
    *,
    where: Callable[[], Address] | None = None,
    config: ClientConfig | None = None,
) -> Backend:
    """Connect to the authority at *place*. *where* says, at each attempt, where an embedded one is by now."""
    if place.etcd is not None:
        return open_etcd(place.etcd, directory)
    return RemoteAuthority(where or Address.parse(place.address), endpoint, config=config)


def open_etcd(settings: EtcdSettings, directory: Path) -> "EtcdAuthority":
    """Raises ``InvalidRequest`` when a file is missing or cannot be used."""
    # Imported only for domains on etcd: the embedded authority needs no HTTP client.
    from holdfast.authority.etcd.backend import EtcdAuthority
    from holdfast.authority.etcd.gateway import EtcdUser

    if problems := settings.problems():
        raise InvalidRequest("; ".join(problems))
    user = None
    if settings.user:
        user = EtcdUser(settings.user, read_password(directory / settings.password_file))
    tls = _tls(settings, directory)
    return EtcdAuthority(settings.endpoints, prefix=settings.prefix, tls=tls, user=user)


def keep_access(
    directory: Path,
    *,
    name: str,
    prefix: str = "",
    ca: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    user: str = "",
    password: str = "",
) -> EtcdAccess:
    """Copy what an etcd asks for into the domain's directory, private to its owner.

    *name* tells one etcd from another: while a domain moves between two of them it needs the files of both.
    """
    below = f"{ACCESS_DIRECTORY}/{name}"
    kept = directory / below
    given = {"ca": (ca, "ca.pem"), "certificate": (certificate, "client.pem"), "key": (key, "client.key")}
    names: dict[str, str] = {}
    for field, (source, file) in given.items():
        if source is not None:
            _write(kept / file, _read(source))
            names[field] = f"{below}/{file}"
    if user:
        if not password:
            raise InvalidRequest(
                f"the etcd user {user!r} needs a password: give --etcd-password-file, or set "
                "HOLDFAST_ETCD_PASSWORD"
            )
        _write(kept / "password", password.encode() + b"\n")
        names["password_file"] = f"{below}/password"
    if prefix and not prefix.endswith("/"):
        prefix += "/"
    return EtcdAccess(prefix=prefix, user=user, **names)


def read_password(file: Path) -> str:
    """The first line of *file*. Raises ``InvalidRequest`` if others can read it, or there is none."""
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & OTHERS:
                mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
                raise InvalidRequest(f"{file} is open to others (mode {mode:o}): `chmod 600 {file}`")
            line = opened.readline(PASSWORD_BYTES_MAX).rstrip(b"\r\n")
    except OSError as error:
        raise InvalidRequest(f"the password of the etcd user cannot be read: {error}") from None
    if not line:
        raise InvalidRequest(f"{file} holds no password")
    return line.decode(errors="strict")


def _tls(settings: EtcdSettings, directory: Path) -> ssl.SSLContext | None:
    if not any(each.startswith("https://") for each in settings.endpoints):
        return None
    try:
        context = ssl.create_default_context(cafile=str(directory / settings.ca) if settings.ca else None)
        if settings.certificate:
            context.load_cert_chain(directory / settings.certificate, directory / settings.key)
    except OSError as error:  # an SSLError is one
        raise InvalidRequest(f"the certificates for etcd cannot be used: {error}") from None
    return context


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            found = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}") from None
    if len(found) > FILE_BYTES_MAX:
        raise InvalidRequest(f"{file} is longer than the {FILE_BYTES_MAX} bytes of any certificate or key")
    return found


def _write(file: Path, content: bytes) -> None:
    make_private(file.parent.parent)  # a directory that is only made as a parent gets the umask's mode
    make_private(file.parent)
    write_durably(file, content)
