"""Addresses of processes (``host:port``, ``[ipv6]:port``), and whether plain TCP is safe there."""

import ipaddress
from dataclasses import dataclass
from typing import Any

from holdfast.model.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int
    """When listening, 0 lets the system choose."""

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Parse *text*; raises ``InvalidRequest`` unless it is a host and a port."""
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
        """Whether only processes of this machine can be at the other end.

        Names other than localhost are not resolved, because their meaning may change.
        """
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(sockaddr: tuple[Any, ...] | None) -> Address:
    """The address in what a socket says of one of its ends. An IPv4 address inside IPv6 is the same place."""
    host, port = (sockaddr or ("?", 0))[:2]
    return Address(host.removeprefix("::ffff:") if "." in host else host, port)


def require_safe(address: Address, *, has_tls: bool, insecure: bool) -> None:
    """Raise ``InvalidRequest`` for plain TCP to another machine, unless *insecure* explicitly allows it."""
    if not (has_tls or insecure or address.is_loopback):
        raise InvalidRequest(
            f"{address} is not on this machine: it needs TLS (give --certs, made by `holdfast certs`) "
            "or an explicit --insecure"
        )
