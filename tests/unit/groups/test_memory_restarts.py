"""Tests that a group in memory restarts from what is left only if the current view is the one whose state is
lost (V4)."""

from collections.abc import Callable, Hashable
from typing import Any

import pytest

from holdfast.authority.groups import MEMORY, RESTART, GroupRecord, Placement
from holdfast.authority.recipe import Seen
from holdfast.authority.views import View, ViewMember
from holdfast.groups.lifecycle import MemoryRestarts
from holdfast.model.ids import (
    Epoch,
    GroupId,
    HostId,
    Incarnation,
    Nonce,
    Opening,
    Position,
    Revision,
    StoreId,
)
from holdfast.model.ports import TimerId
from holdfast.sequence.messages import Held
from holdfast.sequence.recovery import Inspected, Inspection, Recovery
from holdfast.storage.record import ORIGIN

GROUP = GroupId(1)
A, B = HostId("a"), HostId("b")


def member(host: HostId, incarnation: int) -> ViewMember:
    store = StoreId(f"memory-{host}-{incarnation}")
    return ViewMember(host=host, store=store, incarnation=Incarnation(incarnation), opening=Opening(0))


RECORD = Seen(
    "groups/1",
    GroupRecord(
        group=GROUP,
        class_name="m:C",
        style="active",
        members=(Placement(host=A, store=StoreId("")), Placement(host=B, store=StoreId(""))),
        nonce=Nonce("n"),
        durability=MEMORY,
        on_total_loss=RESTART,
    ),
    Revision(1),
)


class Domain(Recovery):
    """What a host finds when it inspects a group, and whether it restarts the group. Timers fire by hand."""

    def __init__(self) -> None:
        self.epoch = Epoch(4)
        self.restarted: list[Epoch] = []
        self.on_timer: Callable[[Hashable], None] = lambda tag: None
        self.waiting: list[Hashable] = []

    def inspect(self, group: GroupId, hosts: tuple[HostId, ...], then: Callable[[Inspected], None]) -> None:
        view = View(group=group, epoch=self.epoch, primary=A, members=(member(A, 1),), nonce=Nonce("v"))
        held = Held(group, self.epoch, 1, member(B, 2), ORIGIN, Position(0), False, "learner", False)
        then(Inspection(Seen("views/1", view, Revision(self.epoch)), (held,), ()))

    def recover(self, found: Inspection, *_: Any, **__: Any) -> None:
        self.restarted.append(found.view.value.epoch)

    def timers(self, on_timer: Callable[[Hashable], None]) -> "Domain":
        self.on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.waiting.append(tag)
        return TimerId(1)

    def cancel(self, timer: TimerId) -> None:
        return None

    def close(self) -> None:
        return None

    def ring(self) -> None:
        waiting, self.waiting = self.waiting, []
        for tag in waiting:
            self.on_timer(tag)


@pytest.fixture
def domain() -> Domain:
    return Domain()


def restarting(domain: Domain, lost_in: Callable[[], Epoch | None]) -> MemoryRestarts:
    return MemoryRestarts(
        domain, domain.timers, {GROUP: RECORD}, lambda group: lost_in(), lambda group, kind, text: None
    )


def test_a_view_whose_processes_are_gone_is_given_up(domain: Domain) -> None:
    restarting(domain, lambda: Epoch(4)).on_lost(GROUP)
    assert domain.restarted == [4]


def test_a_view_that_another_host_put_in_its_place_is_not(domain: Domain) -> None:
    """The new view's member may serve, though it did not answer. The host that is late checks again once it
    knows the view."""
    known: list[Epoch | None] = [Epoch(4)]
    domain.epoch = Epoch(5)
    restarting(domain, lambda: known[-1]).on_lost(GROUP)
    domain.ring()
    assert domain.restarted == []
    known.append(None)
    domain.ring()
    assert domain.restarted == []
    assert domain.waiting == []
