"""ldap3, with its default check of the schema, against the door."""

import gc
import ssl
import warnings
from collections.abc import Iterator

import pytest
from ldap_door import ADMIN, PASSWORD, PEOPLE, SUFFIX, Door

from holdfast.ldap.extended import WHO_AM_I

with warnings.catch_warnings():
    # ldap3 imports names of pyasn1 that are deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from ldap3 import (
        ALL,
        MODIFY_ADD,
        MODIFY_DELETE,
        MODIFY_INCREMENT,
        MODIFY_REPLACE,
        SASL,
        SUBTREE,
        Connection,
        Server,
        Tls,
    )
    from ldap3.core.exceptions import LDAPAttributeError, LDAPObjectClassError

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    # ldap3 does not close every socket that it has opened.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(autouse=True)
def leaked_sockets() -> Iterator[None]:
    """What ldap3 leaves open is collected here, and not within a test of someone else."""
    yield
    gc.collect()


def admin(door: Door, **options: object) -> Connection:
    server = Server("127.0.0.1", door.port, get_info=ALL)
    return Connection(server, ADMIN, PASSWORD, auto_bind=True, **options)


def test_schema_and_root_are_understood(door: Door) -> None:
    """What ldap3 reads at bind lets it check names and classes before it sends them."""
    with admin(door) as connection:
        info = connection.server.info
        assert info.naming_contexts == [SUFFIX]
        assert "3" in info.supported_ldap_versions
        assert {each[0] for each in info.supported_controls} >= {
            "1.2.840.113556.1.4.319",
            "1.2.840.113556.1.4.473",
        }
        schema = connection.server.schema
        assert "inetOrgPerson" in schema.object_classes
        assert schema.attribute_types["mail"].equality == ["caseIgnoreIA5Match"]
        with pytest.raises(LDAPObjectClassError):
            connection.add(f"uid=x,{PEOPLE}", "noSuchClass")
        with pytest.raises(LDAPAttributeError):
            connection.add(f"uid=x,{PEOPLE}", "account", {"shoeSize": 38})


def test_an_entry_s_life(door: Door) -> None:
    """Add, search, modify with all four kinds of steps, rename, move and delete."""
    dn = f"cn=grace,{PEOPLE}"
    with admin(door) as connection:
        account = {"uid": "grace", "uidNumber": 41, "gidNumber": 1, "homeDirectory": "/", "description": "a"}
        assert connection.add(dn, ["account", "posixAccount"], account), connection.result
        steps = {
            "description": [(MODIFY_ADD, ["b", "c"]), (MODIFY_DELETE, ["a"])],
            "homeDirectory": [(MODIFY_REPLACE, ["/home/grace"])],
            "uidNumber": [(MODIFY_INCREMENT, [1])],
        }
        assert connection.modify(dn, steps), connection.result
        assert connection.search(SUFFIX, "(uidNumber=42)", SUBTREE, attributes=["*", "+"])
        entry = connection.entries[0]
        assert sorted(entry.description.values) == ["b", "c"]
        assert entry.homeDirectory.value == "/home/grace"
        assert entry.creatorsName.value == ADMIN
        assert entry.structuralObjectClass.value == "account"
        assert connection.modify_dn(dn, "cn=hopper", new_superior=f"ou=servers,{SUFFIX}")
        assert connection.delete(f"cn=hopper,ou=servers,{SUFFIX}")
        assert not connection.delete(f"cn=hopper,ou=servers,{SUFFIX}")
        assert connection.result["description"] == "noSuchObject"


def test_pages(door: Door) -> None:
    with admin(door) as connection:
        found = list(
            connection.extend.standard.paged_search(
                SUFFIX, "(objectClass=*)", attributes=["1.1"], paged_size=3, generator=True
            )
        )
        assert connection.search(SUFFIX, "(objectClass=*)", attributes=["1.1"])
        assert sorted(each["dn"] for each in found) == sorted(each.entry_dn for each in connection.entries)
        assert len(found) >= 8


@pytest.mark.covers("CSN-96", "CSN-99")
def test_a_bind_holds_until_the_next(door: Door) -> None:
    """Each bind takes the place of the one before, also one that fails."""
    with admin(door) as connection:
        assert connection.extend.standard.who_am_i() == f"dn:{ADMIN}"
        assert connection.rebind(f"uid=ada,{PEOPLE}", "analytical")
        assert connection.extend.standard.who_am_i() == f"dn:uid=ada,{PEOPLE}"
        assert not connection.delete(f"uid=bob,{PEOPLE}")
        assert not connection.rebind(f"uid=ada,{PEOPLE}", "wrong")
        assert not connection.extend.standard.who_am_i()


@pytest.mark.covers("CSN-102")
def test_an_extended_operation_is_known_by_its_name_or_refused(door: Door) -> None:
    """What the root DSE lists can be asked for; what it does not list ends in an error that says so, and the
    connection goes on."""
    with admin(door) as connection:
        known = {each[0] for each in connection.server.info.supported_extensions}
        assert WHO_AM_I in known
        assert connection.extended(WHO_AM_I)
        assert "1.3.6.1.4.1.99999.1" not in known
        assert not connection.extended("1.3.6.1.4.1.99999.1")
        assert connection.result["description"] == "protocolError"
        assert connection.extend.standard.who_am_i() == f"dn:{ADMIN}"


def test_external_over_ldaps(door: Door) -> None:
    files = door.certificates
    tls = Tls(
        local_private_key_file=str(files.client_key),
        local_certificate_file=str(files.client),
        validate=ssl.CERT_REQUIRED,
        ca_certs_file=str(files.ca),
    )
    server = Server("127.0.0.1", int(door.secure.rpartition(":")[2]), use_ssl=True, tls=tls, get_info=ALL)
    with Connection(server, auto_bind=True, authentication=SASL, sasl_mechanism="EXTERNAL") as connection:
        assert connection.extend.standard.who_am_i() == f"dn:uid=ada,{PEOPLE}"
        assert "EXTERNAL" in connection.server.info.supported_sasl_mechanisms
