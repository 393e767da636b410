"""The groups that decide about the losses of others, as a member's host keeps them (LOSS-10, LOSS-84)."""

import asyncio
from typing import Any, cast

from holdfast.model.ids import ClientId, Epoch, GroupId, HostId
from holdfast.model.reference import Reference
from holdfast.net import ConnectionSettings, PeerIdentity, Role
from holdfast.node.streams.deciders import GROUPS_MAX, AskedGroup, DeciderGroups


class Catalog:
    """The groups named ``g1``, ``g2``, and so on, as the authority reports them."""

    def __init__(self, count: int) -> None:
        self.records = {GroupId(number): "" for number in range(1, count + 1)}
        self.sessions: dict[HostId, object] = {}

    def find(self, name: str) -> GroupId | None:
        group = GroupId(int(name.removeprefix("g")))
        return group if group in self.records else None

    def reference(self, group: GroupId) -> Reference:
        return Reference(group, f"g{group}", Epoch(1), HostId("h1"), ())

    def members(self, group: GroupId) -> tuple[HostId, ...]:
        return ()


def asked(catalog: Catalog, *names: str) -> list[bool]:
    """Whether each group of these names, asked in turn by one host, is there to be asked."""

    async def work() -> list[bool]:
        me = PeerIdentity("orders", Role.HOST, "h9", 1)
        groups = DeciderGroups(cast(Any, catalog), lambda: 0, ConnectionSettings(me), ClientId("h9:1"))
        found = []
        for name in names:
            if name.startswith("-"):
                del catalog.records[GroupId(int(name.removeprefix("-g")))]
            else:
                found.append(groups.caller(name) is not None)
        await groups.close()
        return found

    return asyncio.run(work())


def test_a_host_asks_a_bounded_number_of_groups() -> None:
    """Each is a client of its own, and the names come from the applications' settings."""
    names = [f"g{number}" for number in range(1, GROUPS_MAX + 2)]
    assert asked(Catalog(GROUPS_MAX + 1), *names) == [True] * GROUPS_MAX + [False]


def test_groups_that_were_removed_make_room_for_others() -> None:
    names = [f"g{number}" for number in range(1, GROUPS_MAX + 1)]
    last = f"g{GROUPS_MAX + 1}"
    assert asked(Catalog(GROUPS_MAX + 1), *names, last, "-g7", last)[-2:] == [False, True]


def test_a_group_that_is_not_there_is_not_asked() -> None:
    """The member decides by its default at once, and does not wait until the time for deciding is over."""

    class Nowhere:
        def caller(self, name: str) -> None:
            return None

    question = AskedGroup(cast(Any, Nowhere()), "g1", lambda *_: None)
    assert not question.ask(1, cast(Any, None), within_ms=100)
    assert asked(Catalog(1), "g2") == [False]
