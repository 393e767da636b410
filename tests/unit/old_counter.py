"""Records of a group whose class has changed since, for tests of whoever replays them."""

from collections.abc import Iterator

from holdfast.authority.groups import GroupRecord, Placement
from holdfast.execution.records import (
    Call,
    Calls,
    Sent,
    Stamp,
    Upgraded,
    encode_arguments,
    encode_calls,
    encode_record,
)
from holdfast.model.code import UNKNOWN, Code
from holdfast.model.csn import Csn
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Nonce, Position, ReplicaId, StoreId
from holdfast.storage.record import Kind, Record, decode, encode

GROUP = GroupRecord(
    group=GroupId(7),
    class_name="old_counter:Counter",
    style="active",
    members=(Placement(host=HostId("a"), store=StoreId("s")),),
    nonce=Nonce("n"),
    name="counter",
    arguments="[5]",
)


def records(*steps: str | Code) -> Iterator[Record]:
    """Calls, and codes by which those that follow are executed."""
    before = UNKNOWN
    for number, step in enumerate(steps, 1):
        if isinstance(step, Code):
            body, before = encode_record(Upgraded(before, step)), step
        else:
            body = encode_record(call(number, step))
        yield decode(
            encode(
                Kind.DATA,
                previous=0,
                group=GroupId(7),
                epoch=Epoch(1),
                first=Position(number),
                count=1,
                body=body,
            )
        )


def call(number: int, method: str) -> Calls:
    name, _, argument = method.partition(" ")
    arguments = encode_arguments((int(argument),) if argument else (), {})
    stamp = Stamp(Csn(1_000 + number, 0, ReplicaId(1), 0))
    calls = encode_calls([Call(number, name, arguments, expiration_s=10_000)])
    return Calls(stamp, Sent(ClientId("c"), number, 10_000, calls))
