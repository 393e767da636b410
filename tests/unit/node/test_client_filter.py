"""What a client that ``http.json`` limits does not get past the door of the native port."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from holdfast.admin.client_rights import ClientRights
from holdfast.admin.request_owners import door_client, key_client
from holdfast.client.routing import new_client
from holdfast.execution.records import Call, Sent, encode_calls
from holdfast.model.calls import (
    Calls,
    Follow,
    Locate,
    RefusalCode,
    Seen,
    Settle,
    Turned,
    decode_to_client,
    encode_message,
)
from holdfast.model.ids import ClientId, Epoch, GroupId
from holdfast.net import Connection, Kind, Reason
from holdfast.node.client_filter import ClientFilter

SHOP, SECRET = GroupId(1), GroupId(2)
RANDOM, OWN = new_client(), key_client("anna", "0" * 32, 1)
OTHERS = (key_client("bert", "0" * 32, 1), door_client(), ClientId("host1:4"))


class Door:
    """A host behind the filter, and the connection of a client: what each is given."""

    def __init__(self, grade: str = "client") -> None:
        records = {SHOP: SimpleNamespace(name="shop"), SECRET: SimpleNamespace(name="secret")}
        rights = ClientRights("anna", cast(Any, grade), {"shop": ("buy",)})
        self.filter = ClientFilter(self, rights, cast(Any, SimpleNamespace(records=records)))
        self.passed: list[bytes] = []
        self.answers: list[object] = []

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.passed.append(payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        raise AssertionError

    def send(self, kind: Kind, payload: bytes) -> None:
        self.answers.append(decode_to_client(payload))

    def give(self, message: Any) -> Turned | None:
        """The refusal of *message*; None if it was passed on."""
        payload = message if isinstance(message, bytes) else encode_message(message)
        self.filter.on_frame(cast(Any, self), Kind.CALL, payload)
        if self.passed:
            return None
        (turned,) = self.answers
        assert isinstance(turned, Turned)
        return turned


def settle(client: ClientId) -> Settle:
    return Settle(1, SHOP, Epoch(1), Seen(), 1, client, 7, 99)


def buy(client: ClientId) -> Calls:
    calls = encode_calls([Call(1, "buy", msgspec.Raw(b"\x90"), 99)])
    sent = Sent(client, 1, 99, msgspec.Raw(calls))
    return Calls(1, SHOP, Epoch(1), Seen(), msgspec.Raw(msgspec.msgpack.encode(sent)))


@pytest.mark.parametrize("make", [settle, buy])
def test_a_client_calls_and_asks_under_its_own_ids(make: Any) -> None:
    """An id that can be guessed is its owner's (N4): asking settles what has not run yet."""
    for client in (RANDOM, OWN):
        assert Door().give(make(client)) is None
    for client in OTHERS:
        refused = Door().give(make(client))
        assert refused is not None
        assert (refused.code, "did not make the calls" in refused.text) == (RefusalCode.INVALID, True)
        assert Door("admin").give(make(client)) is None


def test_groups_are_located_and_followed_by_what_a_client_may_see() -> None:
    """By a group's number as by its name: a number leads to no group that the name would not."""
    assert Door().give(Locate(1, "shop")) is None
    assert Door().give(Locate(1, "", SHOP)) is None
    assert Door().give(Follow(SHOP)) is None
    for message in (Locate(1, "secret"), Locate(1, "", SECRET), Follow(SECRET)):
        refused = Door().give(message)
        assert refused is not None
        assert refused.code is RefusalCode.NO_SUCH_GROUP


def test_a_message_of_a_later_version_is_left_to_the_host() -> None:
    """It passes over what it does not know; the connection of a newer client stays."""
    later = msgspec.msgpack.encode([999, 1, 2])
    assert Door().give(later) is None
