"""Messages between masters: what fits is read back, what does not is refused with one line."""

import msgspec
import pytest

from holdfast.directory.replication.messages import (
    BATCH_UPDATES_MAX,
    CopyPiece,
    Have,
    Hello,
    Updates,
    decode_message,
    encode_message,
)
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId

HELLO = Hello(
    suffix="dc=x",
    generation="g",
    replica=ReplicaId(1),
    vector="g",
    is_ready=True,
    window_updates=1,
    window_bytes=1,
)


@pytest.mark.parametrize(
    "message",
    [
        HELLO,
        Have("g", 3),
        Updates(number=1, after=(Csn(1, 0, ReplicaId(1)),), updates=(b"x",)),
        CopyPiece("c", 1, ((0, b"k", b"v"),)),
    ],
)
def test_messages_are_read_back(message: object) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        encode_message(Have("g", 3))[:-1],
        msgspec.msgpack.encode(["no-such-kind"]),
        msgspec.msgpack.encode(["have", "g", -1]),
        msgspec.msgpack.encode(["have", "g" * 70_000, 1]),
        msgspec.msgpack.encode(["updates", 1, [], [], [b""] * (BATCH_UPDATES_MAX + 1), []]),
        msgspec.msgpack.encode(["copy-piece", "c", 1, [[99, b"k", b"v"]]]),
        msgspec.msgpack.encode(["copy-piece", "c", 1, [[1, b"k" * 600, b"v"]]]),
    ],
)
def test_what_does_not_fit_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not a message of replication"):
        decode_message(data)
