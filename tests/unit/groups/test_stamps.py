"""Tests a host's stamps: they never go back, there is always a next one, and if their store fails the host
learns of it and must end (D1)."""

from typing import Any

import pytest
from sim_world import make_world

from holdfast.clock.errors import GeneratorStopped
from holdfast.groups.stamps import Stamps
from holdfast.model.csn import SEQUENCE_MAX, ZERO, Csn
from holdfast.model.errors import DiskFailed, HoldfastError
from holdfast.model.ids import SECOND, ReplicaId
from holdfast.sim import NodePorts, SimNode, World

ME, OTHER = ReplicaId(1), ReplicaId(2)


class Host:
    """A core that gives stamps and does nothing else."""

    def __init__(self, ports: NodePorts) -> None:
        self.failures: list[HoldfastError] = []
        self.is_open = False
        self.stamps = Stamps(
            ME,
            clock=ports.clock,
            timers=ports.timers,
            disk=ports.disk("store", self._on_synced),
            trace=ports.trace,
            on_failed=self.failures.append,
        )

    def open(self) -> None:
        self.stamps.open(lambda: setattr(self, "is_open", True), is_new=True)

    def continue_other(self) -> None:
        """Take over from a host whose clock was ahead."""
        now = self.stamps.after(ZERO, 0)
        self.stamps.after(Csn(now.timestamp + 60, 0, OTHER), now.timestamp + 60)

    def _on_synced(self, token: Any, ok: bool) -> None:
        self.stamps.on_synced(token, ok)


@pytest.fixture
def world() -> World:
    made = make_world()
    made.add_node("a", Host)
    return made


@pytest.fixture
def node(world: World) -> SimNode:
    """A host with its stamps open."""
    node = world.nodes["a"]
    node.core.open()
    world.run_until(SECOND // 2)
    assert node.core.is_open
    return node


def test_a_write_that_fails_when_the_clock_is_sampled_ends_the_host(world: World, node: SimNode) -> None:
    """Nothing was synced, so no answer of the disk would ever report the failure. The host would keep its
    leases as a primary that cannot order anything."""
    node.disk.failing_writes = 1
    world.run_until(30 * SECOND)  # the next store is due by then
    assert [type(each) for each in node.core.failures] == [DiskFailed]


def test_a_write_that_fails_when_a_stamp_is_continued_ends_the_host(node: SimNode) -> None:
    """The stamp is refused, and the host is told once, however often it tries again."""
    node.disk.failing_writes = 1
    for _ in range(2):
        with pytest.raises(GeneratorStopped):
            node.core.continue_other()
    assert [type(each) for each in node.core.failures] == [DiskFailed]


@pytest.mark.parametrize("fault", ["failing_writes", "failing_syncs"])
def test_a_store_that_fails_at_the_opening_ends_the_host(world: World, fault: str) -> None:
    """A failure while the stamps are being opened is reported too, and only once."""
    node = world.nodes["a"]
    setattr(node.disk, fault, 1)
    node.core.open()
    world.run_until(SECOND // 2)
    assert not node.core.is_open
    assert [type(each) for each in node.core.failures] == [DiskFailed]


def test_a_sync_that_fails_ends_the_host(world: World, node: SimNode) -> None:
    """The disk's answer comes later than the call that asked for the store."""
    node.disk.failing_syncs = 1
    world.run_until(30 * SECOND)
    assert [type(each) for each in node.core.failures] == [DiskFailed]


def test_a_group_that_is_hours_ahead_goes_on_in_a_time_of_its_own(node: SimNode) -> None:
    """The group's stamps continue from its newest, in its own time, and the host's other groups are not
    affected (S1, X4). If the stamps were refused, its primary would neither serve nor let another member
    serve."""
    stamps: Stamps = node.core.stamps
    here = stamps.after(ZERO, 0)
    ahead = Csn(here.timestamp + 7200, 5, OTHER)
    following = stamps.after(ahead, ahead.timestamp)
    assert following == Csn(ahead.timestamp, 6, ME)
    later = stamps.after(following, ahead.timestamp + 3)
    assert later == Csn(ahead.timestamp + 3, 0, ME)
    last = Csn(ahead.timestamp, SEQUENCE_MAX, OTHER)
    assert stamps.after(last, ahead.timestamp) == Csn(ahead.timestamp + 1, 0, ME)
    assert here < stamps.after(ZERO, 0) < Csn(here.timestamp + 60, 0, ME)
