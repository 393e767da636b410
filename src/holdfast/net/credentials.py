"""The domain's secret, the keys made from it, and how both ends of a plain connection prove that they know
them (N1).

A connection without TLS has no certificates, so each end proves who it is with a secret that only the
domain's own user can read. Neither the secret nor a key is ever sent. Each end sends a fresh nonce, and then
a proof: an HMAC over everything that both ends said in the handshake. The accepting end proves itself first,
so whoever squats a port learns nothing that it could use. It also says at which address it was reached, and
the connecting end compares that with the address it dialed: a squatter that passes the messages on to the
real process is noticed before the connecting end has proved anything.

The holder of the :class:`DomainSecret` may be any role. A :class:`ClientKey` is derived from the secret for
one name and proves nothing but: this is the client of that name.
"""

import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from holdfast.model.errors import InvalidRequest

NONCE_BYTES: Final = 16
"""Two random numbers of this length never meet again, and a proof for one nonce is of no use for another."""
SECRET_BYTES: Final = 32
PROOF_BYTES: Final = 32

_MEMBER: Final = b"holdfast member key\0"
_CLIENT: Final = b"holdfast client key\0"
_PROOFS: Final = {True: b"holdfast connector proof\0", False: b"holdfast acceptor proof\0"}
"""A proof says which end gives it; otherwise the connecting end could send the acceptor's proof back."""

ADVICE: Final = (
    "use the domain's own directory (--dir, dir= or HOLDFAST_DIR) as its user, "
    "or a key made with `holdfast key NAME`"
)


class ProvenBy(StrEnum):
    """How a peer has proved who it is."""

    SECRET = "secret"
    """With the domain's secret: it is one of the domain's own processes, or a program of its user."""
    KEY = "key"
    """With a client's key."""
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, repr=False)
class ClientKey:
    """The key of one named client."""

    name: str
    key: bytes

    @classmethod
    def parse(cls, text: str) -> "ClientKey":
        """The key that `holdfast key` printed as *text*. Raises ``InvalidRequest``, without showing it."""
        name, _, digits = text.rpartition(":")
        try:
            key = bytes.fromhex(digits)
        except ValueError:
            key = b""
        if not name or len(key) != SECRET_BYTES:
            raise InvalidRequest(
                f"a client's key must be NAME:KEY, KEY being {2 * SECRET_BYTES} hexadecimal digits, as "
                "`holdfast key NAME` prints it"
            )
        return cls(name, key)

    @property
    def text(self) -> str:
        return f"{self.name}:{self.key.hex()}"

    def __repr__(self) -> str:
        return f"ClientKey({self.name!r}, ...)"


@dataclass(frozen=True, slots=True, repr=False)
class DomainSecret:
    """The secret of one domain."""

    domain: str
    secret: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise InvalidRequest(f"the secret of a domain has {SECRET_BYTES} bytes, not {len(self.secret)}")

    def client_key(self, name: str) -> ClientKey:
        """The key that admits the client of that *name*, and nobody else."""
        return ClientKey(name, self._derived(_CLIENT + self.domain.encode() + b"\0" + name.encode()))

    def key_for(self, name: str, by: ProvenBy) -> bytes:
        """The key with which a peer called *name* proves itself."""
        if by is ProvenBy.KEY:
            return self.client_key(name).key
        return self._derived(_MEMBER + self.domain.encode())

    def _derived(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, purpose, "sha256")

    def __repr__(self) -> str:
        return f"DomainSecret({self.domain!r}, ...)"


Credentials = DomainSecret | ClientKey


def proof(key: bytes, hello: bytes, welcome: bytes, *, is_connector: bool) -> bytes:
    """One end's proof that it knows *key*, for the connection of exactly this Hello and Welcome."""
    said = len(hello).to_bytes(4, "big") + hello + welcome
    return hmac.digest(key, _PROOFS[is_connector] + said, "sha256")


def is_proof(shown: bytes, key: bytes, hello: bytes, welcome: bytes, *, is_connector: bool) -> bool:
    """Whether *shown* is that proof; the time it takes reveals nothing."""
    return hmac.compare_digest(shown, proof(key, hello, welcome, is_connector=is_connector))
