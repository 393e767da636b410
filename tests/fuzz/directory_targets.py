"""What is fuzzed of the directory: LDAP messages, names, search filters, LDIF and schema descriptions.

As in :mod:`targets`, each target takes any bytes, and raises only when Holdfast is wrong.
"""

import contextlib
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.directory import operations
from holdfast.directory.dn import DN_CHARS_MAX, Dn, InvalidDn
from holdfast.directory.filters.evaluation import matches
from holdfast.directory.filters.text import InvalidFilter, filter_text, parse_filter
from holdfast.directory.interchange.changelog_text import (
    ChangelogHead,
    head2str,
    read_changelog,
    update2str,
)
from holdfast.directory.interchange.entry_text import entry2str, str2entry
from holdfast.directory.ldif import EntryRecord, InvalidLdif, Record, read_ldif, write_record
from holdfast.directory.primitives import ROOT
from holdfast.directory.replica.update import Update
from holdfast.directory.results import DirectoryError
from holdfast.directory.schema import standard_schema
from holdfast.directory.schema.descriptions import (
    DESCRIPTION_CHARS_MAX,
    InvalidDescription,
    parse_attribute,
    parse_class,
    parse_syntax,
)
from holdfast.ldap import controls as ldap_controls
from holdfast.ldap import extended
from holdfast.ldap.ber import BerError, Reader, Splitter
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.filter_ber import read_filter, write_filter
from holdfast.ldap.messages import (
    BindRequest,
    MalformedMessage,
    Message,
    Result,
    SaslAuthentication,
    SearchResultDone,
    SearchResultEntry,
    SimpleAuthentication,
    refusal,
)


def ldap(data: bytes) -> None:
    """Any bytes are LDAP messages, the same in any split, each read back as written, or refused."""
    whole, single = _messages([data]), _messages([bytes([each]) for each in data])
    assert whole == single
    for each in (*whole, data):
        try:
            message = decode(each)
        except MalformedMessage as error:
            answer = refusal(error)
            assert answer is None or decode(encode(answer)) == answer
            continue
        assert decode(encode(message)) == message
        with contextlib.suppress(DirectoryError):
            ldap_controls.read_request_controls(message.controls)
    try:
        change = extended.read_password_modify(data)
    except DirectoryError:
        return
    assert extended.read_password_modify(extended.write_password_modify(change).value) == change


def _messages(pieces: list[bytes]) -> list[bytes]:
    splitter = Splitter(bytes_max=2_000)
    found = []
    try:
        for piece in pieces:
            splitter.feed(piece)
            while (message := splitter.take()) is not None:
                found.append(message)
            assert splitter.missing > 0
            assert splitter.held_bytes < 2_000
    except BerError:
        assert splitter.held_bytes == 0
    return found


def dn(data: bytes) -> None:
    """Any text is a name that is read back as it is written and has a key, or is refused."""
    try:
        name = Dn.parse(data.decode("utf-8", "surrogateescape"))
    except InvalidDn:
        return
    again = str(name)
    if len(again) <= DN_CHARS_MAX:  # escapes make it longer
        assert Dn.parse(again) == name
    key = name.key(SCHEMA)
    parent = name.parent
    assert parent is None or key.startswith(parent.key(SCHEMA))


def search_filter(data: bytes) -> None:
    """Any text is a search filter that text and BER give back, with a verdict on any entry, or is refused."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        tree = parse_filter(text)
    except InvalidFilter as error:
        if not 0 <= error.at <= len(text):
            raise AssertionError(f"the mistake is nowhere in {text!r}") from error
        return
    assert parse_filter(filter_text(tree)) == tree
    assert read_filter(Reader(write_filter(tree))) == tree
    for entry in ENTRIES:
        assert matches(tree, entry, SCHEMA, NAME) in (True, False, None)


def ldif(data: bytes) -> None:
    """Any bytes are records, the same in any split and read back as they are written, or are refused."""
    try:
        records = list(read_ldif([data]))
    except InvalidLdif as error:
        if not 1 <= error.line <= data.count(b"\n") + 1:
            raise AssertionError(f"line {error.line} is nowhere in {data!r}") from error
        return
    assert list(read_ldif([data[: len(data) // 2], data[len(data) // 2 :]])) == records
    again = list(read_ldif(map(write_record, records)))
    assert [_unplaced(each) for each in again] == [_unplaced(each) for each in records]


def entry_text(data: bytes) -> None:
    """Any record is an entry with state, which is read back as it is written, or is refused with its line."""
    try:
        records = [each for each in read_ldif([data]) if isinstance(each, EntryRecord)]
    except InvalidLdif:
        return
    for record in records:
        try:
            entry = str2entry(record, SCHEMA, new_id=lambda: ROOT, parent_of=lambda dn: ROOT)
        except InvalidLdif as error:
            if error.line != record.line:
                raise AssertionError(f"line {error.line} is not that of the record {record.line}") from error
            continue
        (again,) = read_ldif([entry2str(entry, "cn=x", SCHEMA)])
        assert isinstance(again, EntryRecord)
        assert str2entry(again, SCHEMA) == entry


def changelog_text(data: bytes) -> None:
    """Any text is a changelog, which is read back as it is written, or is refused with a line."""
    found: list[ChangelogHead | Update] = []
    try:
        found.extend(read_changelog(read_ldif([data])))
    except InvalidLdif as error:
        if not 1 <= error.line <= data.count(b"\n") + 1:
            raise AssertionError(f"line {error.line} is nowhere in {data!r}") from error
        return
    head, *updates = found
    assert isinstance(head, ChangelogHead)
    text = head2str(head) + b"".join(update2str(each) for each in updates if isinstance(each, Update))
    assert list(read_changelog(read_ldif([text]))) == found


def _unplaced(record: Record) -> object:
    return msgspec.structs.replace(record, line=0)


def schema(data: bytes) -> None:
    """Any text describes an attribute, a class or a syntax, which is read back as written, or is refused."""
    text = data.decode("utf-8", "replace")
    for parse_description in (parse_attribute, parse_class, parse_syntax):
        try:
            found = parse_description(text)
        except InvalidDescription:
            continue
        if len(str(found)) <= DESCRIPTION_CHARS_MAX:
            assert parse_description(str(found)) == found


SCHEMA: Final = standard_schema()
NAME: Final = Dn.parse("uid=ada+cn=Ada,dc=example")
ENTRIES: Final[tuple[dict[str, list[bytes]], ...]] = (
    {"objectClass": [b"person"], "cn": [b"Ada"], "sn;lang-de": ["é".encode()], "uidNumber": [b"7"]},
    {
        "createTimestamp": [b"20261117124500Z"],
        "member": [b"cn=x,dc=y"],
        "description": [b"\xff"],
        "nosuch": [b""],
    },
)
NAMES: Final = (
    "uid=ada,dc=example,dc=com",
    r"OU=Sales+CN=J.  Smith\, \"III\",DC=net",
    r"1.3.6.1.4.1.1466.0=#04024869, cn=Lu\C4\8Di\C4\87\ ",
    "cn=\xff,",
    "",
)
SEARCH_FILTERS: Final = (
    "(&(objectClass=Person)(|(sn=Jensen)(cn=Babs J*)))",
    r"(!(cn:dn:2.5.13.5:=Fred\2a\ff))",
    "(|(uidNumber>=1)(createTimestamp<=20261117124500.5+0100)(cn~=a)(member=cn=x,dc=y)(o=*a*b*))",
    "(:caseIgnoreSubstringsMatch:=a*b)",
    "uid=x",
)
LDIF: Final = (
    b"version: 1\n# c\n  d\ndn: cn=x\ncn: x\ncn:: w6k=\ndescription: a\n b\n\ndn:: Y249w6k=\ncn;x:\n",
    b"dn: cn=x\r\ncontrol: 1.2 true:: AA==\r\nchangetype: delete\r\n",
    b"dn: cn=x\nchangetype: modify\nadd: cn\ncn: a\n-\ndelete: sn\n-\n\ndn: a=b\nchangetype: add\ncn: x\n",
    b"dn: cn=x\nchangetype: moddn\nnewrdn: cn=y\ndeleteoldrdn: 1\nnewsuperior: dc=x\n",
    b"dn: cn=x\ncn:< file:///x\n",
)
CSN: Final = b"03626325e0001a1a1"
UUID: Final = b"8c5a0a3e-0000-4000-8000-000000000001"
ENTRY_TEXTS: Final = (
    b"dn: cn=x\ndncsn: " + CSN + b"\ncn; vucsn-" + CSN + b": x\ndeletedAttribute: sn,adcsn-" + CSN + b"\n",
    b"dn: cn=x\ndncsn: "
    + CSN
    + b"\nlastModifiedCSN: "
    + CSN
    + b"\nentryUUID: "
    + UUID
    + b"\nrdnCSN: "
    + CSN
    + b" cn=x\nparentCSN: "
    + CSN
    + b" "
    + UUID
    + b" "
    + UUID
    + b"\ndeletedCSN: "
    + CSN
    + b"\nsupersededCSN: /entry "
    + CSN
    + b" <="
    + CSN
    + b"\nsupersededCSN: cn=eA== "
    + CSN
    + b"\n",
    b"dn: cn=x\ndncsn: " + CSN + b"\nnosuch;vdcsn-" + CSN + b";vkey-00ff;vsingle: x\n",
)
CHANGELOG_HEAD: Final = (
    b"dn: cn=changelog,cn=config\nreplicaSuffix: dc=x\nfromVector: g\nreplicaVector: g " + CSN + b"\n\n"
)
CHANGELOGS: Final = (
    CHANGELOG_HEAD
    + b"dn: csn="
    + CSN
    + b",cn=changelog\nchangeKind: add-value\nentryUUID: "
    + UUID
    + b"\nchangeAttribute: cn\nchangeValue: X\nchangeKey: x\nsingleValued: TRUE\n",
    CHANGELOG_HEAD
    + b"dn: csn="
    + CSN
    + b",cn=changelog\nchangeKind: move\nentryUUID: "
    + UUID
    + b"\nseenCSN: 03626325e0000a1a1\nparentUUID: "
    + UUID
    + b"\nleavesUUID: "
    + UUID
    + b"\n",
    CHANGELOG_HEAD
    + b"dn: csn="
    + CSN
    + b",cn=changelog\nchangeKind: rename\nentryUUID: "
    + UUID
    + b"\nchangeName: cn=x\nnameState:: k8QBYaRjbj14kA==\n",
)
MESSAGES: Final = (
    Message(1, BindRequest(3, "cn=x", SimpleAuthentication(b"p"))),
    Message(2, BindRequest(3, "", SaslAuthentication("EXTERNAL", b""))),
    *(
        Message(
            3,
            operations.SearchRequest("dc=x", operations.Scope.SUBTREE, parse_filter(each), ("cn", "+")),
            (ldap_controls.write_paged_results(ldap_controls.PagedResults(5, b"c")),),
        )
        for each in SEARCH_FILTERS
    ),
    Message(4, operations.AddRequest("cn=x", (operations.Attribute("cn", (b"x", b"y" * 200)),))),
    Message(
        5,
        operations.ModifyRequest(
            "cn=x", (operations.Modification(operations.ModificationKind.REPLACE, "cn", (b"z",)),)
        ),
    ),
    Message(6, operations.ModifyDnRequest("cn=x", "cn=y", True, "dc=z")),
    Message(7, extended.write_password_modify(extended.PasswordModify("u", b"o", b"n"))),
    Message(8, SearchResultEntry("cn=x", (operations.Attribute("cn", (b"x",)),))),
    Message(9, SearchResultDone(Result(10, "dc=x", "no", ("ldap://y",)))),
)

TARGETS: Final[dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "ldap": (
        ldap,
        (*map(encode, MESSAGES), b"\x30\x84\x00\x00\x00\x05\x02\x01\x01\x42\x00", b"\x30\x80"),
    ),
    "dn": (dn, tuple(map(str.encode, NAMES))),
    "search_filter": (search_filter, tuple(map(str.encode, SEARCH_FILTERS))),
    "ldif": (ldif, LDIF),
    "entry_text": (entry_text, ENTRY_TEXTS),
    "changelog_text": (changelog_text, CHANGELOGS),
    "schema": (schema, tuple(str(each).encode() for each in (*SCHEMA.attributes[:9], *SCHEMA.classes[:3]))),
}
