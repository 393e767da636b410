"""Whom a client's certificate names: its subject, as a distinguished name."""

import asyncio
from typing import Final

from holdfast.directory.dn import Ava, Dn

SHORT_NAMES: Final = {
    "commonName": "cn",
    "countryName": "c",
    "localityName": "l",
    "stateOrProvinceName": "st",
    "organizationName": "o",
    "organizationalUnitName": "ou",
    "domainComponent": "dc",
    "userId": "uid",
    "emailAddress": "mail",
    "surname": "sn",
    "givenName": "givenName",
    "serialNumber": "serialNumber",
    "title": "title",
}
"""What OpenSSL calls attributes, and what a directory does."""


def subject_dn(transport: asyncio.Transport) -> str | None:
    """The subject of the peer's certificate; None if it has sent none that is trusted."""
    certificate = transport.get_extra_info("peercert")
    return None if not certificate else dn_of(certificate.get("subject", ()))


def dn_of(subject: tuple[tuple[tuple[str, str], ...], ...]) -> str | None:
    """A certificate's subject, which begins with the top, as a name, which begins with the leaf."""
    rdns = tuple(
        tuple(Ava(SHORT_NAMES.get(name, name), value.encode()) for name, value in rdn)
        for rdn in reversed(subject)
    )
    return str(Dn(rdns)) if rdns else None
