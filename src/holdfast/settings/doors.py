"""The settings of doors: where each listens, and how it is protected. Who may come in is not said here."""

from typing import Literal

from msgspec import Struct

from holdfast.model.errors import InvalidRequest
from holdfast.model.validation import Problem
from holdfast.net import Address


class LdapConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The LDAP door of every host of the domain on this machine that has the role directory."""

    certificate: str = ""
    """A file in PEM form with the certificate that clients see, and those that sign it. It switches StartTLS
    and LDAPS on. A relative name is within the domain's directory. Without it, a machine that has
    certificates of the domain uses its hosts' own."""
    key: str = ""
    """The file with its key."""
    ca: str = ""
    """A file with the certificate of a CA: whoever has a certificate of that CA may bind with SASL EXTERNAL,
    as the entry that its subject names."""
    require_tls: bool = False
    """Take passwords over TLS alone. That is so in any case where the door can be reached from other
    machines."""

    def validate(self) -> list[Problem]:
        if bool(self.certificate) != bool(self.key):
            return [("certificate", "and key go together")]
        if self.ca and not self.certificate:
            return [("ca", "needs a certificate and its key")]
        return []


class HttpConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The HTTP door of every host of the domain on this machine."""

    listen: str = "127.0.0.1:0"
    """``host:port``. With port 0 each host takes a free port and keeps it; empty means no door."""
    certs: str = ""
    """A directory made by `holdfast certs`, with a certificate for each host. It enables TLS, and clients may
    then show a certificate of role ``client`` or ``admin`` instead of a token."""
    insecure: bool = False
    """Permit access from other machines without TLS: tokens can then be read on the way."""
    loopback: Literal["nobody", "reader", "admin"] = "admin"
    """What the domain's own user and root may do on this machine without a token. Behind a proxy, everybody
    seems to be there."""

    def validate(self) -> list[Problem]:
        if not self.listen:
            return []
        try:
            address = Address.parse(self.listen)
        except InvalidRequest as error:
            return [("listen", str(error))]
        if not address.is_loopback and not self.certs and not self.insecure:
            return [("listen", "is not on this machine: it needs certs, or an explicit insecure")]
        return []
