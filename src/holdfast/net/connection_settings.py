"""What all connections of one server or client have in common."""

from dataclasses import dataclass, field

from holdfast.model.errors import InvalidRequest
from holdfast.net.credentials import ADVICE, ClientKey, Credentials, DomainSecret
from holdfast.net.handshake import Expected, PeerIdentity, Role
from holdfast.net.limits import Limits
from holdfast.net.tls import Tls


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """This end's identity, the peers it accepts, its TLS and its bounds."""

    identity: PeerIdentity
    limits: Limits = field(default_factory=Limits)
    tls: Tls | None = None
    """None means plain TCP, which is allowed only on loopback unless explicitly requested."""
    expected: Expected = field(default_factory=Expected)
    insecure: bool = False
    """Permit plain TCP beyond this machine: whoever is on the way can read and change everything."""
    credentials: Credentials | None = None
    """What this end proves itself with where there is no TLS; an end that accepts needs the secret."""
    is_forwarded: bool = False
    """Whether something between both ends passes the connection on, so that the peer is reached at another
    address than the one dialed. Otherwise that is refused on loopback."""

    def __post_init__(self) -> None:
        match self.credentials:
            case DomainSecret(domain=domain) if domain != self.identity.domain:
                raise InvalidRequest(f"the secret is of domain {domain!r}, not of {self.identity.domain!r}")
            case ClientKey(name=name) if (Role.CLIENT, name) != (self.identity.role, self.identity.id):
                raise InvalidRequest(f"the key is of client {name!r}; it does not admit {self.identity}")

    def require_proof(self, *, is_connector: bool) -> None:
        """Raise ``InvalidRequest`` if this end could not prove itself, or could not tell who its peers
        are."""
        if self.tls is not None or isinstance(self.credentials, DomainSecret):
            return
        if self.credentials is None or not is_connector:
            raise InvalidRequest(
                f"{self.identity} has neither a certificate nor the secret of domain "
                f"{self.identity.domain!r}: {ADVICE}"
            )
