"""How benchmarks are admitted to the domains that they have started: with those domains' secrets, or with the
certificates that they made for them."""

from typing import Final

from holdfast.calling.config import CallPolicy
from holdfast.client.domain import Domain, connect
from holdfast.net import ConnectionSettings
from holdfast.node.endpoints import admin_endpoint
from holdfast.node.layout import Description, Layout
from holdfast.node.messages import DomainStatus

CLIENT: Final = "bench"
"""Whom a client's certificate is for."""
_layouts: Final[dict[str, Layout]] = {}
"""The directories of the domains that this process has started."""


def remember(description: Description, layout: Layout) -> None:
    """Remember where a domain is that this process has started."""
    _layouts[description.domain] = layout


def layout_of(description: Description) -> Layout:
    """Where a domain is that this process has started."""
    return _layouts[description.domain]


def client_of(description: Description, status: DomainStatus, *, policy: CallPolicy | None = None) -> Domain:
    """A client of a domain that this process has started."""
    if description.certs:
        url = url_of(description, status)
        return connect(url, certs=description.certs, name=CLIENT, policy=policy)
    return connect(url_of(description, status), dir=layout_of(description).directory, policy=policy)


def admin_in(description: Description) -> ConnectionSettings:
    """The settings of an admin of such a domain."""
    return admin_endpoint(layout_of(description), description)


def url_of(description: Description, status: DomainStatus) -> str:
    return f"holdfast://{','.join(str(host.address) for host in status.hosts)}/{description.domain}"
