"""The id of a nested call: the same whichever member makes it, different for any other call (E3)."""

import msgspec

from holdfast.execution.effects import Outgoing
from holdfast.execution.nested_call import client_of, sent_by
from holdfast.execution.records import decode_calls
from holdfast.model.calls import CLIENT_CHARACTERS_MAX, Request
from holdfast.model.deadlock import Root
from holdfast.model.ids import SECOND, ClientId, GroupId, Position

CALLER = Request(ClientId("abc"), 7)


def outgoing(call: int, position: int) -> Outgoing:
    return Outgoing(
        CALLER,
        call,
        "stock",
        "reserve",
        msgspec.Raw(b"\x90"),
        1000,
        ("shop",),
        Position(position),
        root=Root(5, "shop", *CALLER),
        deadline_ns=990 * SECOND,
    )


def test_the_position_at_which_the_operation_was_ordered_plays_no_part() -> None:
    """Another primary may have ordered the operation at another position; its call is the same call."""
    assert sent_by(GroupId(3), outgoing(1, 10)) == sent_by(GroupId(3), outgoing(1, 11))


def test_every_call_of_every_operation_of_every_group_is_another() -> None:
    one, next_one = sent_by(GroupId(3), outgoing(1, 10)), sent_by(GroupId(3), outgoing(2, 10))
    assert one.client == next_one.client
    assert [decode_calls(each.calls)[0].number for each in (one, next_one)] == [1, 2]
    others = [
        client_of(GroupId(3), CALLER),
        client_of(GroupId(4), CALLER),
        client_of(GroupId(3), Request(ClientId("abc"), 8)),
        client_of(GroupId(3), Request(ClientId("abd"), 7)),
    ]
    assert len(set(others)) == len(others)


def test_calls_within_calls_have_ids_of_bounded_length() -> None:
    client = CALLER.client
    seen = []
    for depth in range(1, 60):
        client = client_of(GroupId(depth), Request(client, 1))
        assert len(client) <= CLIENT_CHARACTERS_MAX
        seen.append(client)
    assert len(set(seen)) == len(seen)


def test_the_called_group_keeps_no_reply_to_calls_that_have_ended() -> None:
    """The floor of the second call is above the first, whose outcome is in the caller's sequence by then."""
    assert sent_by(GroupId(3), outgoing(2, 10)).floor == 2
