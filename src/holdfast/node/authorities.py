"""Which authority a domain has: the embedded one at its address, or etcd at its endpoints."""

from holdfast.authority.recipe import Authority
from holdfast.authority.remote import RemoteAuthority
from holdfast.model.errors import InvalidRequest
from holdfast.net import Address, Endpoint
from holdfast.node.layout import Description


def connect_authority(description: Description, endpoint: Endpoint) -> Authority:
    """A client of the domain's authority; it connects by itself and stays connected."""
    if description.authority_address is not None:
        return RemoteAuthority(Address.parse(description.authority_address), endpoint)
    if description.etcd_endpoints:
        # Imported only by domains on etcd: the embedded one needs no HTTP client.
        from holdfast.authority.etcd import EtcdAuthority

        return EtcdAuthority(description.etcd_endpoints, prefix=f"{description.domain}/")
    raise InvalidRequest("the domain's description names no authority")
