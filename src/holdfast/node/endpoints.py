"""With which identity and certificates the processes of this machine, and its people, talk to others.

A machine's certificates are in one directory (`holdfast certs machine`). Without one, everything is plain
TCP, which the connections allow on loopback only, unless the description permits it explicitly; the domain's
secret then proves who is who.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId, Incarnation
from holdfast.net import ConnectionSettings, Expected, PeerIdentity, Role, Tls
from holdfast.net.tls import TlsFiles
from holdfast.node.layout import Description, Layout

ADMIN_ID: Final = "cli"
"""The id of the command line in a domain on one machine."""


def endpoint_of(layout: Layout | None, description: Description, role: Role, id: str) -> ConnectionSettings:
    """The settings of one process; with certificates, *layout* is not needed. Raises ``InvalidRequest`` if
    its certificate is missing or unusable, or without certificates if the domain's secret is."""
    identity = PeerIdentity(description.domain, role, id)
    if description.certs:
        tls = Tls.load(Path(description.certs), role, id)
        return ConnectionSettings(identity, tls=tls, insecure=description.insecure)
    if layout is None:
        raise InvalidRequest("without certificates, the domain's directory must be known, for its secret")
    secret = layout.secret(description.domain)
    return ConnectionSettings(identity, insecure=description.insecure, credentials=secret)


def host_endpoint(layout: Layout | None, description: Description, host: HostId) -> ConnectionSettings:
    """The settings of a host. Raises ``InvalidRequest`` also if its certificate is for another location."""
    endpoint = endpoint_of(layout, description, Role.HOST, host)
    if endpoint.tls is not None and endpoint.tls.files is not None:
        _check_location(endpoint.tls.files, description.location)
    return endpoint


def admin_endpoint(layout: Layout | None, description: Description) -> ConnectionSettings:
    """The settings of the command line on this machine."""
    return endpoint_of(layout, description, Role.ADMIN, description.machine or ADMIN_ID)


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
