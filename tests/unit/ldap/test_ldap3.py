"""A client nobody here wrote, ldap3, understands what we send, and we what it sends.

The server is only the codec with canned answers; ldap3 reads the root DSE and the schema from it as it does
by default, checks names and values against that schema, and does every operation once.
"""

import socket
import threading
import warnings
from collections.abc import Iterator

import pytest

from holdfast.directory.filters.filter import And, Equality, Extensible, Not, Or, Present, Substrings
from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    CompareRequest,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyDnRequest,
    ModifyRequest,
    Scope,
    SearchRequest,
)
from holdfast.directory.results import ResultCode
from holdfast.directory.schema import standard_schema
from holdfast.ldap import controls as known_controls
from holdfast.ldap import extended
from holdfast.ldap.ber import Splitter
from holdfast.ldap.controls import PagedResults, SortKey, SortResult
from holdfast.ldap.decoding import decode
from holdfast.ldap.encoding import encode
from holdfast.ldap.messages import (
    SUCCESS,
    BindRequest,
    BindResponse,
    CompareResponse,
    Control,
    ExtendedRequest,
    Message,
    Request,
    Response,
    Result,
    SearchResultDone,
    SearchResultEntry,
    SearchResultReference,
    SimpleAuthentication,
    Tag,
    UnbindRequest,
    answer_with,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of pyasn1's old names, which ldap3 uses
    import ldap3
    from ldap3.core.exceptions import LDAPAttributeError, LDAPObjectClassError
    from ldap3.protocol.schemas.slapd24 import slapd_2_4_schema

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SCHEMA = standard_schema()
ROOT_DSE = SearchResultEntry(
    "",
    (
        Attribute("objectClass", (b"top", b"extensibleObject")),
        Attribute("namingContexts", (b"dc=example,dc=com",)),
        Attribute("subschemaSubentry", (b"cn=Subschema",)),
        Attribute("supportedLDAPVersion", (b"3",)),
        Attribute("supportedControl", tuple(each.encode() for each in known_controls.KNOWN)),
        Attribute("supportedExtension", (extended.WHO_AM_I.encode(), extended.PASSWORD_MODIFY.encode())),
        Attribute("vendorName", (b"Holdfast",)),
    ),
)
SUBSCHEMA = SearchResultEntry(
    "cn=Subschema",
    (
        Attribute("objectClass", (b"top", b"subentry", b"subschema", b"extensibleObject")),
        Attribute("cn", (b"Subschema",)),
        *(
            Attribute(name, tuple(each.encode() for each in values))
            for name, values in SCHEMA.subschema().items()
        ),
    ),
)
ADA = SearchResultEntry(
    "uid=ada,dc=example,dc=com",
    (
        Attribute("objectClass", (b"inetOrgPerson",)),
        Attribute("uid", (b"ada",)),
        Attribute("cn", ("Ada Lovelacé".encode(), b"Ada")),
        Attribute("jpegPhoto", (b"\xff\xd8" + bytes(70_000),)),
        Attribute("createTimestamp", (b"20261117124500Z",)),
    ),
)


class CannedServer:
    """Answers one connection from a table, and keeps what was asked."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(10)
        self.port: int = self._listener.getsockname()[1]
        self.asked: list[Message] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        splitter = Splitter(bytes_max=1_000_000)
        with connection:
            while data := connection.recv(7):
                splitter.feed(data)
                while (written := splitter.take()) is not None:
                    message = decode(written)
                    assert encode(message) == written or message.controls  # ldap3 writes as short as we do
                    self.asked.append(message)
                    if isinstance(message.operation, UnbindRequest):
                        return
                    for each in self._answers(message.operation, message.controls):
                        controls = each[1:]
                        connection.sendall(encode(Message(message.message_id, each[0], controls)))

    def _answers(self, request: Request, controls: tuple[Control, ...]) -> Iterator[tuple]:  # type: ignore[type-arg]
        match request:
            case BindRequest(authentication=SimpleAuthentication(b"wrong")):
                yield (BindResponse(Result(ResultCode.INVALID_CREDENTIALS, "", "no such password")),)
            case SearchRequest(base="", scope=Scope.BASE):
                yield (ROOT_DSE,)
                yield (SearchResultDone(SUCCESS),)
            case SearchRequest(base="cn=Subschema"):
                yield (SUBSCHEMA,)
                yield (SearchResultDone(SUCCESS),)
            case SearchRequest():
                asked = known_controls.read_request_controls(controls)
                yield (ADA,)
                yield (SearchResultReference(("ldap://other.example/dc=x",)),)
                answer = []
                if asked.paged is not None:
                    answer.append(known_controls.write_paged_results(PagedResults(0, b"next")))
                if asked.sort is not None:
                    answer.append(known_controls.write_sort_result(SortResult(0)))
                yield (SearchResultDone(SUCCESS), *answer)
            case CompareRequest(value=value):
                code = ResultCode.COMPARE_TRUE if value == b"ada" else ResultCode.COMPARE_FALSE
                yield (CompareResponse(Result(code)),)
            case DeleteRequest():
                referral = Result(ResultCode.REFERRAL, "dc=example", "elsewhere", ("ldap://other.example",))
                yield (answer_with(Tag.DELETE_REQUEST, referral),)
            case ExtendedRequest(name=extended.WHO_AM_I):
                yield (extended.who_am_i("dn:uid=ada,dc=example,dc=com"),)
            case ExtendedRequest(name=extended.PASSWORD_MODIFY, value=value):
                assert extended.read_password_modify(value).old_password == b"old"
                yield (extended.generated_password(b"gen3rated"),)
            case _:
                yield (_success(request),)

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


def _success(request: Request) -> Response | None:
    tags = {
        BindRequest: Tag.BIND_REQUEST,
        AddRequest: Tag.ADD_REQUEST,
        ModifyRequest: Tag.MODIFY_REQUEST,
        ModifyDnRequest: Tag.MODIFY_DN_REQUEST,
    }
    return answer_with(tags[type(request)], SUCCESS)


@pytest.fixture(scope="module")
def canned() -> Iterator[CannedServer]:
    server = CannedServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def client(canned: CannedServer) -> Iterator["ldap3.Connection"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        server = ldap3.Server("127.0.0.1", canned.port, get_info=ldap3.ALL)
        connection = ldap3.Connection(
            server, "cn=admin", "s3cret", auto_bind=True, check_names=True, auto_referrals=False
        )
    yield connection
    connection.unbind()


def last(canned: CannedServer) -> Request | Response:
    return canned.asked[-1].operation


def test_it_binds_and_reads_the_schema(canned: CannedServer, client: "ldap3.Connection") -> None:
    assert canned.asked[0].operation == BindRequest(3, "cn=admin", SimpleAuthentication(b"s3cret"))
    assert client.server.info.naming_contexts == ["dc=example,dc=com"]
    assert client.server.info.vendor_name == ["Holdfast"]
    schema = client.server.schema
    assert len({each.oid for each in schema.attribute_types.values()}) == len(SCHEMA.attributes)
    assert len({each.oid for each in schema.object_classes.values()}) == len(SCHEMA.classes)
    cn = schema.attribute_types["commonName"]
    assert (cn.oid, cn.superior) == ("2.5.4.3", ["name"])
    assert schema.attribute_types["createTimestamp"].no_user_modification
    assert schema.attribute_types["uidNumber"].single_value
    assert set(schema.object_classes["person"].must_contain) == {"sn", "cn"}
    assert schema.matching_rules["caseIgnoreMatch"].oid == "2.5.13.2"
    assert schema.ldap_syntaxes["1.3.6.1.4.1.1466.115.121.1.15"].description == "Directory String"


def test_its_default_check_uses_that_schema(client: "ldap3.Connection") -> None:
    with pytest.raises(LDAPAttributeError):
        client.search("dc=example,dc=com", "(nosuch=x)", attributes=["cn"])
    with pytest.raises(LDAPObjectClassError):
        client.add("cn=x", "nosuchClass")


FILTERS = {
    "(&(objectClass=person)(|(uid=ada)(!(sn=x*y*z))))": And(
        (
            Equality("objectClass", b"person"),
            Or((Equality("uid", b"ada"), Not(Substrings("sn", b"x", (b"y",), b"z")))),
        )
    ),
    "(cn:dn:caseExactMatch:=Ada)": Extensible(b"Ada", "caseExactMatch", "cn", in_dn=True),
    "(cn=*)": Present("cn"),
    r"(cn=a\2ab\28)": Equality("cn", b"a*b("),
}


@pytest.mark.parametrize("text", FILTERS)
def test_it_searches(canned: CannedServer, client: "ldap3.Connection", text: str) -> None:
    sort = ldap3.protocol.rfc2696.paged_search_control(criticality=True, size=5, cookie=b"c")
    assert client.search(
        "dc=example,dc=com", text, attributes=["cn", "jpegPhoto", "+"], size_limit=7, controls=[sort]
    )
    request = last(canned)
    assert isinstance(request, SearchRequest)
    assert request.filter == FILTERS[text] == parse_filter(text)
    assert (request.base, request.scope, request.size_limit) == ("dc=example,dc=com", Scope.SUBTREE, 7)
    assert request.attributes == ("cn", "jpegPhoto", "+")
    assert known_controls.read_request_controls(canned.asked[-1].controls).paged == PagedResults(5, b"c")
    entry = client.response[0]
    assert entry["dn"] == ADA.dn
    assert entry["raw_attributes"]["cn"] == list(ADA.attributes[2].values)
    assert entry["raw_attributes"]["jpegPhoto"] == list(ADA.attributes[3].values)
    assert entry["attributes"]["createTimestamp"].year == 2026
    assert client.response[1]["uri"] == ["ldap://other.example/dc=x"]
    assert client.result["controls"][known_controls.PAGED_RESULTS]["value"]["cookie"] == b"next"


def test_it_asks_for_a_sorted_result(canned: CannedServer, client: "ldap3.Connection") -> None:
    keys = (SortKey("cn"), SortKey("sn", "2.5.13.3", is_reverse=True))
    ours = known_controls.write_sort_keys(keys)
    client.search("dc=example,dc=com", "(cn=*)", controls=[(ours.oid, False, ours.value)])
    assert known_controls.read_request_controls(canned.asked[-1].controls).sort == keys


def test_it_changes_entries(canned: CannedServer, client: "ldap3.Connection") -> None:
    name = "uid=ada,dc=example,dc=com"
    assert client.add(name, ["inetOrgPerson"], {"cn": "Ada", "sn": "Lovelacé", "uid": ["ada", "lady"]})
    added = last(canned)
    assert isinstance(added, AddRequest)
    assert added.dn == name
    assert {each.description: each.values for each in added.attributes} == {
        "objectClass": (b"inetOrgPerson",),
        "cn": (b"Ada",),
        "sn": ("Lovelacé".encode(),),
        "uid": (b"ada", b"lady"),
    }
    assert client.modify(
        name,
        {
            "cn": [(ldap3.MODIFY_ADD, ["A"]), (ldap3.MODIFY_DELETE, ["B"])],
            "sn": [(ldap3.MODIFY_REPLACE, [])],
            "uidNumber": [(ldap3.MODIFY_INCREMENT, ["1"])],
        },
    )
    assert last(canned) == ModifyRequest(
        name,
        (
            Modification(ModificationKind.ADD, "cn", (b"A",)),
            Modification(ModificationKind.DELETE, "cn", (b"B",)),
            Modification(ModificationKind.REPLACE, "sn"),
            Modification(ModificationKind.INCREMENT, "uidNumber", (b"1",)),
        ),
    )
    assert client.modify_dn(name, "uid=lady", delete_old_dn=False, new_superior="ou=x,dc=example,dc=com")
    assert last(canned) == ModifyDnRequest(name, "uid=lady", False, "ou=x,dc=example,dc=com")
    client.delete(name)
    assert last(canned) == DeleteRequest(name)
    assert client.result["result"] == ResultCode.REFERRAL
    assert client.result["referrals"] == ["ldap://other.example"]
    assert (client.result["dn"], client.result["message"]) == ("dc=example", "elsewhere")


def test_it_compares_and_asks_who_it_is(canned: CannedServer, client: "ldap3.Connection") -> None:
    assert client.compare("uid=ada,dc=example,dc=com", "uid", "ada") is True
    assert last(canned) == CompareRequest("uid=ada,dc=example,dc=com", "uid", b"ada")
    assert client.compare("uid=ada,dc=example,dc=com", "uid", "bob") is False
    assert client.extend.standard.who_am_i() == "dn:uid=ada,dc=example,dc=com"
    assert client.extend.standard.modify_password("uid=ada,dc=example,dc=com", "old") == "gen3rated"


def test_a_refused_bind_is_told_with_its_reason(canned: CannedServer, client: "ldap3.Connection") -> None:
    assert client.rebind("cn=admin", "wrong") is False
    assert client.result["result"] == ResultCode.INVALID_CREDENTIALS
    assert client.result["message"] == "no such password"


def test_the_standard_schema_agrees_with_another_servers() -> None:
    """OIDs, names, syntaxes and rules are as OpenLDAP has them, in the copy that ldap3 brings along."""
    info = ldap3.SchemaInfo.from_json(slapd_2_4_schema)
    compared = 0
    for ours in SCHEMA.attributes:
        theirs = info.attribute_types.get(ours.oid)
        if theirs is None:
            continue
        compared += 1
        assert {each.lower() for each in ours.names} == {each.lower() for each in theirs.name}, ours
        assert (ours.syntax is None) == (theirs.syntax is None), ours
        if ours.syntax is not None:
            assert theirs.syntax.partition("{")[0] == ours.syntax, ours
        assert ours.is_single_valued == bool(theirs.single_value), ours
    assert compared > 140
    for each in SCHEMA.classes:
        other = info.object_classes.get(each.oid)
        if other is not None and each.names != ("subschema",):
            assert {name.lower() for name in each.must} == {name.lower() for name in other.must_contain}, each
            assert {name.lower() for name in each.may} == {name.lower() for name in other.may_contain}, each
            assert other.kind.upper() == each.kind, each
