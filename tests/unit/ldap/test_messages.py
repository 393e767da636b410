"""LDAP messages: from bytes, into bytes, and what is answered to those that are wrong."""

import contextlib

import pytest
from hypothesis import given, settings
from ldap_values import whole_messages

from holdfast.directory.filters.filter import DEPTH_MAX, PARTS_MAX, And, Equality, Extensible, Not, Present
from holdfast.directory.operations import (
    AddRequest,
    Attribute,
    DeleteRequest,
    Modification,
    ModificationKind,
    ModifyRequest,
    Scope,
    SearchRequest,
)
from holdfast.directory.results import ResultCode
from holdfast.ldap import ber
from holdfast.ldap.decoding import ATTRIBUTES_MAX, CONTROLS_MAX, MODIFICATIONS_MAX, decode
from holdfast.ldap.encoding import encode, entry_bytes, envelope, operation_bytes
from holdfast.ldap.filter_ber import write_filter
from holdfast.ldap.messages import (
    NOTICE_OF_DISCONNECTION,
    AbandonRequest,
    BindRequest,
    BindResponse,
    Control,
    ExtendedResponse,
    MalformedMessage,
    Message,
    Request,
    Result,
    SaslAuthentication,
    SearchResultDone,
    SearchResultEntry,
    SimpleAuthentication,
    Tag,
    UnbindRequest,
    refusal,
)

VECTORS = {
    # Made by hand from the ASN.1 of RFC 4511.
    "300c020101600702010304008000": Message(1, BindRequest(3, "", SimpleAuthentication(b""))),
    "3018020102601302010304 00a30c0408 45585445524e414c0400".replace(" ", ""): Message(
        2, BindRequest(3, "", SaslAuthentication("EXTERNAL", b""))
    ),
    "30050201034200": Message(3, UnbindRequest()),
    "3006020107500105": Message(7, AbandonRequest(5)),
    "300c02010161070a010004000400": Message(1, BindResponse(Result())),
    "300e02010a4a0964633d6578616d706c65"[:4] + "02010a4a0964633d6578616d706c": Message(
        10, DeleteRequest("dc=exampl")
    ),
    "3025020104632004000a01000a0100020100020100010100870b6f626a656374436c6173733000": Message(
        4, SearchRequest("", Scope.BASE, Present("objectClass"))
    ),
}


@pytest.mark.parametrize("written", VECTORS)
def test_messages_are_the_bytes_that_the_standard_says(written: str) -> None:
    data = bytes.fromhex(written)
    assert decode(data) == VECTORS[written]
    assert encode(VECTORS[written]) == data


@given(whole_messages)
@settings(max_examples=200)
def test_every_message_is_read_back(message: Message) -> None:
    assert decode(encode(message)) == message


@given(whole_messages)
def test_a_message_that_is_cut_short_is_refused(message: Message) -> None:
    """Every way of cutting the content, with an envelope that fits, is a message or an error of its kind."""
    body = content_of(encode(message))
    for at in range(len(body)):
        with contextlib.suppress(MalformedMessage):
            decode(ber.element(ber.SEQUENCE, body[:at]))


def content_of(data: bytes) -> bytes:
    _, start, stop = ber.Reader(data).header()
    return data[start:stop]


def test_what_a_later_version_adds_at_the_end_is_passed_over() -> None:
    result = b"\x0a\x01\x00\x04\x00\x04\x00"
    added = b"\x85\x01x"
    data = ber.sequence(ber.integer(1), ber.element(Tag.SEARCH_RESULT_DONE, result + added), added)
    assert decode(data) == Message(1, SearchResultDone(Result()))


def test_lengths_with_leading_zeros_are_read_as_libldap_writes_them() -> None:
    bind = b"\x60\x84\x00\x00\x00\x07\x02\x01\x03\x04\x00\x80\x00"
    data = b"\x30\x84\x00\x00\x00\x10\x02\x01\x01" + bind
    assert decode(data).operation == BindRequest(3, "", SimpleAuthentication(b""))


@pytest.mark.parametrize(
    "data",
    [
        "3003020101",  # no operation
        "300502010142",  # cut
        "3005020101420000",  # more than the envelope
        "3005020180420042"[:14],  # a negative number
        "300602050100000000",  # a number beyond 2^31 - 1
        "30050201014100",  # no such operation
        "300702010163020400",  # a search that ends
        "",
    ],
)
def test_what_breaks_the_structure_ends_the_connection(data: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(bytes.fromhex(data))
    assert caught.value.ends_connection
    answer = refusal(caught.value)
    assert answer is not None
    assert answer.message_id == 0
    assert isinstance(answer.operation, ExtendedResponse)
    assert answer.operation.name == NOTICE_OF_DISCONNECTION
    assert answer.operation.result.code == ResultCode.PROTOCOL_ERROR


def search(filter_: bytes, scope: int = 2, limit: int = 0) -> bytes:
    return ber.sequence(
        ber.integer(9),
        ber.sequence(
            ber.text(""),
            ber.enumerated(scope),
            ber.enumerated(0),
            ber.integer(limit),
            ber.integer(0),
            ber.boolean(False),
            filter_,
            ber.sequence(),
            tag=Tag.SEARCH_REQUEST,
        ),
    )


PRESENT = b"\x87\x02cn"


@pytest.mark.parametrize(
    ("data", "result"),
    [
        (search(PRESENT, scope=7), ResultCode.PROTOCOL_ERROR),
        (search(PRESENT, limit=-1), ResultCode.PROTOCOL_ERROR),
        (search(b"\xa4\x06\x04\x02cn\x30\x00"), ResultCode.PROTOCOL_ERROR),  # substrings without a piece
        (search(b"\xa4\x08\x04\x02cn\x30\x02\x80\x00"), ResultCode.PROTOCOL_ERROR),  # an empty piece
        (search(b"\xa4\x0c\x04\x02cn\x30\x06\x82\x01a\x81\x01b"), ResultCode.PROTOCOL_ERROR),  # out of order
        (search(b"\xa9\x03\x83\x01a"), ResultCode.PROTOCOL_ERROR),  # neither rule nor attribute
        (search(b"\x87\x01\xff"), ResultCode.PROTOCOL_ERROR),  # not UTF-8
        (
            search(write_filter(And(tuple(Present("a") for _ in range(PARTS_MAX))))),
            ResultCode.ADMIN_LIMIT_EXCEEDED,
        ),
        (
            ber.sequence(ber.integer(9), b"\x60\x0a\x02\x01\x03\x04\x00\xa5\x03abc"),
            ResultCode.AUTH_METHOD_NOT_SUPPORTED,
        ),
        (
            ber.sequence(
                ber.integer(9),
                ber.sequence(ber.text(""), b"\x30\x08\x30\x06\x04\x02cn\x31\x00", tag=Tag.ADD_REQUEST),
            ),
            ResultCode.PROTOCOL_ERROR,
        ),
    ],
)
def test_wrong_values_are_answered_and_the_connection_goes_on(data: bytes, result: ResultCode) -> None:
    with pytest.raises(MalformedMessage) as caught:
        decode(data)
    assert not caught.value.ends_connection
    answer = refusal(caught.value)
    assert answer is not None
    assert answer.message_id == 9
    assert not isinstance(answer.operation, SearchResultEntry)
    assert answer.operation.result.code == result  # type: ignore[union-attr]  # each has one


def test_filters_nest_as_deep_as_allowed_and_no_deeper() -> None:
    deep = PRESENT
    for _ in range(DEPTH_MAX - 1):
        deep = ber.element(0xA2, deep)
    request = decode(search(deep)).operation
    assert isinstance(request, SearchRequest)
    assert isinstance(request.filter, Not)
    with pytest.raises(MalformedMessage, match="nest"):
        decode(search(ber.element(0xA2, deep)))


def test_a_million_levels_cost_no_more_than_the_bound() -> None:
    """Nested headers that claim more and more do not reach Python's stack."""
    with pytest.raises(MalformedMessage):
        decode(search(b"\xa0\x84\x00\x0f\xff\xf0" * 100_000))


def test_a_filter_of_a_later_version_is_undefined_not_wrong() -> None:
    request = decode(search(b"\xaa\x03\x04\x01x")).operation
    assert isinstance(request, SearchRequest)
    assert request.filter == Extensible(b"", rule="0.0")


@pytest.mark.parametrize(
    "request_",
    [
        AddRequest("", (Attribute("a", (b"",)),) * (ATTRIBUTES_MAX + 1)),
        SearchRequest("", Scope.BASE, Present("a"), ("a",) * (ATTRIBUTES_MAX + 1)),
        ModifyRequest("", (Modification(ModificationKind.ADD, "a"),) * (MODIFICATIONS_MAX + 1)),
    ],
)
def test_requests_with_too_many_parts_are_refused(request_: Request) -> None:
    with pytest.raises(MalformedMessage, match="this has more") as caught:
        decode(encode(Message(1, request_)))
    assert caught.value.result == ResultCode.ADMIN_LIMIT_EXCEEDED
    assert not caught.value.ends_connection


def test_too_many_controls_are_refused() -> None:
    message = Message(1, UnbindRequest(), tuple(Control(f"1.{each}") for each in range(CONTROLS_MAX + 1)))
    with pytest.raises(MalformedMessage, match="controls"):
        decode(encode(message))


def test_passwords_do_not_show() -> None:
    """Whatever prints a request prints no secret."""
    for each in (SimpleAuthentication(b"s3cret"), SaslAuthentication("PLAIN", b"s3cret")):
        shown = f"{BindRequest(3, 'cn=x', each)!r} {each!r} {each} {each.__rich_repr__()}"
        assert "s3cret" not in shown


def test_an_entrys_bytes_do_not_depend_on_the_message() -> None:
    """What is kept of an entry can be sent in any envelope, and is what encoding the message gives."""
    values = (b"x" * 200, b"", b"y" * 70_000)
    entry = SearchResultEntry(
        "cn=é", (Attribute("a" * 130, (b"1",)), Attribute("cn", values), Attribute("sn", ()))
    )
    kept = operation_bytes(entry)
    assert kept == entry_bytes(
        "cn=é".encode(), tuple((each.description.encode(), each.values) for each in entry.attributes)
    )
    for number in (1, 2**31 - 1):
        assert decode(envelope(number, kept)) == Message(number, entry)
        assert envelope(number, kept) == encode(Message(number, entry))


@pytest.mark.parametrize("size", [*range(118, 132), 250, 260, 65_530, 65_540])
def test_lengths_around_each_step_of_the_header(size: int) -> None:
    message = Message(1, SearchResultEntry("", (Attribute("cn", (b"v" * size,)),)))
    assert decode(encode(message)) == message
    added = Message(1, AddRequest("d" * size, (Attribute("c" * size, (b"v",)),)))
    assert decode(encode(added)) == added


def test_equality_with_any_bytes() -> None:
    filter_ = Equality("userCertificate;binary", bytes(range(256)))
    assert decode(search(write_filter(filter_))).operation.filter == filter_  # type: ignore[union-attr]  # a search
