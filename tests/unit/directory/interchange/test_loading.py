"""A load makes of an entry what a client's add of it would have made."""

import pytest
from directory_replica import ADMIN, SUFFIX, Master, add, person

from holdfast.directory.dn import Dn
from holdfast.directory.interchange.loading import Loading
from holdfast.directory.ldif import EntryRecord, InvalidLdif
from holdfast.directory.operations import AddRequest
from holdfast.directory.primitives import EntryId
from holdfast.directory.replica.maps import ENTRIES, INDEX, MAPS, NAMES, SHOWN
from holdfast.directory.store import Batch
from holdfast.model.csn import Csn

ADDS = [
    add(SUFFIX, "domain", dc="Example"),
    add(f"ou=people,{SUFFIX}", "organizationalUnit", ou="people", description="all of them"),
    person("ada", mail=["ada@example.com", "Ada.Lovelace@example.com"], cn=["Ada", "Ada Lovelace"]),
    person("bob", sn="Noyce", telephoneNumber="+1 555 1212"),
    add(f"cn=left out,ou=people,{SUFFIX}", "person", sn="what the name says"),
    add(f"cn=two+sn=Names,ou=people,{SUFFIX}", "inetOrgPerson", sn="names", cn="Two", employeeNumber="7"),
    add(f"cn=a\\, b,OU=People,{SUFFIX}", "person", sn="x", cn="a, b"),
]


def rows(batch: Batch) -> dict[str, dict[bytes, bytes]]:
    found: dict[str, dict[bytes, bytes]] = {name: {} for name in MAPS}
    for name, key, value in batch.changes:
        assert value is not None
        found[name][bytes(key)] = bytes(value)
    return found


def loading_of(master: Master) -> Loading:
    return Loading(master.replica.schema, master.replica.suffix_name, master.store.read(), ADMIN)


def record(request: AddRequest) -> EntryRecord:
    return EntryRecord(1, request.dn, request.attributes)


def test_rows_are_those_of_adds() -> None:
    added, empty = Master(), Master()
    csns = [added.do(each) for each in ADDS]
    with added.store.read() as reader:
        stored = {name: dict(reader.rows(name)) for name in (ENTRIES, SHOWN, NAMES, INDEX)}
    sight = added.replica.sight
    loading = loading_of(empty)
    for request, csn in zip(ADDS, csns, strict=True):
        loading.add(record(request), csn, sight.find(Dn.parse(request.dn)))
    made = rows(loading.take_batch())
    for name, expected in stored.items():
        assert made[name] == expected, name


def the_id(number: int) -> EntryId:
    return EntryId(number.to_bytes(16, "big"))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (add(f"uid=a,ou=nowhere,{SUFFIX}", "person", cn="a", sn="a"), "parents stand before children"),
        (add("uid=a,dc=elsewhere", "person", cn="a", sn="a"), "not below dc=example"),
        (add(SUFFIX, "domain", dc="example"), "already"),
        (person("a", nosuch="x"), "there is no attribute 'nosuch'"),
        (person("a", userPassword="clear"), "no hash"),
        (person("a", mail=["x@y", "X@Y"]), "there twice"),
        (person("a", displayName=["x", "y"]), "one value"),
        (add(f"cn=a,{SUFFIX}", "person", cn="a"), "has the attribute sn"),
        (add(f"cn=a,{SUFFIX}", "device", cn="a", sn="b"), "no class of the entry"),
        (person("a", member="no name"), "member"),
        (person("a", hasSubordinates="TRUE", entryUUID="5"), "entryUUID"),
        (person("a", structuralObjectClass="person", conflict="x", csnstate="x"), "set by the server alone"),
    ],
)
def test_what_a_client_may_not_add_is_not_loaded(request_: AddRequest, said: str) -> None:
    master = Master()
    loading = loading_of(master)
    for number, each in enumerate(ADDS[:3]):
        loading.add(record(each), Csn(1, number, master.replica.id), the_id(number + 1))
    waiting = loading.entries
    with pytest.raises(InvalidLdif, match=said) as caught:
        loading.add(
            EntryRecord(77, request_.dn, request_.attributes), Csn(2, 0, master.replica.id), the_id(99)
        )
    assert caught.value.line == 77
    assert loading.entries == waiting


def test_another_server_s_export_is_taken() -> None:
    """Its ids and creators are kept, its own bookkeeping is left out, and so is what was asked for."""
    master = Master()
    schema, suffix = master.replica.schema, master.replica.suffix_name
    loading = Loading(schema, suffix, master.store.read(), ADMIN, ignored=frozenset({"memberof"}))
    loading.add(record(ADDS[0]), Csn(1, 0, master.replica.id), the_id(1))
    uuid = "8c5a0a3e-0000-4000-8000-000000000001"
    theirs = add(
        f"ou=x,{SUFFIX}",
        "organizationalUnit",
        ou="x",
        entryUUID=uuid,
        entryCSN="20260101000000.000000Z#000000#000#000000",
        createTimestamp="20260101000000Z",
        creatorsName="cn=theirs",
        memberOf="cn=all",
    )
    loading.add(record(theirs), Csn(1, 1, master.replica.id), the_id(2))
    kept = rows(loading.take_batch())[ENTRIES]
    identity = bytes.fromhex(uuid.replace("-", ""))
    assert identity in kept
    assert b"cn=theirs" in kept[identity]
    assert b"2026" not in kept[identity]
