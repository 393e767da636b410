"""Certificates: what is made, who may read it, and what the command shows."""

import datetime
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.model.errors import InvalidRequest
from holdfast.net import Role
from holdfast.net.certificates import ISSUED_DAYS, create_domain, issue, issue_machine, name_in, show
from holdfast.net.handshake import CertifiedName
from holdfast.net.tls import certificate_uri, parse_certificate_uri

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def domain(tmp_path: Path) -> Path:
    create_domain(tmp_path / "certs", "shop", NOW)
    return tmp_path / "certs"


def test_keys_are_readable_by_their_owner_only(domain: Path) -> None:
    """Every private key is 0600, also after a renewal."""
    issue(domain, Role.HOST, "host1", NOW)
    issue(domain, Role.HOST, "host1", NOW, renew=True)
    keys = sorted(domain.glob("*.key"))
    assert [key.name for key in keys] == ["ca.key", "host-host1.key"]
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert not list(domain.glob("*.new"))


def test_what_was_issued_is_shown(domain: Path) -> None:
    """The list has the role, the id, the domain, the days left, and whether this domain signed it."""
    issue(domain, Role.HOST, "host1", NOW, addresses=("10.0.0.1", "host1.example"))
    issue(domain, Role.AGENT, "machine-1", NOW, days=10)
    found = show(domain)
    assert [certificate.name for certificate in found] == [
        None,
        CertifiedName("shop", Role.AGENT, "machine-1"),
        CertifiedName("shop", Role.HOST, "host1"),
    ]
    assert [certificate.days_left(NOW) for certificate in found[1:]] == [10, ISSUED_DAYS]
    assert found[1].days_left(NOW + datetime.timedelta(days=11)) == -1
    assert all(certificate.is_signed_by_domain for certificate in found)


def test_a_certificate_of_another_domain_is_recognised(domain: Path, tmp_path: Path) -> None:
    """The names are the same, but the signature is not."""
    create_domain(tmp_path / "other", "shop", NOW)
    file = issue(tmp_path / "other", Role.HOST, "host1", NOW)
    (domain / file.name).write_bytes(file.read_bytes())
    assert [certificate.is_signed_by_domain for certificate in show(domain)] == [True, False]


def test_nothing_is_replaced_by_accident(domain: Path) -> None:
    """The domain's own certificate is never replaced, and an issued one only on request."""
    before = (domain / "ca.pem").read_bytes()
    with pytest.raises(InvalidRequest):
        create_domain(domain, "shop", NOW)
    assert (domain / "ca.pem").read_bytes() == before
    first = issue(domain, Role.CLIENT, "c", NOW).read_bytes()
    with pytest.raises(InvalidRequest, match="--renew"):
        issue(domain, Role.CLIENT, "c", NOW)
    assert issue(domain, Role.CLIENT, "c", NOW, renew=True).read_bytes() != first


@pytest.mark.parametrize("id", ["", "a/b", "../x", "a b", "x" * 101, "-x", "ä"])
def test_ids_that_cannot_be_named_are_refused(domain: Path, id: str) -> None:
    with pytest.raises(InvalidRequest):
        issue(domain, Role.HOST, id, NOW)
    assert sorted(file.name for file in domain.iterdir()) == ["ca.key", "ca.pem"]


def test_nothing_is_issued_without_the_domains_key(domain: Path) -> None:
    (domain / "ca.key").unlink()
    with pytest.raises(InvalidRequest, match=r"ca\.key"):
        issue(domain, Role.HOST, "host1", NOW)


@pytest.mark.parametrize("days", [0, -1, 100_000])
def test_validity_has_bounds(domain: Path, days: int) -> None:
    with pytest.raises(InvalidRequest):
        issue(domain, Role.HOST, "host1", NOW, days=days)


def test_only_our_uris_name_somebody() -> None:
    assert parse_certificate_uri(certificate_uri("shop", Role.HOST, "h")) == CertifiedName(
        "shop", Role.HOST, "h"
    )
    for uri in (
        "https://shop/host/h",
        "holdfast://shop/king/h",
        "holdfast://shop/host",
        "holdfast://shop/host/h/x",
    ):
        assert parse_certificate_uri(uri) is None


def test_a_machine_gets_all_that_it_needs_and_not_the_key_that_signs(domain: Path, tmp_path: Path) -> None:
    """Only its hosts are at a location; the certificates are of the domain."""
    to = tmp_path / "m1"
    made = issue_machine(
        domain, "m1", NOW, to=to, hosts=["m1-1", "m1-2"], location="rack1/m1", with_authority=True
    )
    stems = ["agent-m1", "host-m1-1", "host-m1-2", "admin-m1", "authority-authority"]
    assert [file.stem for file in made] == stems
    assert {file.name for file in to.iterdir()} == {
        "ca.pem",
        *(f"{each}.{k}" for each in stems for k in ("pem", "key")),
    }
    assert name_in(to / "host-m1-2.pem") == CertifiedName("shop", Role.HOST, "m1-2", "rack1/m1")
    assert name_in(to / "agent-m1.pem") == CertifiedName("shop", Role.AGENT, "m1")
    assert all(each.is_signed_by_domain for each in show(to))


def test_a_machine_trusts_all_that_the_domain_trusts(domain: Path, tmp_path: Path) -> None:
    """While the signing certificate is renewed, `ca.pem` holds the old one, too: machines go on together."""
    create_domain(tmp_path / "new", "shop", NOW)
    both = (domain / "ca.pem").read_bytes() + (tmp_path / "new" / "ca.pem").read_bytes()
    (domain / "ca.pem").write_bytes(both)
    issue_machine(domain, "m1", NOW, to=tmp_path / "m1", hosts=["m1"], location="rack1/m1")
    assert (tmp_path / "m1" / "ca.pem").read_bytes() == both


@pytest.mark.parametrize("location", ["/rack1", "rack1//m1", "rack1/", "rack 1", "x" * 201, "rack1/m?a=b"])
def test_a_location_that_cannot_be_named_is_refused(domain: Path, location: str) -> None:
    with pytest.raises(InvalidRequest, match="location"):
        issue(domain, Role.HOST, "host1", NOW, location=location)


def holdfast(*words: str) -> "subprocess.CompletedProcess[str]":
    program = "from holdfast.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60)


def test_the_command_makes_and_shows(tmp_path: Path) -> None:
    """create, issue and show: data goes to stdout, messages to stderr; misuse exits with 2 and one line."""
    directory = str(tmp_path / "certs")
    assert holdfast("certs", "create", "--dir", directory, "--domain", "shop").returncode == 0
    issued = holdfast("certs", "issue", "--dir", directory, "--role", "host", "--id", "host1")
    assert (issued.returncode, issued.stdout) == (0, "")
    shown = json.loads(holdfast("certs", "show", "--dir", directory, "--output", "json").stdout)
    assert [row["id"] for row in shown["certificates"]] == [None, "host1"]
    assert {row["verdict"] for row in shown["certificates"]} == {"good"}
    assert shown["certificates"][1]["days_left"] == ISSUED_DAYS - 1
    again = holdfast("certs", "issue", "--dir", directory, "--role", "host", "--id", "host1")
    assert again.returncode == 2
    assert again.stderr.startswith("holdfast: ")
    assert again.stderr.count("\n") == 1


def test_a_key_that_is_not_the_domains_signs_nothing(domain: Path, tmp_path: Path) -> None:
    """Whoever has ``ca.pem`` would refuse what it signs, and only when the machine starts."""
    create_domain(tmp_path / "other", "shop", NOW)
    (domain / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(InvalidRequest, match=r"ca\.key is not the key of .*ca\.pem.*Nothing was made"):
        issue(domain, Role.HOST, "host1", NOW)
    assert sorted(file.name for file in domain.iterdir()) == ["ca.key", "ca.pem"]


@pytest.mark.parametrize("is_new_first", [True, False])
def test_while_the_domains_certificate_is_replaced_both_are_good(
    domain: Path, tmp_path: Path, is_new_first: bool
) -> None:
    """``ca.pem`` holds the old and the new one, in any order; what either signed is good."""
    issue(domain, Role.HOST, "host1", NOW)
    create_domain(tmp_path / "new", "shop", NOW)
    files = [domain / "ca.pem", tmp_path / "new" / "ca.pem"]
    both = b"".join(file.read_bytes() for file in (reversed(files) if is_new_first else files))
    (domain / "ca.pem").write_bytes(both)
    (domain / "ca.key").write_bytes((tmp_path / "new" / "ca.key").read_bytes())
    issue(domain, Role.HOST, "host2", NOW)
    found = show(domain)
    assert [(each.file.name, each.is_signed_by_domain) for each in found] == [
        ("ca.pem", True),
        ("host-host1.pem", True),
        ("host-host2.pem", True),
    ]
