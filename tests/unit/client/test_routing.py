"""The groups that a client calls: it keeps a client for each, but only for a limited number of them."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.calling.group_client import GroupClient
from holdfast.client import routing
from holdfast.client.routing import GroupLookup
from holdfast.model.calls import CallOutcomeUnknown, Locate, Located
from holdfast.model.errors import Unavailable
from holdfast.model.ids import SECOND, Epoch, GroupId, HostId
from holdfast.model.reference import MemberAddress, Reference

HOST = HostId("host1")
NO_ARGUMENTS = b"\x90"


class OneHost:
    """A host that knows a group of every name ``g<number>``, and answers no call."""

    def __init__(self) -> None:
        self.connected = [HOST]
        self.callers: GroupLookup | None = None

    def send(self, host: HostId, message: object) -> None:
        if isinstance(message, Locate):
            group = message.group or GroupId(int(message.name[1:]))
            here = MemberAddress(HOST, "127.0.0.1:1")
            reference = Reference(group, f"g{group}", Epoch(1), HOST, (here,))
            assert self.callers is not None
            self.callers.on_message(host, Located(message.frame, reference, 1_000 * SECOND))


def made() -> GroupLookup:
    hosts = OneHost()
    hosts.callers = found = GroupLookup(
        CallPolicy(), ClientConfig(), hosts=lambda: cast(Any, hosts), on_reference=lambda: None
    )
    return found


def is_open(caller: GroupClient) -> bool:
    try:
        caller.call("m", NO_ARGUMENTS, CallPolicy()).cancel()
    except Unavailable:
        return False
    return True


def test_of_groups_that_are_called_by_name_the_latest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door that calls many different groups for months keeps only the latest ones, up to the limit; those
    with waiting calls and those with a proxy always stay."""
    monkeypatch.setattr(routing, "CALLERS_KEPT", 3)

    async def work() -> None:
        kept = made()
        waiting = await kept.find(name="g1")
        answer = waiting.call("m", NO_ARGUMENTS, CallPolicy())
        held = await kept.find(name="g2")
        held.is_held = True
        idle = await kept.find(name="g3")
        for number in range(4, 10):
            await kept.find(name=f"g{number}")
            assert await kept.find(name="g9" if number == 9 else "g4") is not None
        assert len(list(kept.references())) <= 5
        assert {"g1", "g2", "g4", "g9"} <= {each.name for each in kept.references()}
        assert not answer.done()
        assert is_open(held)
        assert not is_open(idle)
        again = await kept.find(name="g3")
        assert is_open(again)
        kept.close()
        with pytest.raises((Unavailable, CallOutcomeUnknown)):
            await answer

    asyncio.run(work())
