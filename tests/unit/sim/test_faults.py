"""Every kind of fault does what its name says, can be stored, and ends with the healing."""

import random
from typing import Any

import msgspec
import pytest
from sim_world import make_world, probe

from holdfast.sim import MILLISECOND, SECOND, FaultEvent, Options, World
from holdfast.sim.faults import KINDS, Field

NODES = ("a", "b", "c")
CLIENTS = ("x", "y")
FIELD = Field.of(NODES, CLIENTS)


@pytest.fixture
def world() -> World:
    world = make_world()
    for name in (*NODES, *CLIENTS):
        probe(world, name)
    return world


def strike(world: World, kind: str, target: str = "a", **parameters: Any) -> bool:
    event = FaultEvent(at_ns=world.now, kind=kind, target=target, parameters=parameters)
    return KINDS[kind].apply(world, event)


def heard(world: World) -> set[str]:
    """Return every link, as "ab", on which a message passes now."""
    everyone = (*NODES, *CLIENTS)
    for name in everyone:
        world.nodes[name].core.messages.clear()
        for peer in everyone:
            world.nodes[name].core.ports.network.send(peer, "hello")
    world.run_until(world.now + 10 * MILLISECOND)
    return {
        peer + name
        for name in everyone
        for peer, _ in world.nodes[name].core.messages
        if (peer, name) in FIELD.all_links
    }


ALL_LINKS = {source + target for source, target in FIELD.all_links}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_drawn_survives_being_kept(kind: str) -> None:
    """A schedule is plain data: options are unchanged after a round trip through JSON."""
    events = tuple(
        FaultEvent(at_ns=seed, kind=kind, target="a", parameters=KINDS[kind].draw(random.Random(seed), FIELD))
        for seed in range(20)
    )
    options = Options(scenario="register", seed=1, faults=events)
    assert msgspec.json.decode(msgspec.json.encode(options), type=Options) == options


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_healing_ends_every_fault(kind: str, world: World) -> None:
    """Whatever was drawn, after healing all links pass, every node runs and syncs, and clocks keep time."""
    for seed in range(10):
        parameters = KINDS[kind].draw(random.Random(seed), FIELD)
        world.is_healed = False
        strike(world, kind, **parameters)
        world.run_until(world.now + MILLISECOND)
        world.heal()
        assert heard(world) == ALL_LINKS
        for name in NODES:
            node = world.nodes[name]
            assert node.alive
            assert not node.paused
            assert node.clock.rate_ppm == 0
            node.core.disk.append("f", b"x")
            node.core.disk.sync("f", "t")
        world.run_until(world.now + 10 * MILLISECOND)
        for name in NODES:
            assert world.nodes[name].core.synced[-1] == ("t", True)


def test_kill_and_restart(world: World) -> None:
    assert strike(world, "kill", restart_ns=5 * MILLISECOND)
    assert not world.nodes["a"].alive
    assert not strike(world, "kill", restart_ns=SECOND)
    world.run_until(5 * MILLISECOND)
    assert world.nodes["a"].incarnation == 2


def test_a_quick_restart_takes_less_than_a_millisecond(world: World) -> None:
    for seed in range(100):
        drawn = KINDS["quick_restart"].draw(random.Random(seed), FIELD)
        assert drawn["restart_ns"] < MILLISECOND
    assert strike(world, "quick_restart", restart_ns=1)
    world.run_until(1)
    assert world.nodes["a"].incarnation == 2


def test_power_cut_of_one_and_of_all(world: World) -> None:
    assert strike(world, "power_cut", restart_ns=MILLISECOND)
    assert world.nodes["a"].clock.now() == 0
    assert [world.nodes[name].alive for name in NODES] == [False, True, True]
    assert strike(world, "power_cut_all", target="", restarts_ns=dict.fromkeys(NODES, MILLISECOND))
    assert [world.nodes[name].alive for name in (*NODES, *CLIENTS)] == [False] * 3 + [True] * 2
    world.run_until(MILLISECOND)
    assert [world.nodes[name].incarnation for name in NODES] == [2, 2, 2]


@pytest.mark.parametrize(("kind", "reboots"), [("kill_inside", False), ("power_cut_inside", True)])
def test_a_crash_inside_is_counted_when_it_strikes(kind: str, reboots: bool, world: World) -> None:
    node = world.nodes["a"]
    strike(world, kind, operations=2, restart_ns=MILLISECOND)
    disk = node.core.disk
    disk.append("f", b"1")
    assert world.faults[kind] == 0
    world.after(0, node.run, node.life, disk.append, "f", b"2")
    world.run_until(0)
    assert not node.alive
    assert world.faults[kind] == 1
    assert (node.clock.now() == 0) == reboots
    world.run_until(MILLISECOND)
    assert node.incarnation == 2


@pytest.mark.parametrize("kind", ["pause", "suspend"])
def test_pause_and_suspend_end(kind: str, world: World) -> None:
    assert strike(world, kind, for_ns=SECOND)
    assert not strike(world, kind, for_ns=SECOND)
    assert world.nodes["a"].paused
    world.run_until(SECOND)
    assert not world.nodes["a"].paused


def cut_links(kind: str, seed: int) -> set[str]:
    drawn = KINDS[kind].draw(random.Random(seed), FIELD)
    return {source + target for source, target in drawn["links"]}


def test_a_cut_lasts_as_long_as_drawn(world: World) -> None:
    assert strike(world, "partition", links=[["a", "b"], ["b", "a"]], for_ns=SECOND)
    assert heard(world) == ALL_LINKS - {"ab", "ba"}
    world.run_until(SECOND)
    assert heard(world) == ALL_LINKS


def test_the_shapes_of_cuts() -> None:
    for seed in range(50):
        partition = cut_links("partition", seed)
        side = {"a", *(name for name in "bcxy" if "a" + name not in partition)}
        assert partition == {link for link in ALL_LINKS if (link[0] in side) != (link[1] in side)}
        assert partition

        isolation = cut_links("isolation", seed)
        assert any(isolation == {link for link in ALL_LINKS if name in link} for name in NODES)

        one_way = cut_links("one_way", seed)
        assert one_way
        assert not any(link[::-1] in one_way for link in one_way)

        partial = cut_links("partial", seed)
        assert len(partial) == 2


def test_flapping_cuts_and_mends_in_turn(world: World) -> None:
    assert strike(world, "flapping", links=[["a", "b"]], for_ns=SECOND, period_ns=100 * MILLISECOND)
    seen = []
    for turn in range(10):
        world.run_until(turn * 100 * MILLISECOND + 50 * MILLISECOND)
        seen.append(world.network.is_cut("a", "b"))
    assert seen == [True, False] * 5
    world.run_until(2 * SECOND)
    assert not world.network.is_cut("a", "b")


def test_a_swizzle_stops_links_one_by_one_and_mends_them_in_another_order(world: World) -> None:
    drawn = KINDS["swizzle"].draw(random.Random(4), FIELD)
    begins = [cut["from_ns"] for cut in drawn["cuts"]]
    ends = [cut["to_ns"] for cut in drawn["cuts"]]
    assert begins == sorted(begins)
    assert ends != sorted(ends)
    assert max(begins) < min(ends)
    assert strike(world, "swizzle", target="", **drawn)
    world.run_until(max(begins))
    assert all(world.network.is_cut(*link) for cut in drawn["cuts"] for link in cut["links"])
    world.run_until(max(ends))
    assert heard(world) == ALL_LINKS


def test_a_storm_changes_the_weather_for_a_while(world: World) -> None:
    assert strike(world, "storm", for_ns=SECOND, loss=1.0, duplicate=0.0, delay_mean_ns=1, late=0.0)
    assert heard(world) == set()
    world.run_until(SECOND)
    assert heard(world) == ALL_LINKS


def test_clock_jump_and_rate(world: World) -> None:
    clock = world.nodes["a"].clock
    wall = clock.wall()
    assert strike(world, "clock_jump", by_ns=-SECOND)
    assert clock.wall() == wall - SECOND
    assert strike(world, "clock_rate", ppm=2000)
    assert clock.rate_ppm == 2000


def test_disk_faults_reach_the_disk(world: World) -> None:
    disk = world.nodes["a"].disk
    assert strike(world, "sync_fail", count=2)
    assert strike(world, "read_fail", count=3)
    assert strike(world, "write_fail", count=4)
    assert (disk.failing_syncs, disk.failing_reads, disk.failing_writes) == (2, 3, 4)
    assert strike(world, "sync_hang", for_ns=SECOND)
    assert disk.hung_until_ns == SECOND
    assert strike(world, "disk_slow", factor=50, for_ns=SECOND)
    assert strike(world, "disk_full", left_bytes=10, for_ns=SECOND)
    assert (disk.slow_factor, disk.bytes_max) == (50, disk.used() + 10)
    world.run_until(SECOND)
    assert (disk.slow_factor, disk.bytes_max) == (1, None)


def filled(world: World, name: str, data: bytes) -> None:
    disk = world.nodes[name].core.disk
    disk.append("f", data)
    disk.sync_now("f")
    disk.sync_dir_now()


def content(world: World, name: str) -> bytes:
    disk = world.nodes[name].core.disk
    return disk.read("f", 0, 10_000) if disk.exists("f") else b""


def test_damage_to_what_is_stored(world: World) -> None:
    filled(world, "a", b"x" * 600)
    assert strike(world, "bit_rot", where=0.0, bit=0)
    assert content(world, "a") == b"y" + b"x" * 599
    assert strike(world, "zero_sector", where=0.0, bit=0)
    assert content(world, "a") == bytes(512) + b"x" * 88
    assert not strike(world, "bit_rot", target="b", where=0.0, bit=0)


def test_wipe_copy_and_roll_back_replace_the_disk_of_a_dead_process(world: World) -> None:
    filled(world, "a", b"one")
    filled(world, "b", b"other")
    assert not strike(world, "copy", source="a", restart_ns=0)
    assert strike(world, "copy", source="b", restart_ns=MILLISECOND)
    assert not world.nodes["a"].alive
    world.run_until(MILLISECOND)
    assert content(world, "a") == b"other"

    strike(world, "roll_back", after_ns=SECOND, restart_ns=MILLISECOND)
    filled(world, "a", b" and more")
    assert content(world, "a") == b"other and more"
    world.run_until(2 * SECOND)
    assert content(world, "a") == b"other"
    assert world.faults["roll_back"] == 1

    assert strike(world, "wipe", restart_ns=0)
    world.run_until(2 * SECOND)
    assert content(world, "a") == b""
