"""``holdfast certs``: create and show a domain's certificates."""

import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.output import Output, print_json, print_table, talk
from holdfast.net import certificates
from holdfast.net.handshake import Role
from holdfast.net.tls import CA_FILE
from holdfast.node.layout import host_ids

app = App(name="certs", help="Make a domain's certificates.")

Directory = Annotated[Path, Parameter(name="--dir")]


@app.command
def create(*, dir: Directory, domain: str, days: int = certificates.CA_DAYS) -> None:
    """Create the domain's signing certificate and key.

    Parameters
    ----------
    dir: Where the domain's certificates are kept.
    domain: The domain's name.
    days: How long it is valid. Replacing it later means replacing every certificate.
    """
    file = certificates.create_domain(dir, domain, _now(), days=days)
    talk.print(f"made {file}; keep {certificates.CA_KEY_FILE} where certificates are issued and nowhere else")


@app.command
def issue(
    *,
    dir: Directory,
    role: Role,
    id: str,
    location: str = "",
    address: tuple[str, ...] = (),
    days: int = certificates.ISSUED_DAYS,
    renew: bool = False,
) -> None:
    """Create the certificate and key of one process.

    Parameters
    ----------
    dir: Where the domain's certificates are kept.
    role: The role of the process.
    id: Its id in the domain.
    location: Where the machine of a host is, as rack1/m2; the host cannot say that it is elsewhere.
    address: A name or IP address for clients that check it; may be repeated.
    days: How long it is valid.
    renew: Replace a certificate that exists, and its key.
    """
    file = certificates.issue(
        dir, role, id, _now(), location=location, addresses=address, days=days, renew=renew
    )
    talk.print(f"made {file} and its key; that process also needs {CA_FILE}")


@app.command
def machine(
    *,
    dir: Directory,
    location: str,
    name: str = "",
    hosts: int = 1,
    to: Path | None = None,
    authority: bool = False,
    address: tuple[str, ...] = (),
    days: int = certificates.ISSUED_DAYS,
    renew: bool = False,
) -> None:
    """Create all certificates of one machine: of its agent, its hosts and its command line.

    Copy the directory to the machine and give it to `holdfast machine init --certs`. To renew them, create
    them again with --renew and copy them over the old ones: running processes notice within seconds.

    Parameters
    ----------
    dir: Where the domain's signing certificate and key are kept.
    location: Where the machine is, as rack1/m2.
    name: The machine's name; without it, the last part of its location.
    hosts: How many hosts the machine has.
    to: The directory to write them to; without it, DIR/machines/NAME.
    authority: The domain's embedded authority is on this machine.
    address: A name or IP address for clients that check it; may be repeated.
    days: How long they are valid.
    renew: Replace certificates that exist, and their keys.
    """
    name = name or location.rpartition("/")[2]
    to = to or dir / "machines" / name
    made = certificates.issue_machine(
        dir,
        name,
        _now(),
        to=to,
        hosts=host_ids(name, hosts),
        location=location,
        with_authority=authority,
        addresses=address,
        days=days,
        renew=renew,
    )
    talk.print(f"made {', '.join(file.stem for file in made)} in {to}; copy it to {name}", soft_wrap=True)


@app.command
def show(*, dir: Directory, output: Output = "table") -> None:
    """List the certificates and the days they have left.

    Parameters
    ----------
    dir: Where the domain's certificates are kept.
    output: A table for people, one JSON object for scripts.
    """
    now = _now()
    found = certificates.show(dir)
    if output == "json":
        print_json({"certificates": [_as_json(certificate, now) for certificate in found]})
        return
    rows = [
        (
            certificate.file.name,
            certificate.domain,
            certificate.name.role if certificate.name else "-",
            certificate.name.id if certificate.name else "-",
            (certificate.name.location if certificate.name else "") or "-",
            f"{certificate.not_after:%Y-%m-%d}",
            certificate.days_left(now),
            _verdict(certificate, now),
        )
        for certificate in found
    ]
    print_table(("file", "domain", "role", "id", "location", "valid to", "days left", "verdict"), rows)


def _as_json(certificate: certificates.Certificate, now: datetime.datetime) -> dict[str, object]:
    return {
        "file": certificate.file.name,
        "domain": certificate.domain,
        "role": certificate.name.role if certificate.name else None,
        "id": certificate.name.id if certificate.name else None,
        "location": certificate.name.location if certificate.name else None,
        "not_after": certificate.not_after.isoformat(),
        "days_left": certificate.days_left(now),
        "verdict": _verdict(certificate, now),
    }


def _verdict(certificate: certificates.Certificate, now: datetime.datetime) -> str:
    if not certificate.is_signed_by_domain:
        return "not signed by this domain"
    return "expired" if certificate.not_after <= now else "good"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
