"""Request ids that can be guessed are their owner's (N4)."""

from holdfast.admin.request_owners import door_client, is_of_door, key_client, may_use
from holdfast.client.routing import new_client
from holdfast.model.ids import ClientId


def test_a_key_is_its_callers() -> None:
    client = key_client("anna", "0" * 32, 7)
    assert may_use("anna", client)
    assert not may_use("bert", client)


def test_what_nobody_can_guess_is_for_whoever_was_told() -> None:
    assert may_use("bert", new_client())


def test_the_ids_of_hosts_and_doors_are_not_for_clients() -> None:
    assert is_of_door(door_client())
    for client in (ClientId("host1:3"), ClientId("host1:3@other"), door_client(), ClientId("http-time")):
        assert not may_use("bert", client)
