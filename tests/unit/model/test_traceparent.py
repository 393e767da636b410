"""The trace of a call: read as W3C says, or derived where there is none, which then costs nothing."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.execution.records import Call, TracedCall, decode_calls, encode_calls, traced
from holdfast.model.ids import ClientId
from holdfast.model.traceparent import TRACEPARENT_BYTES, Traceparent

HEADER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = Traceparent(bytes.fromhex(HEADER[3:35]), bytes.fromhex(HEADER[36:52]), 1)


class CallOfVersion1(msgspec.Struct, frozen=True, array_like=True):
    """A call as hosts without traces read it."""

    number: int
    method: str
    arguments: msgspec.Raw
    expiration_s: int


def call(number: int = 7) -> Call:
    return Call(number, "deposit", msgspec.Raw(b"\x91\x05"), 100)


def test_a_header_is_read_and_written() -> None:
    assert Traceparent.parse(HEADER) == TRACE
    assert str(TRACE) == HEADER
    assert (TRACE.trace_id, TRACE.span_id) == (HEADER[3:35], HEADER[36:52])


@pytest.mark.parametrize(
    "header",
    [
        "",
        "00",
        HEADER.upper(),
        HEADER[:-1],
        f"{HEADER}-what",
        f"ff{HEADER[2:]}",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
    ],
)
def test_what_is_no_traceparent_is_as_if_it_were_not_there(header: str) -> None:
    assert Traceparent.parse(header) is None


def test_a_later_version_may_say_more_at_its_end() -> None:
    assert Traceparent.parse(f"01{HEADER[2:]}") == TRACE
    assert Traceparent.parse(f"01{HEADER[2:]}-what-else") == TRACE


@given(st.text(max_size=80))
def test_no_header_raises(header: str) -> None:
    found = Traceparent.parse(header)
    assert found is None or found.is_valid


@given(st.binary(max_size=40))
def test_what_a_call_carries_is_read_or_passed_over(carried: bytes) -> None:
    found = Traceparent.decoded(carried)
    assert found is None or found.encoded() == carried


def test_without_one_it_follows_from_the_request_and_from_nothing_else() -> None:
    """All copies of a call have the same trace, and no other call has it."""
    one = Traceparent.of(b"", "ledger", ClientId("c"), 1)
    assert one == Traceparent.derived("ledger", ClientId("c"), 1)
    assert one.is_valid
    others = [("ledger", "c", 2), ("ledger", "d", 1), ("stock", "c", 1)]
    found = {Traceparent.derived(group, ClientId(client), number) for group, client, number in others}
    assert len(found | {one}) == 4
    assert Traceparent.of(TRACE.encoded(), "ledger", ClientId("c"), 1) == TRACE


def test_a_call_without_one_takes_not_a_byte_more_than_it_did() -> None:
    old = CallOfVersion1(*msgspec.structs.astuple(call()))
    assert bytes(encode_calls([call()])) == msgspec.msgpack.encode([old])
    assert traced(call(), b"") == call()


def test_hosts_of_the_version_before_pass_over_it() -> None:
    carried = TRACE.encoded()
    encoded = encode_calls([call(7), traced(call(8), carried)])
    assert [each.traceparent for each in decode_calls(encoded)] == [b"", carried]
    old = msgspec.msgpack.decode(encoded, type=list[CallOfVersion1])
    assert [(each.number, bytes(each.arguments)) for each in old] == [(7, b"\x91\x05"), (8, b"\x91\x05")]


def test_one_that_is_too_long_is_no_call() -> None:
    long = TracedCall(7, "deposit", msgspec.Raw(b"\x90"), 100, bytes(TRACEPARENT_BYTES + 1))
    with pytest.raises(msgspec.ValidationError):
        decode_calls(encode_calls([long]))
