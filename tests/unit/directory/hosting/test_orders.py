"""Orders to masters and their answers survive the wire, and nothing else is taken for one."""

import msgspec
import pytest

from holdfast.directory.hosting.orders import (
    CutLink,
    FoundDirectory,
    InitialiseReplica,
    LinkInfo,
    Order,
    OrderDone,
    OrderFailed,
    ReplicaInfo,
    ResetClock,
    ShowReplica,
    decode_answer,
    decode_order,
    encode,
)
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import HostId

A, B = HostId("a"), HostId("b")


@pytest.mark.parametrize(
    "order",
    [
        ShowReplica(),
        FoundDirectory(suffix="dc=x", secret=b"{PBKDF2}", read_only=(A,)),
        CutLink(one=A, other=B),
        InitialiseReplica(source=B),
        ResetClock(newest=""),
    ],
)
def test_orders_come_as_they_were_given(order: Order) -> None:
    assert decode_order(encode(order)) == order


def test_answers_come_as_they_were_given() -> None:
    for answer in (
        OrderDone("x"),
        OrderFailed("code", "why"),
        ReplicaInfo(host=A, state="serving", links=(LinkInfo(peer=B, state="open", behind_ms=1.5),)),
    ):
        assert decode_answer(encode(answer)) == answer


def test_anything_else_is_refused() -> None:
    for body in (b"", b"\xc1", encode({"type": "nothing"}), encode(CutLink(one=HostId("a" * 101), other=B))):
        with pytest.raises(msgspec.DecodeError):
            decode_order(body)
    with pytest.raises(InvalidRequest, match="not an answer of a master"):
        decode_answer(encode(ShowReplica()))
