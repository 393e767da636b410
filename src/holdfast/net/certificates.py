"""The certificates of a domain: one certificate authority that signs, and one certificate per process.

They are kept in a directory: ``ca.pem`` and ``ca.key``, and for each process ``ROLE-ID.pem`` and
``ROLE-ID.key``. A process needs ``ca.pem`` and its own two files; ``ca.key`` stays where certificates are
issued. The certificate contains the role and id as a URI (:func:`.tls.certificate_uri`), so that no process
can claim another's name; a host's also contains its location, so that no host can claim to be elsewhere.
:func:`issue_machine` makes all that one machine needs, into a directory that is copied there.
"""

import datetime
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from holdfast.machine.files import write_durably
from holdfast.model.errors import InvalidRequest
from holdfast.net.handshake import CertifiedName, Role, check_name
from holdfast.net.tls import CA_FILE, certificate_uri, parse_certificate_uri

CA_KEY_FILE: Final = "ca.key"
AUTHORITY_ID: Final = "authority"
"""The id of a domain's embedded authority, of which there is one."""
CA_DAYS: Final = 3650
ISSUED_DAYS: Final = 365
DAYS_MAX: Final = 36500
LOCATION_CHARACTERS_MAX: Final = 200
_LOCATION: Final = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")
CLOCK_SKEW: Final = datetime.timedelta(hours=1)
"""Certificates are valid from a little before they are made, because the clocks of machines differ."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The facts about one certificate in the directory."""

    file: Path
    name: CertifiedName | None
    """None for the domain's signing certificate."""
    domain: str
    not_after: datetime.datetime
    is_signed_by_domain: bool

    def days_left(self, now: datetime.datetime) -> int:
        """Whole days until the certificate expires; negative when it has expired."""
        return (self.not_after - now).days


def create_domain(directory: Path, domain: str, now: datetime.datetime, *, days: int = CA_DAYS) -> Path:
    """Make the domain's signing certificate. Raises ``InvalidRequest`` when there already is one."""
    check_name("domain", domain)
    _check_days(days)
    if (directory / CA_FILE).exists() or (directory / CA_KEY_FILE).exists():
        raise InvalidRequest(f"{directory} has a {CA_FILE} or {CA_KEY_FILE} already; it is never replaced")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(domain, "domain authority")
    certificate = (
        _builder(subject, subject, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(directory / CA_KEY_FILE, key)
    _write_certificate(directory / CA_FILE, certificate)
    return directory / CA_FILE


def issue(
    directory: Path,
    role: Role,
    id: str,
    now: datetime.datetime,
    *,
    location: str = "",
    addresses: tuple[str, ...] = (),
    days: int = ISSUED_DAYS,
    renew: bool = False,
    to: Path | None = None,
) -> Path:
    """Make a certificate and a key for one process, or with *renew* replace both.

    They are written to *to*, or else beside the signing certificate. *location* is for hosts. *addresses*
    (names or IP numbers) matter only to clients that check them, such as browsers. Raises ``InvalidRequest``
    when the certificate exists and is not to be renewed, or when the domain has no signing certificate.
    """
    check_name("id", id)
    check_location(location)
    _check_days(days)
    file = (to or directory) / f"{role}-{id}.pem"
    if file.exists() and not renew:
        raise InvalidRequest(f"{file} exists; --renew replaces it and its key")
    ca, ca_key = _load_ca(directory)
    domain = _domain_of(ca)
    key = ec.generate_private_key(ec.SECP256R1())
    names = [
        x509.UniformResourceIdentifier(certificate_uri(domain, role, id, location)),
        *map(_address_name, addresses),
    ]
    certificate = (
        _builder(_subject(domain, f"{role} {id}"), ca.subject, key.public_key(), now, days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        # Every role gets both usages: hosts connect and accept, and the role decides what a peer may do.
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    _write_key(file.with_suffix(".key"), key)
    _write_certificate(file, certificate)
    return file


def issue_machine(
    directory: Path,
    machine: str,
    now: datetime.datetime,
    *,
    to: Path,
    hosts: Sequence[str],
    location: str,
    with_authority: bool = False,
    addresses: tuple[str, ...] = (),
    days: int = ISSUED_DAYS,
    renew: bool = False,
) -> list[Path]:
    """Make all certificates of one machine in *to*: its agent's, its hosts', an admin's for its command line,
    and the embedded authority's if that is there. Raises as :func:`issue` does.
    """
    roles = [(Role.AGENT, machine), *((Role.HOST, host) for host in hosts), (Role.ADMIN, machine)]
    if with_authority:
        roles.append((Role.AUTHORITY, AUTHORITY_ID))
    to.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = [
        issue(
            directory,
            role,
            id,
            now,
            location=location if role is Role.HOST else "",
            addresses=addresses,
            days=days,
            renew=renew,
            to=to,
        )
        for role, id in roles
    ]
    if to.resolve() != directory.resolve():
        # As it is: while the domain's signing certificate is renewed, the file holds the old one, too.
        write_durably(to / CA_FILE, (directory / CA_FILE).read_bytes())
    return made


def name_in(file: Path) -> CertifiedName:
    """The name in the certificate in *file*. Raises ``InvalidRequest`` if it is not one of ours."""
    name = _name_in(_read_certificate(file))
    if name is None:
        raise InvalidRequest(f"{file} names no Holdfast role and id: make it with `holdfast certs`")
    return name


def check_location(location: str) -> None:
    """Raise ``InvalidRequest`` unless *location* is empty or names separated by slashes."""
    if location and not (len(location) <= LOCATION_CHARACTERS_MAX and _LOCATION.fullmatch(location)):
        raise InvalidRequest(
            f"location {location[:LOCATION_CHARACTERS_MAX]!r}: must be names of letters, digits, dots, "
            f"dashes and underscores, separated by slashes, as rack1/m2; at most {LOCATION_CHARACTERS_MAX} "
            "characters"
        )


def show(directory: Path) -> list[Certificate]:
    """List every certificate, the domain's own first. Raises ``InvalidRequest`` if that is missing."""
    trusted = _read_trusted(directory)
    ca = trusted[0]
    others = sorted(file for file in directory.glob("*.pem") if file.name != CA_FILE)
    found = [Certificate(directory / CA_FILE, None, _domain_of(ca), ca.not_valid_after_utc, _signed(ca, ca))]
    for file in others:
        certificate = _read_certificate(file)
        found.append(
            Certificate(
                file,
                _name_in(certificate),
                _domain_of(certificate),
                certificate.not_valid_after_utc,
                any(_signed(certificate, each) for each in trusted),
            )
        )
    return found


def _check_days(days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise InvalidRequest(f"days {days}: must be 1 to {DAYS_MAX}")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _subject(domain: str, common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, domain),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64]),  # the bound of X.509
        ]
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _address_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        pass
    try:
        return x509.DNSName(address)
    except ValueError as error:
        raise InvalidRequest(f"address {address!r} is neither an IP number nor a name: {error}") from error


def _domain_of(certificate: x509.Certificate) -> str:
    attributes = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(attributes[0].value) if attributes else ""


def _name_in(certificate: x509.Certificate) -> CertifiedName | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return parse_certificate_uri(uris[0]) if len(uris) == 1 else None


def _signed(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _load_ca(directory: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The signing certificate and its key. While the domain's certificate is replaced there are two to trust,
    and the key belongs to one of them."""
    trusted = _read_trusted(directory)
    try:
        key = serialization.load_pem_private_key((directory / CA_KEY_FILE).read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"cannot sign without {directory / CA_KEY_FILE}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidRequest(f"{directory / CA_KEY_FILE} is not a key that `holdfast certs` made")
    for certificate in trusted:
        if certificate.public_key() == key.public_key():
            return certificate, key
    raise InvalidRequest(
        f"{directory / CA_KEY_FILE} is not the key of {directory / CA_FILE}: nobody who has that file would "
        "take what it signs. Nothing was made; put the two together that were made together"
    )


def _read_certificate(file: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(file.read_bytes())
    except FileNotFoundError as error:
        raise InvalidRequest(f"no {file}: make a domain with `holdfast certs create`") from error
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"cannot read {file}: {error}") from error


def _read_trusted(directory: Path) -> list[x509.Certificate]:
    """The certificates in ``ca.pem``: one, or two while the domain's own is replaced."""
    first = _read_certificate(directory / CA_FILE)
    found = x509.load_pem_x509_certificates((directory / CA_FILE).read_bytes())
    return found or [first]


def _write_certificate(file: Path, certificate: x509.Certificate) -> None:
    write_durably(file, certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    data = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_durably(file, data)
