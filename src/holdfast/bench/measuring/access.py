"""How benchmarks are admitted to the domains that they have started: with those domains' secrets, or with the
certificates that they made for them."""

from pathlib import Path
from typing import Final

from holdfast.calling.config import CallPolicy
from holdfast.client.domain import Domain, connect
from holdfast.net import ConnectionSettings
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import DomainStatus

CLIENT: Final = "bench"
"""Whom a client's certificate is for."""


class StartedDomain(Description, frozen=True, kw_only=True):
    """The description of a domain that this process has started, and the directory where it is."""

    directory: str


def started(description: Description, layout: Layout) -> StartedDomain:
    """The domain of *description*, started in *layout*."""
    fields = {name: getattr(description, name) for name in description.__struct_fields__}
    return StartedDomain(**fields, directory=str(layout.directory))


def layout_of(domain: StartedDomain) -> Layout:
    """Where the domain is."""
    return Layout(Path(domain.directory))


def client_of(
    description: StartedDomain, status: DomainStatus, *, policy: CallPolicy | None = None
) -> Domain:
    """A client of a domain that this process has started."""
    if description.certs:
        url = url_of(description, status)
        return connect(url, certs=description.certs, name=CLIENT, policy=policy)
    return connect(url_of(description, status), dir=layout_of(description).directory, policy=policy)


def admin_in(description: StartedDomain) -> ConnectionSettings:
    """The settings of an admin of such a domain."""
    return admin_endpoint(layout_of(description), description)


def url_of(description: Description, status: DomainStatus) -> str:
    return f"holdfast://{','.join(str(host.address) for host in status.hosts)}/{description.domain}"
