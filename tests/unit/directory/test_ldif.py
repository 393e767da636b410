"""LDIF: entries and changes, read in any pieces and written."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.directory import ldif
from holdfast.directory.ldif import (
    ChangeRecord,
    EntryRecord,
    InvalidLdif,
    LdifControl,
    Record,
    read_ldif,
    write_entry,
    write_record,
)
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
)

CONTENT = b"""version: 1
# A comment, which
  goes on.
dn: cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com
objectclass: top
objectclass: person
cn: Barbara Jensen
CN: Barbara J Jensen
cn:Babs Jensen
description:Babs is a big sailing fan, and travels extensively in sea
 rch of perfect sailing conditions.
title:
sn:: SmVuc2Vu

dn:: Y249w6k=
cn: \xc3\xa9


"""
CONTENT_RECORDS = [
    EntryRecord(
        4,
        "cn=Barbara Jensen, ou=Product Development, dc=airius, dc=com",
        (
            Attribute("objectclass", (b"top", b"person")),
            Attribute("cn", (b"Barbara Jensen", b"Barbara J Jensen", b"Babs Jensen")),
            Attribute(
                "description",
                (
                    b"Babs is a big sailing fan, and travels extensively in search "
                    b"of perfect sailing conditions.",
                ),
            ),
            Attribute("title", (b"",)),
            Attribute("sn", (b"Jensen",)),
        ),
    ),
    EntryRecord(15, "cn=é", (Attribute("cn", ("é".encode(),)),)),
]

CHANGES = b"""version: 1
dn: cn=Fiona Jensen, dc=airius
changetype: add
objectclass: person
sn: Jensen

dn: cn=Robert Jensen, dc=airius
control: 1.2.840.113556.1.4.805 true
control: 1.2.3
control: 1.2.4 false: plain
control: 1.2.5 true:: AAE=
changetype: delete

dn: cn=Paul Jensen, dc=airius
changetype: modrdn
newrdn: cn=Paula Jensen
deleteoldrdn: 1

dn: ou=PD Accountants, dc=airius
changetype: moddn
newrdn: ou=Accountants
deleteoldrdn: 0
newsuperior: ou=Accounting, dc=airius

dn: cn=Paula Jensen, dc=airius
changetype: modify
add: postaladdress
postaladdress: 123 Anystreet $ Sunnyvale
-
delete: description
-
replace: telephonenumber
telephonenumber: +1 408 555 1234
telephonenumber: +1 408 555 5678
-
increment: uidNumber
uidNumber: 1
"""
PAULA = "cn=Paula Jensen, dc=airius"
CHANGE_RECORDS = [
    ChangeRecord(
        2,
        AddRequest(
            "cn=Fiona Jensen, dc=airius",
            (Attribute("objectclass", (b"person",)), Attribute("sn", (b"Jensen",))),
        ),
    ),
    ChangeRecord(
        7,
        DeleteRequest("cn=Robert Jensen, dc=airius"),
        (
            LdifControl("1.2.840.113556.1.4.805", True),
            LdifControl("1.2.3"),
            LdifControl("1.2.4", False, b"plain"),
            LdifControl("1.2.5", True, b"\x00\x01"),
        ),
    ),
    ChangeRecord(14, ModifyDnRequest("cn=Paul Jensen, dc=airius", "cn=Paula Jensen", True)),
    ChangeRecord(
        19,
        ModifyDnRequest("ou=PD Accountants, dc=airius", "ou=Accountants", False, "ou=Accounting, dc=airius"),
    ),
    ChangeRecord(
        25,
        ModifyRequest(
            PAULA,
            (
                Modification(ModificationKind.ADD, "postaladdress", (b"123 Anystreet $ Sunnyvale",)),
                Modification(ModificationKind.DELETE, "description"),
                Modification(
                    ModificationKind.REPLACE, "telephonenumber", (b"+1 408 555 1234", b"+1 408 555 5678")
                ),
                Modification(ModificationKind.INCREMENT, "uidNumber", (b"1",)),
            ),
        ),
    ),
]


@pytest.mark.parametrize("text", [CONTENT, CHANGES])
def test_the_examples_in_every_split(text: bytes) -> None:
    """RFC 2849; lines may end as on Unix or elsewhere, and bytes arrive in any pieces."""
    records = CONTENT_RECORDS if text is CONTENT else CHANGE_RECORDS
    assert list(read_ldif([text])) == records
    assert list(read_ldif([text.replace(b"\n", b"\r\n")])) == records
    assert list(read_ldif(bytes([each]) for each in text.replace(b"\n", b"\r\n"))) == records
    for at in range(0, len(text), 7):
        assert list(read_ldif([text[:at], text[at:]])) == records


names = st.from_regex(r"[a-z]{1,5}(;[a-z]{1,3})?", fullmatch=True).filter(
    lambda name: name not in ("dn", "control")
)
descriptions = names.filter(lambda name: name != "changetype")
values = st.binary(max_size=100) | st.text(max_size=40).map(str.encode)
attributes = st.lists(
    st.builds(Attribute, descriptions, st.lists(values, min_size=1, max_size=3).map(tuple)),
    min_size=1,
    max_size=3,
    unique_by=lambda each: each.description,
).map(tuple)
texts = st.text(max_size=100)
lines = st.just(1)
controls = st.lists(
    st.builds(LdifControl, st.just("1.2.3"), st.booleans(), st.none() | st.binary(max_size=90)), max_size=2
).map(tuple)
changes = (
    st.builds(AddRequest, texts, attributes)
    | st.builds(DeleteRequest, texts)
    | st.builds(
        ModifyRequest,
        texts,
        st.lists(
            st.builds(
                Modification,
                st.sampled_from(ModificationKind),
                descriptions,
                st.lists(values, max_size=3).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
    )
    | st.builds(ModifyDnRequest, texts, texts, st.booleans(), st.none() | texts)
)
records = st.builds(EntryRecord, lines, texts, attributes) | st.builds(ChangeRecord, lines, changes, controls)


@given(records)
@settings(max_examples=60)
def test_every_record_is_read_back(record: Record) -> None:
    written = write_record(record)
    assert max(map(len, written.split(b"\n"))) <= ldif.COLUMNS
    assert written.isascii()
    assert list(read_ldif([written])) == [record]


def test_values_are_plain_only_where_they_are_safe() -> None:
    entry = write_entry(
        "cn=x", [Attribute("cn", (b"a", b" a", b":a", b"<a", b"a ", b"", b"a\nb", b"\xc3\xa9", b"a\x00"))]
    )
    assert [line for line in entry.split(b"\n") if line.startswith(b"cn: ")] == [b"cn: a", b"cn: "]


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (b"cn: x\n", 1, "begins with dn"),
        (b"version: 2\ndn: cn=x\n", 1, "version"),
        (b"dn: cn=x\ncn: x\n\n\ndn: cn=y\ncn\n", 6, "colon"),
        (b"dn: cn=x\n c_n: y\n_: z", 3, "no attribute"),
        (b"\n\n x\n", 3, "continues"),
        (b" x\n", 1, "continues"),
        (b"dn: cn=x\ncn:: x\n", 2, "base64"),
        (b"dn: cn=x\ncn:: AAE=AAE=\n", 2, "base64"),
        (b"dn:: /w==\ncn: x\n", 1, "UTF-8"),
        (b"dn: cn=x\ncn:< file:///etc/passwd\n", 2, "not allowed"),
        (b"dn: cn=x\n", 1, "no attributes"),
        (b"dn: cn=x\ncn: a\x00b\n", 2, "base64"),
        (b"dn: cn=x\n-\n", 2, "hyphen"),
        (b"dn: cn=x\ncontrol: 1.2.3\ncn: x\n", 1, "changetype"),
        (b"dn: cn=x\ncontrol: x\nchangetype: delete\n", 2, "control"),
        (b"dn: cn=x\ncontrol: 1.2.3 true:: %\nchangetype: delete\n", 2, "base64"),
        (b"dn: cn=x\nchangetype: destroy\n", 2, "changetype"),
        (b"dn: cn=x\nchangetype: delete\ncn: x\n", 3, "nothing"),
        (b"dn: cn=x\nchangetype: add\n", 2, "no attributes"),
        (b"dn: cn=x\nchangetype: modify\ncn: x\n", 3, "expected"),
        (b"dn: cn=x\nchangetype: modify\nadd: cn\nsn: x\n", 4, "hyphen"),
        (b"dn: cn=x\nchangetype: modrdn\nnewrdn: cn=y\n", 3, "deleteoldrdn"),
        (b"dn: cn=x\nchangetype: modrdn\n", 2, "newrdn"),
        (b"dn: cn=x\nchangetype: modrdn\nnewrdn: cn=y\ndeleteoldrdn: yes\n", 4, "0 or 1"),
    ],
)
def test_mistakes_are_told_with_their_line(text: bytes, line: int, says: str) -> None:
    with pytest.raises(InvalidLdif, match=says) as caught:
        list(read_ldif([text]))
    assert caught.value.line == line


def test_records_before_a_mistake_are_given() -> None:
    reading = read_ldif([b"dn: cn=x\ncn: x\n\nnonsense\n"])
    assert next(reading) == EntryRecord(1, "cn=x", (Attribute("cn", (b"x",)),))
    with pytest.raises(InvalidLdif, match="line 4"):
        next(reading)


def test_values_elsewhere_are_fetched_only_by_who_allows_it() -> None:
    fetched = read_ldif([b"dn: cn=x\ncn:< file:///a b\n"], fetch=lambda url: url.upper().encode())
    assert list(fetched) == [EntryRecord(1, "cn=x", (Attribute("cn", (b"FILE:///A B",)),))]


def test_what_never_ends_is_refused_before_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line, a folded line or a record beyond the bound ends the reading while it arrives."""
    monkeypatch.setattr(ldif, "RECORD_BYTES_MAX", 10_000)
    monkeypatch.setattr(ldif, "RECORD_LINES_MAX", 100)
    given_bytes = 0

    def endless(piece: bytes) -> Iterator[bytes]:
        nonlocal given_bytes
        given_bytes = 0
        yield b"dn: cn=x\n"
        while True:
            given_bytes += len(piece)
            yield piece

    for piece in (b"x" * 100, b"cn: x" + b"y" * 90 + b"\n", b" x" * 50 + b"\n", b"# y" * 30, b"a: b\n"):
        with pytest.raises(InvalidLdif, match="more than"):
            list(read_ldif(endless(piece)))
        assert given_bytes < 11_000


def test_any_number_of_records_streams() -> None:
    """Records are given as they come: what follows is not read first."""

    def pieces() -> Iterator[bytes]:
        yield from (b"dn: cn=%d\ncn: %d\n\n" % (each, each) for each in range(3))
        raise AssertionError("read too far")

    reading = read_ldif(pieces())
    assert [next(reading).line for _ in range(2)] == [1, 4]
