"""What is fuzzed of what hosts hear and people write: frames, calls, orders, the file of settings.

As in :mod:`targets`, each target takes any bytes, and raises only when Holdfast is wrong.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.model.admin.groups import CreateGroup, ShowHistory, decode_order, encode_order
from holdfast.model.calls import Ping, decode_to_host, encode_message
from holdfast.model.versions import LaterKind
from holdfast.net.frame import UNDECODABLE, Frame, FrameDecoder, Kind, Reason, encode_frame
from holdfast.settings.file import read_content
from holdfast.settings.reference import example
from holdfast.streams.columns import Malformed
from holdfast.streams.datagram import (
    Batch,
    Beat,
    Credit,
    From,
    Notice,
    Refusal,
    Request,
    decode,
    encode,
)
from holdfast.streams.message import Ages, Message

PAYLOAD_BYTES_MAX: Final = 1_000
SENDER: Final = From(0, 7, 3)


def frames(data: bytes) -> None:
    """Any stream has the same frames and the same fault however it is split; none is too long."""
    whole, split = _taken([data]), _taken([bytes([each]) for each in data])
    assert whole == split
    assert all(len(payload) <= PAYLOAD_BYTES_MAX for _, payload in whole[0])


def _taken(parts: list[bytes]) -> tuple[list[Frame], Reason | None]:
    decoder, found = FrameDecoder(PAYLOAD_BYTES_MAX), []
    for part in parts:
        decoder.feed(part)
        while decoder.fault is None:
            run = decoder.take_run()
            found += run
            one = decoder.take_one()
            if one is not None:
                found.append(one)
            elif not run:
                break
    return found, decoder.fault


def calls(data: bytes) -> None:
    """Any bytes are a message to a host that is read back as it is written, or refused."""
    try:
        message = decode_to_host(data)
    except (LaterKind, *UNDECODABLE):
        return
    again = encode_message(message)
    assert encode_message(decode_to_host(again)) == again


def orders(data: bytes) -> None:
    """Any bytes are an order that is read back as it is written, or refused."""
    try:
        order = decode_order(data)
    except (LaterKind, *UNDECODABLE):
        return
    again = encode_order(order)
    assert encode_order(decode_order(again)) == again


def datagrams(data: bytes) -> None:
    """Any bytes are a datagram that is read back as it is written, or refused."""
    try:
        found = decode(data, lambda _: None, is_open=True)
    except Malformed:
        return
    assert decode(encode(found), lambda _: None, is_open=True) == found


def settings(data: bytes) -> None:
    """Any bytes are settings that fit together, or a list of problems, each one line that names its place."""
    found = read_content(data, "holdfast.toml", {}, ())
    for problem in found.problems:
        assert "\n" not in problem
        assert problem.startswith("holdfast.toml")
    if not found.problems:
        assert found.settings.host.leases.validate() == []


TARGETS: Final[dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]]] = {
    "frames": (
        frames,
        (
            encode_frame(Kind.CALL, b"abc") + encode_frame(Kind.HEARTBEAT, b""),
            encode_frame(Kind.GROUP_ORDER, b"x" * PAYLOAD_BYTES_MAX) + b"\0\0",
        ),
    ),
    "calls": (calls, (encode_message(Ping(7)), msgspec.msgpack.encode([99, 1]))),
    "orders": (
        orders,
        (
            encode_order(CreateGroup(name="ledger", class_name="ledger:Ledger")),
            encode_order(ShowHistory(name="a")),
        ),
    ),
    "datagrams": (
        datagrams,
        (
            encode(Batch(SENDER, [Message(1, 0, "bids", b"abc", (-1, 2), (-1,), Ages(1_000))])),
            encode(Batch(SENDER, [Message(each, each % 3, "", b"x" * each) for each in (1, 2, 9)])),
            encode(Beat(SENDER, 9, 3, (1, -2), (1,), is_last=True)),
            encode(Credit(SENDER, 3, 99, 4, is_leader=True)),
            encode(Request(SENDER, ((3, 1), (7, 20)))),
            encode(Notice(SENDER, 3, Refusal.NOT_HERE, "moved")),
        ),
    ),
    "settings": (
        settings,
        (
            b'[leases]\nlease = "2 s"\ninterval = "100 ms"\n[output]\nlevel = "debug"\n',
            b"[execution]\ncheckpoint_bytes = 3_000_000\nin_line_max = 0\n",
            example().replace("\n# ", "\n").encode(),
        ),
    ),
}
"""Each with seeds to begin from."""
