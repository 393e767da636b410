"""The datagrams that docs/streams-wire.md shows as examples, as values."""

from typing import Final

from holdfast.streams.datagram import Batch, Beat, Credit, Datagram, From, Notice, Refusal, Request
from holdfast.streams.message import NONE_BEFORE, Ages, Message

KEY: Final = bytes(range(32))
KEY_ID: Final = 1
SEALED: Final = From(KEY_ID, 7, 3)
OPEN: Final = From(0, 7, 3)

VECTORS: Final[dict[str, Datagram]] = {
    "one message": Batch(OPEN, [Message(1, 0, "", b"hello", (NONE_BEFORE,))]),
    "two messages, sealed": Batch(
        SEALED, [Message(4, 1, "bids", b"a", (1,)), Message(5, 0, "bids", b"b", (2,))]
    ),
    "numbers with a hole, two topics": Batch(
        OPEN,
        [
            Message(10, 0, "bids", b"one", (NONE_BEFORE, 3), (NONE_BEFORE, 3)),
            Message(12, 1, "asks", b"three", (2, 5), (2, 2)),
        ],
    ),
    "ages": Batch(
        OPEN,
        [
            Message(
                100,
                1,
                "",
                b"x",
                (7,),
                (),
                Ages(1_700_000_000_000_000_000, (1_000_000, 10_000_000, None, None), (99, 90, None, None)),
            ),
            Message(101, 1, "", b"y", (8,), (), Ages(1_700_000_000_000_250_000)),
        ],
    ),
    "heartbeat": Beat(SEALED, 5, 2, (1,)),
    "last heartbeat": Beat(OPEN, 0, 1, (NONE_BEFORE,), (), is_last=True),
    "credit": Credit(SEALED, 5, 16_389, 12, is_leader=True),
    "request": Request(SEALED, ((2, 1), (4, 3))),
    "notice": Notice(SEALED, 5, Refusal.BEYOND_CREDIT, "slower"),
}
