"""With which identity and certificates the processes of this machine, and its people, talk to others.

A machine's certificates are in one directory (`holdfast certs machine`). Without one, everything is plain
TCP, which the connections allow on loopback only, unless the description permits it explicitly.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Incarnation
from holdfast.net import ConnectionSettings, Expected, PeerIdentity, Role, Tls
from holdfast.net.tls import TlsFiles
from holdfast.node.layout import Description

ADMIN_ID: Final = "cli"
"""The id of the command line in a domain on one machine."""


def endpoint_of(description: Description, role: Role, id: str) -> ConnectionSettings:
    """The settings of one process. Raises ``InvalidRequest`` if its certificate is missing or unusable."""
    tls = Tls.load(Path(description.certs), role, id) if description.certs else None
    identity = PeerIdentity(description.domain, role, id)
    return ConnectionSettings(identity, tls=tls, insecure=description.insecure)


def host_endpoint(description: Description, host: HostId) -> ConnectionSettings:
    """The settings of a host. Raises ``InvalidRequest`` also if its certificate is for another location."""
    endpoint = endpoint_of(description, Role.HOST, host)
    if endpoint.tls is not None and endpoint.tls.files is not None:
        _check_location(endpoint.tls.files, description.location)
    return endpoint


def admin_endpoint(description: Description) -> ConnectionSettings:
    """The settings of the command line on this machine."""
    return endpoint_of(description, Role.ADMIN, description.machine or ADMIN_ID)


def incarnated(endpoint: ConnectionSettings, incarnation: Incarnation) -> ConnectionSettings:
    """The settings of that process of a host."""
    return replace(endpoint, identity=replace(endpoint.identity, incarnation=incarnation))


def expecting(endpoint: ConnectionSettings, role: Role, id: str | None = None) -> ConnectionSettings:
    """The settings for connections to a peer of that role, and that id."""
    return replace(endpoint, expected=Expected(roles=frozenset({role}), id=id))


def _check_location(files: TlsFiles, location: str) -> None:
    from holdfast.net.certificates import name_in  # the library behind it is needed for certificates alone

    certificate = files.directory / f"{files.name}.pem"
    certified = name_in(certificate).location
    if certified != location:
        raise InvalidRequest(
            f"{certificate} is for location {certified!r}, and this machine says that it is at {location!r}: "
            "`holdfast certs machine` makes certificates for a location, `holdfast machine set --location` "
            "says where a machine is"
        )
