"""A connection's conversation: what is answered, in which order, within which bounds."""

import pytest
from directory_replica import ADMIN, SUFFIX, add, modify, person, rename
from ldap_session import PASSWORD, Client, Door

from holdfast.directory.filters.text import parse_filter
from holdfast.directory.operations import AddRequest, Scope, SearchRequest
from holdfast.directory.results import ResultCode
from holdfast.ldap.controls import (
    PagedResults,
    SortKey,
    read_paged_results,
    write_paged_results,
    write_sort_keys,
)
from holdfast.ldap.encoding import encode
from holdfast.ldap.extended import CANCEL, START_TLS, WHO_AM_I
from holdfast.ldap.limits import OWN_FILES, DoorLimits
from holdfast.ldap.messages import (
    AbandonRequest,
    AddResponse,
    BindRequest,
    BindResponse,
    ExtendedRequest,
    ExtendedResponse,
    Message,
    ModifyResponse,
    SearchResultDone,
    SearchResultEntry,
    SimpleAuthentication,
    UnbindRequest,
)
from holdfast.ldap.service import DoorPolicy
from holdfast.model.errors import InvalidRequest

PEOPLE = f"ou=people,{SUFFIX}"


def search(
    filter_: str = "(objectClass=*)", base: str = SUFFIX, scope: Scope = Scope.SUBTREE, **rest: object
) -> SearchRequest:
    return SearchRequest(base, scope, parse_filter(filter_), **rest)  # type: ignore[arg-type]


def code(response: object) -> int:
    return int(response.result.code)  # type: ignore[attr-defined]


@pytest.fixture
def door() -> Door:
    return Door()


@pytest.fixture
def client(door: Door) -> Client:
    made = door.client()
    assert code(made.bind()) == ResultCode.SUCCESS
    return made


def fill(door: Door, count: int) -> None:
    for number in range(count):
        door.master.replica.execute(person(f"p{number:04}"), ADMIN, lambda csn: None)
    door.master.store.commit()


@pytest.mark.covers("CSN-95")
@pytest.mark.parametrize("filter_", ["(objectClass=organizationalUnit)", "(ou=*)"])
def test_entries_and_the_result_are_separate_answers(door: Door, client: Client, filter_: str) -> None:
    """A search is answered by messages of its number: one for each entry, and one that ends it; whether it is
    answered at one go or takes turns."""
    answers = client.ask(search(filter_))
    assert [type(each.operation) for each in answers] == [SearchResultEntry, SearchResultDone]
    assert {each.message_id for each in answers} == {2}


def test_changes_are_answered_when_they_are_on_the_disk(door: Door, client: Client) -> None:
    """Two changes are sent at once; each is answered when it is committed, and nothing before."""
    first, second = client.send(person("a")), client.send(person("b"))
    assert client.answers() == []
    door.master.store.commit(1)
    assert [each.message_id for each in client.answers()] == [first]
    door.master.store.commit()
    assert [each.message_id for each in client.answers()] == [second]


@pytest.mark.covers("CSN-101")
def test_an_abandoned_search_stops_and_has_no_result(door: Door, client: Client) -> None:
    """Its snapshot is given back at once; of an abandoned change only the answer is dropped."""
    fill(door, 400)
    number = client.send(search("(cn=*)"))
    assert door.service.searches == 1
    client.answers()
    client.send(AbandonRequest(number))
    assert door.service.searches == 0
    assert not client.session.has_work
    change = client.send(person("kept"))
    client.send(AbandonRequest(change))
    door.settle()
    assert client.answers() == []
    assert isinstance(client.ask(search("(uid=kept)"))[0].operation, SearchResultEntry)


def test_a_cancelled_search_is_told_so(door: Door, client: Client) -> None:
    """RFC 3909."""
    fill(door, 400)
    number = client.send(search("(cn=*)"))
    client.answers()
    answers = client.ask(ExtendedRequest(CANCEL, bytes((0x30, 3, 2, 1, number))))
    assert [code(each.operation) for each in answers] == [ResultCode.CANCELED, ResultCode.SUCCESS]
    gone = client.ask(ExtendedRequest(CANCEL, bytes((0x30, 3, 2, 1, number))))
    assert code(gone[0].operation) == ResultCode.NO_SUCH_OPERATION


@pytest.mark.covers("CSN-100")
def test_unbind_drops_everything(door: Door, client: Client) -> None:
    fill(door, 400)
    client.send(search("(cn=*)"))
    client.send(search(), write_paged_results(PagedResults(2)))
    client.answers()
    client.send(UnbindRequest())
    assert client.wire.is_closed
    assert door.service.searches == door.service.pages == 0
    client.send(search())
    assert client.answers() == []


def test_nothing_is_looked_at_while_a_bind_is_under_way(door: Door) -> None:
    """What follows a bind is judged as the new user, and not before its password is checked."""
    client = door.client()
    client.session.receive(
        encode(Message(1, BindRequest(3, ADMIN, SimpleAuthentication(PASSWORD))))
        + encode(Message(2, ExtendedRequest(WHO_AM_I)))
    )
    assert client.answers() == []
    assert not client.session.wants_input
    door.hashing.run()
    bound, who = client.answers()
    assert code(bound.operation) == ResultCode.SUCCESS
    assert isinstance(who.operation, ExtendedResponse)
    assert who.operation.value == f"dn:{ADMIN}".encode()


@pytest.mark.covers("CSN-99")
@pytest.mark.parametrize(
    ("request_", "result"),
    [
        (BindRequest(2, ADMIN, SimpleAuthentication(PASSWORD)), ResultCode.PROTOCOL_ERROR),
        (BindRequest(3, ADMIN, SimpleAuthentication(b"")), ResultCode.UNWILLING_TO_PERFORM),
        (BindRequest(3, ADMIN, SimpleAuthentication(b"wrong")), ResultCode.INVALID_CREDENTIALS),
        (BindRequest(3, "uid=no,dc=x", SimpleAuthentication(b"x")), ResultCode.INVALID_CREDENTIALS),
        (BindRequest(3, "no name", SimpleAuthentication(b"x")), ResultCode.INVALID_DN_SYNTAX),
    ],
)
def test_a_failed_bind_leaves_a_stranger(client: Client, request_: BindRequest, result: ResultCode) -> None:
    """Also whoever was bound before is none any more."""
    assert code(client.result(request_)) == result
    who = client.result(ExtendedRequest(WHO_AM_I))
    assert isinstance(who, ExtendedResponse)
    assert who.value == b""


def test_a_full_queue_of_passwords_is_busy(door: Door) -> None:
    door.hashing.most = 0
    assert code(door.client().bind()) == ResultCode.BUSY


def test_passwords_are_hashed_before_anything_sees_them(door: Door, client: Client) -> None:
    """What is stored, logged and replicated has no password in clear."""
    request = person("a", userPassword="hush")
    assert isinstance(client.result(request), AddResponse)
    with door.master.store.read() as reader:
        rows = [value for name in ("entries", "updates", "index") for _, value in reader.rows(name)]
    assert not any(b"hush" in each for each in rows)
    assert "hush" not in repr(door.notes)
    assert code(door.client().bind(f"uid=a,{PEOPLE}", b"hush")) == ResultCode.SUCCESS
    other = door.client()
    other.bind(f"uid=a,{PEOPLE}", b"hush")
    own = modify(f"uid=a,{PEOPLE}", ("delete", "userPassword", "hush"), ("add", "userPassword", "louder"))
    assert code(other.result(own)) == ResultCode.SUCCESS
    assert code(door.client().bind(f"uid=a,{PEOPLE}", b"louder")) == ResultCode.SUCCESS
    assert code(door.client().bind(f"uid=a,{PEOPLE}", b"hush")) == ResultCode.INVALID_CREDENTIALS
    more = modify(f"uid=a,{PEOPLE}", ("replace", "userPassword", "x"), ("replace", "sn", "x"))
    assert code(other.result(more)) == ResultCode.INSUFFICIENT_ACCESS_RIGHTS


def test_tls_may_be_demanded() -> None:
    door = Door(policy=DoorPolicy(require_tls=True, password_rounds=10))
    assert code(door.client().bind()) == ResultCode.CONFIDENTIALITY_REQUIRED
    assert code(door.client(is_tls=True).bind()) == ResultCode.SUCCESS


def test_start_tls_waits_for_the_handshake(door: Door) -> None:
    """Nothing that came before the handshake counts after it (RFC 4511, 4.14)."""
    client = door.client(can_start_tls=True)
    client.bind()
    client.send(ExtendedRequest(START_TLS))
    assert client.wire.tls_started == 1
    assert not client.session.wants_input
    assert code(client.answers()[0].operation) == ResultCode.SUCCESS
    client.session.on_tls(None)
    who = client.result(ExtendedRequest(WHO_AM_I))
    assert isinstance(who, ExtendedResponse)
    assert who.value == b""
    assert code(client.result(ExtendedRequest(START_TLS))) == ResultCode.OPERATIONS_ERROR
    assert code(door.client().result(ExtendedRequest(START_TLS))) == ResultCode.UNAVAILABLE
    hurried = door.client(can_start_tls=True)
    hurried.session.receive(
        encode(Message(1, ExtendedRequest(START_TLS))) + encode(Message(2, ExtendedRequest(WHO_AM_I)))
    )
    assert code(hurried.answers()[0].operation) == ResultCode.OPERATIONS_ERROR


def test_pages_see_one_moment(door: Door, client: Client) -> None:
    """What is added or removed between two pages changes none of them."""
    fill(door, 25)
    request = search("(uid=p*)", attributes=("1.1",))
    names: list[str] = []
    cookie = b""
    for page in range(4):
        answers = client.ask(request, write_paged_results(PagedResults(7, cookie)))
        names += [each.operation.dn for each in answers if isinstance(each.operation, SearchResultEntry)]
        (control,) = answers[-1].controls
        assert control.value is not None
        cookie = read_paged_results(control.value).cookie
        assert bool(cookie) == (page < 3)
        door.master.do(person(f"p9{page}"))
    assert sorted(names) == [f"uid=p{each:04},{PEOPLE}" for each in range(25)]
    assert door.service.searches == 0


def test_a_page_belongs_to_its_search_its_client_and_its_time(door: Door, client: Client) -> None:
    fill(door, 5)

    def first(of: Client) -> bytes:
        answers = of.ask(search("(uid=p*)"), write_paged_results(PagedResults(2)))
        value = answers[-1].controls[0].value
        assert value is not None
        return read_paged_results(value).cookie

    cookie = first(client)
    again = write_paged_results(PagedResults(2, cookie))
    assert code(client.result(search("(uid=q*)"), again)) == ResultCode.UNWILLING_TO_PERFORM
    assert code(door.client().result(search("(uid=p*)"), again)) == ResultCode.UNWILLING_TO_PERFORM
    door.now += door.service.limits.page_idle_s + 1
    client.session.pages.expire(door.now)
    assert door.service.searches == 0
    assert code(client.result(search("(uid=p*)"), again)) == ResultCode.UNWILLING_TO_PERFORM
    for _ in range(10):
        first(client)
    assert door.service.pages == door.service.limits.pages_each
    cookie = first(client)
    assert code(client.result(search("(uid=p*)"), write_paged_results(PagedResults(0, cookie)))) == 0


def test_searches_have_limits(door: Door) -> None:
    """Of entries, of time, and of how many there may be; administrators get all that they ask for."""
    door = Door(DoorLimits(size=10, searches=2))
    fill(door, 400)
    stranger, admin = door.client(), door.client()
    admin.bind()
    answers = stranger.ask(search("(uid=*)"))
    assert (len(answers), code(answers[-1].operation)) == (11, ResultCode.SIZE_LIMIT_EXCEEDED)
    assert len(admin.ask(search("(uid=*)"))) == 401
    assert len(admin.ask(search("(uid=*)", size_limit=3))) == 4
    admin.send(search("(cn=*)", time_limit_s=5))
    admin.answers()
    door.now += 6
    door.settle()
    assert code(admin.answers()[-1].operation) == ResultCode.TIME_LIMIT_EXCEEDED
    for _ in range(2):
        admin.send(search("(cn=*)"))
    assert code(stranger.result(search())) == ResultCode.BUSY


def test_a_slow_reader_s_work_waits(door: Door, client: Client) -> None:
    """Nothing is searched for a client that does not read."""
    fill(door, 400)
    client.send(search("(cn=*)"))
    client.session.is_paused = True
    before = len(client.wire.written)
    client.session.work()
    assert not client.session.has_work
    assert not client.session.wants_input
    assert len(client.wire.written) == before
    client.session.is_paused = False
    door.settle()
    assert len(client.answers()) > 400


def test_operations_under_way_are_bounded() -> None:
    """Further requests wait where they are, and are taken when there is room."""
    door = Door(DoorLimits(outstanding=3))
    client = door.client()
    client.bind()
    for number in range(5):
        client.send(person(f"p{number}"))
    assert not client.session.wants_input
    assert door.master.replica.pending == 3
    door.settle()
    assert len(client.answers()) == 5
    assert client.session.wants_input


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_any_split_of_bytes_is_the_same(door: Door, size: int) -> None:
    client = door.client()
    data = b"".join(encode(Message(number, search("(ou=people)"))) for number in range(1, 4))
    for at in range(0, len(data), size):
        client.session.receive(data[at : at + size])
    door.settle()
    assert [each.message_id for each in client.answers()] == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        bytes.fromhex("3084ffffffff"),
        bytes.fromhex("30050201016300"),
        encode(Message(0, ExtendedRequest(WHO_AM_I))),
        encode(Message(7, AddRequest("x" * 300_000, ()))),
    ],
)
def test_what_is_no_request_ends_the_connection(door: Door, data: bytes) -> None:
    """The client is told why (RFC 4511, 4.4.1), and nothing is kept of it."""
    client = door.client()
    client.session.receive(data + b"\x00" * 4)
    (notice,) = client.answers()
    assert isinstance(notice.operation, ExtendedResponse)
    assert (notice.message_id, code(notice.operation)) == (0, ResultCode.PROTOCOL_ERROR)
    assert client.wire.is_closed


def test_a_number_may_not_be_used_twice_at_once(door: Door, client: Client) -> None:
    client.send(person("a"), number=9)
    client.send(person("b"), number=9)
    assert client.wire.is_closed
    door.settle()
    assert len(door.master.dns("(uid=a)")) == 1


def test_answers_to_a_closed_connection_go_nowhere(door: Door, client: Client) -> None:
    """The change is carried out all the same: it was accepted."""
    client.send(person("a"))
    client.send(person("b", userPassword="x"))
    client.session.close()
    door.settle()
    assert client.answers() == []
    assert len(door.master.dns("(uid=a)")) == 1


def test_writes_to_the_server_s_own_entries_are_refused(client: Client) -> None:
    for dn in ("", "cn=config", "cn=csnGenerator,cn=config", "cn=subschema"):
        response = client.result(modify(dn, ("replace", "cn", "x")))
        assert isinstance(response, ModifyResponse)
        assert code(response) == ResultCode.UNWILLING_TO_PERFORM


def test_searches_of_the_server_s_own_entries_have_limits_and_pages(client: Client) -> None:
    """As others have: a control that is critical is heeded, or the search is refused."""
    client.bind()
    every = search(base="cn=config")
    dns = sorted(each.operation.dn for each in client.ask(every)[:-1])  # type: ignore[union-attr]
    assert len(dns) == 4
    *entries, done = client.ask(search(base="cn=config", size_limit=3))
    assert (len(entries), code(done.operation)) == (3, ResultCode.SIZE_LIMIT_EXCEEDED)
    assert code(client.result(search(base="cn=config", size_limit=4))) == 0
    found, cookie, sizes = [], b"", []
    while cookie or not found:
        page = write_paged_results(PagedResults(3, cookie), is_critical=True)
        *entries, done = client.ask(every, page)
        found += [each.operation.dn for each in entries]  # type: ignore[union-attr]
        sizes.append(len(entries))
        cookie = read_paged_results(done.controls[0].value or b"").cookie
    assert (found, sizes) == (dns, [3, 1])
    assert len(client.ask(every, write_paged_results(PagedResults(0, b"cn")))) == 1
    root = search(base="", scope=Scope.BASE)
    assert len(client.ask(root, write_paged_results(PagedResults(3)))) == 2
    for is_critical, result in ((True, ResultCode.UNAVAILABLE_CRITICAL_EXTENSION), (False, 0)):
        order = write_sort_keys((SortKey("cn"),), is_critical=is_critical)
        assert code(client.result(every, order)) == result
    order = write_sort_keys((SortKey("cn"),), is_critical=True)
    assert code(client.result(root, order)) == 0


def test_encoded_entries_are_kept_until_they_change(door: Door, client: Client) -> None:
    """An entry is encoded once for equal requests, and anew when it, or a name above it, has changed."""
    fill(door, 1)

    def shown() -> tuple[str, tuple[bytes, ...]]:
        entry = client.ask(search("(uid=p0000)", attributes=("sn",)))[0].operation
        assert isinstance(entry, SearchResultEntry)
        return entry.dn, entry.attributes[0].values

    before = shown()
    (face,) = (each for each in door.service.contexts[0].replica.cache.faces.values() if each.encoded)
    kept = list(face.encoded.values())
    assert shown() == before
    assert len(kept) == 1
    assert next(iter(face.encoded.values())) is kept[0]
    door.master.do(modify(f"uid=p0000,{PEOPLE}", ("replace", "sn", "new")))
    assert shown()[1] == (b"new",)
    door.master.do(rename(PEOPLE, "ou=folk"))
    assert shown()[0] == f"uid=p0000,ou=folk,{SUFFIX}"


def test_what_is_secret_is_for_administrators(door: Door, client: Client) -> None:
    """Neither an answer nor a filter tells a stranger of hashes and CSNs."""
    stranger = door.client()

    def names(of: Client, filter_: str) -> list[str]:
        answers = of.ask(search(filter_, attributes=("*", "+")))
        found = [each.operation for each in answers if isinstance(each.operation, SearchResultEntry)]
        return [each.description for entry in found for each in entry.attributes]

    assert "userPassword" in names(client, "(cn=admin)")
    assert "lastModifiedCSN" in names(client, "(cn=admin)")
    shown = names(stranger, "(cn=admin)")
    assert "cn" in shown
    assert "userPassword" not in shown
    assert "lastModifiedCSN" not in shown
    for filter_ in (
        "(userPassword=*)",
        "(!(userPassword=x))",
        "(lastModifiedCSN>=0)",
        "(userPassword;x-a=*)",
    ):
        assert names(stranger, filter_) == []
    assert names(client, "(userPassword=*)") != []


def test_clients_leave_the_server_its_own_files() -> None:
    """Where the system allows few open files, fewer clients are let in, and told so."""
    limits = DoorLimits(connections=5_000)
    assert limits.fitting(20_000) is limits
    assert limits.fitting(1_024).connections == 1_024 - OWN_FILES
    assert limits.fitting(10).connections == 1


def test_limits_are_checked() -> None:
    with pytest.raises(InvalidRequest, match="connections is 0, idle_s is -1"):
        DoorLimits(connections=0, idle_s=-1).validate()


def test_a_bind_response_has_its_form(door: Door) -> None:
    assert isinstance(door.client().bind("", b""), BindResponse)


def test_access_rules_follow_their_entries(door: Door, client: Client) -> None:
    """Rules hold where their entry is now, for whoever is in the group now, under the group's name now."""
    ada = f"uid=ada,{PEOPLE}"
    group = f"cn=keepers,{SUFFIX}"
    client.ask(person("ada", userPassword="x"))
    client.ask(add(f"ou=kept,{SUFFIX}", "organizationalUnit", ou="kept", administrator=group))
    client.ask(add(group, "groupOfNames", cn="keepers", member=ADMIN))
    keeper = door.client()
    keeper.bind(ada, b"x")
    count = iter(range(100))

    def may(place: str) -> bool:
        number = next(count)
        unit = add(f"ou=n{number},{place}", "organizationalUnit", ou=f"n{number}")
        return code(keeper.result(unit)) == ResultCode.SUCCESS

    assert not may(f"ou=kept,{SUFFIX}")
    client.ask(modify(group, ("add", "member", ada)))
    assert may(f"ou=kept,{SUFFIX}")
    assert not may(SUFFIX)
    client.ask(rename(f"ou=kept,{SUFFIX}", "ou=moved", PEOPLE))
    assert may(f"ou=moved,{PEOPLE}")
    client.ask(rename(group, "cn=others"))
    assert not may(f"ou=moved,{PEOPLE}")
    client.ask(rename(f"cn=others,{SUFFIX}", "cn=keepers"))
    assert may(f"ou=moved,{PEOPLE}")
    client.ask(modify(group, ("delete", "member", ada)))
    assert not may(f"ou=moved,{PEOPLE}")
    assert code(door.client().result(search("(ou=moved)"))) == ResultCode.SUCCESS
    client.ask(modify(f"ou=moved,{PEOPLE}", ("add", "anonymousRead", "FALSE")))
    stranger = door.client()
    assert len(stranger.ask(search("(ou=moved)"))) == 1
    hidden = SearchRequest(f"ou=moved,{PEOPLE}", Scope.BASE, parse_filter("(ou=*)"))
    assert code(stranger.result(hidden)) == ResultCode.NO_SUCH_OBJECT
    assert len(keeper.ask(hidden)) == 2


def test_a_search_s_turn_is_short(door: Door, client: Client) -> None:
    """However many entries a search looks at in vain, others have their turn meanwhile."""
    fill(door, 200)
    client.send(search("(description=nothing)"))
    turns = 0
    while client.session.has_work:
        client.session.work()
        turns += 1
    assert turns == 0  # an index answers it
    client.send(search("(!(description=nothing))", attributes=("1.1",), size_limit=1))
    client.send(search("(&(!(uid=p*))(!(objectClass=*)))"))
    while client.session.has_work:
        client.session.work()
        turns += 1
    assert turns >= 4
