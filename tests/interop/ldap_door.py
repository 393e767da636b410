"""A directory served by a process of its own, for clients that nobody here wrote."""

import datetime
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

SUFFIX = "dc=example,dc=com"
ADMIN = f"cn=admin,{SUFFIX}"
PASSWORD = "correct horse"
PEOPLE = f"ou=people,{SUFFIX}"
START_S = 60.0


@dataclass
class Certificates:
    """A CA, a server's certificate, and one of the person ``uid=ada``."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path

    @classmethod
    def make(cls, directory: Path) -> "Certificates":
        now = datetime.datetime.now(datetime.UTC)
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a CA")])

        def signed(
            subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_ca: bool = False
        ) -> x509.Certificate:
            builder = (
                x509.CertificateBuilder()
                .subject_name(subject)
                .issuer_name(ca_name)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - datetime.timedelta(days=1))
                .not_valid_after(now + datetime.timedelta(days=30))
                .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
                )
            )
            if is_ca:
                usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
                builder = builder.add_extension(usage, critical=True)
            else:
                names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
                builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
            return builder.sign(ca_key, hashes.SHA256())

        def keep(
            name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
        ) -> tuple[Path, Path]:
            files = directory / f"{name}.pem", directory / f"{name}.key"
            files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
            files[1].write_bytes(
                key.private_bytes(
                    serialization.Encoding.PEM,
                    serialization.PrivateFormat.PKCS8,
                    serialization.NoEncryption(),
                )
            )
            return files

        person = x509.Name(
            [
                x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "com"),
                x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example"),
                x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "people"),
                x509.NameAttribute(NameOID.USER_ID, "ada"),
            ]
        )
        server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        server_key, client_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        ca, _ = keep("ca", signed(ca_name, ca_key, is_ca=True), ca_key)
        found = keep("server", signed(server, server_key), server_key)
        return cls(ca, *found, *keep("client", signed(person, client_key), client_key))


@dataclass
class Door:
    """Where it is, and with which files."""

    directory: Path
    process: subprocess.Popen[str]
    address: str
    secure: str
    certificates: Certificates

    @property
    def url(self) -> str:
        return f"ldap://{self.address}"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def run(
        self,
        program: str,
        *arguments: str,
        given: str | None = None,
        ok: Sequence[int] = (0,),
        **environment: str,
    ) -> str:
        """Run one of Debian's ldap-utils against it, and return what it printed."""
        where = () if "-H" in arguments else ("-H", self.url)
        done = subprocess.run(
            [program, *where, *arguments],
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "LDAPTLS_CACERT": str(self.certificates.ca), **environment},
            check=False,
        )
        assert done.returncode in ok, f"{program} {arguments}: {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def as_admin(
        self, program: str, *arguments: str, given: str | None = None, ok: Sequence[int] = (0,)
    ) -> str:
        return self.run(program, "-x", "-D", ADMIN, "-w", PASSWORD, *arguments, given=given, ok=ok)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def start(directory: Path, certificates: Certificates, *arguments: str) -> Door:
    secret = certificates.ca.parent / "password"
    secret.write_text(f"{PASSWORD}\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "directory", "serve"),
            *("--dir", str(directory), "--suffix", SUFFIX, "--port", "0", "--ldaps-port", "0"),
            *("--certificate", str(certificates.server), "--key", str(certificates.server_key)),
            *("--ca", str(certificates.ca), "--admin-password-file", str(secret), "--output", "json"),
            *arguments,
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the server ended with {process.wait(START_S)}"
    about = json.loads(line)
    return Door(directory, process, about["ldap"], about["ldaps"], certificates)


@contextmanager
def served(directory: Path, *arguments: str) -> Iterator[Door]:
    certificates = Certificates.make(directory)
    door = start(directory / "directory", certificates, *arguments)
    try:
        yield door
    finally:
        if door.process.poll() is None:
            door.stop()
        if door.process.stdout is not None:
            door.process.stdout.close()


EXAMPLE = f"""dn: {PEOPLE}
objectClass: organizationalUnit
ou: people

dn: ou=servers,{SUFFIX}
objectClass: organizationalUnit
ou: servers

dn: cn=mail,ou=servers,{SUFFIX}
objectClass: applicationProcess
cn: mail
description: the mail server

dn: uid=ada,{PEOPLE}
objectClass: inetOrgPerson
uid: ada
cn: Ada Lovelace
sn: Lovelace
mail: ada@example.com
telephoneNumber: 555-1212
userPassword: analytical

dn: uid=bob,{PEOPLE}
objectClass: inetOrgPerson
uid: bob
cn: Bob Noyce
sn: Noyce
mail: bob@example.com
userPassword: silicon

dn: cn=engineers,{SUFFIX}
objectClass: groupOfNames
cn: engineers
member: uid=ada,{PEOPLE}
member: uid=bob,{PEOPLE}
"""
"""The source's example (a domain, a unit, a server's application, a person), and a group."""


def wait_until(holds: object, deadline_s: float = 60.0) -> None:
    """Wait for a condition, for long: the machine may be busy."""
    assert callable(holds)
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.05)
