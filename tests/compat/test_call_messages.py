"""What clients and hosts of earlier versions say is understood for ever: both are upgraded one by one."""

import json
from pathlib import Path

import msgspec
import pytest

from holdfast.model.calls import (
    Calls,
    Locate,
    Located,
    Ping,
    Pong,
    Reads,
    Redirected,
    RefusalCode,
    Replies,
    Seen,
    Settle,
    ToClient,
    ToHost,
    Turned,
    decode_to_client,
    decode_to_host,
    encode_message,
)
from holdfast.model.ids import ClientId, Epoch, GroupId, HostId, Position
from holdfast.model.reference import MemberAddress, Reference

SAMPLES = json.loads((Path(__file__).parent / "call_messages_v1.json").read_text(encoding="utf-8"))
"""What version 1 sent, in hexadecimal. Never edited: a new version adds a file of its own."""

GROUP, VERSION, SEEN, CLIENT = GroupId(7), Epoch(3), Seen(Epoch(3), Position(41)), ClientId("client-1")
RAW = msgspec.Raw(bytes.fromhex("91c3"))
REFERENCE = Reference(GROUP, "ledger", VERSION, HostId("a"), (MemberAddress(HostId("a"), "10.0.0.1:7400"),))

TO_HOST: dict[str, ToHost] = {
    "calls": Calls(1, GROUP, VERSION, SEEN, RAW),
    "reads": Reads(2, GROUP, VERSION, SEEN, 500, CLIENT, RAW),
    "settle": Settle(3, GROUP, VERSION, SEEN, 12, CLIENT, 9, 1_700_000_060),
    "locate": Locate(4, "ledger", GROUP),
    "ping": Ping(5),
}
TO_CLIENT: dict[str, ToClient] = {
    "replies": Replies(GROUP, [12, 13], [b"\x92\x00\x05", b"\x92\x00\x06"], SEEN, 1_700_000_000_000_000_000),
    "redirected": Redirected(1, REFERENCE),
    "turned": Turned(2, GROUP, RefusalCode.NOT_PRIMARY, "b is primary"),
    "located": Located(4, REFERENCE, 1_700_000_000_000_000_000),
    "pong": Pong(5),
}


@pytest.mark.parametrize("name", TO_HOST)
def test_what_clients_said_is_understood(name: str) -> None:
    assert decode_to_host(bytes.fromhex(SAMPLES[name])) == TO_HOST[name]


@pytest.mark.parametrize("name", TO_CLIENT)
def test_what_hosts_said_is_understood(name: str) -> None:
    assert decode_to_client(bytes.fromhex(SAMPLES[name])) == TO_CLIENT[name]


@pytest.mark.parametrize("name", [*TO_HOST, *TO_CLIENT])
def test_the_same_is_still_said(name: str) -> None:
    """Version 1 is the newest: a change of the bytes needs new samples, on purpose."""
    message = TO_HOST[name] if name in TO_HOST else TO_CLIENT[name]
    assert encode_message(message).hex() == SAMPLES[name]
