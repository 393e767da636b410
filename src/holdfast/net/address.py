"""Where a process listens: ``host:port``, ``[ipv6]:port``; and whether it is safe to speak plainly there."""

import ipaddress
from dataclasses import dataclass

from holdfast.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    """0 lets the system choose, when listening."""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Raises ``InvalidRequest`` unless *text* is a host and a port."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise InvalidRequest(f"address {text!r}: write an IPv6 address as [address]:port")
        if not colon or not host or not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise InvalidRequest(f"address {text!r}: must be host:port")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can be at the other end. Names other than localhost
        are not resolved: what they stand for may change."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def require_safe(address: Address, *, has_tls: bool, insecure: bool) -> None:
    """Raise ``InvalidRequest`` for plain TCP beyond this machine, unless it was asked for by name."""
    if not (has_tls or insecure or address.is_loopback):
        raise InvalidRequest(
            f"{address} is not on this machine: it needs TLS (give --certs, made by `holdfast certs`) "
            "or an explicit --insecure"
        )
