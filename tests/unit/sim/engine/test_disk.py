"""The simulated disk loses, tears and damages exactly what it says, and nothing else."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sim_world import make_world, probe

from holdfast.model.errors import DiskFailed, NoSpace
from holdfast.sim import MILLISECOND, SECOND, DiskHandle, PowerCut, ProcessKilled, SimNode

SECTORS = 16
DATA = b"".join(bytes([65 + index]) * 512 for index in range(SECTORS))


def answer(node: SimNode, number: int) -> Callable[[bool], None]:
    """Notes what becomes of a durable write."""
    return partial(node.core.on_synced, number)


def nodes(count: int = 60) -> Iterator[SimNode]:
    """Yield the same node under many seeds: what is random must show both outcomes."""
    for seed in range(count):
        yield probe(make_world(seed=seed))


def reopened(node: SimNode) -> DiskHandle:
    node.start()
    disk: DiskHandle = node.core.disk
    return disk


def durable_file(node: SimNode, data: bytes = DATA, name: str = "f") -> DiskHandle:
    """Return a file that is completely durable, including its name."""
    disk: DiskHandle = node.core.disk
    disk.append(name, data)
    assert disk.sync_now(name)
    disk.sync_dir_now()
    return disk


def test_synced_data_and_name_survive_every_power_cut() -> None:
    for node in nodes():
        durable_file(node)
        node.power_cut()
        disk = reopened(node)
        assert disk.list() == ["f"]
        assert disk.read("f", 0, len(DATA)) == DATA


def test_a_kill_keeps_what_was_written_unsynced() -> None:
    for node in nodes(10):
        node.core.disk.append("f", DATA)
        node.kill()
        assert reopened(node).read("f", 0, len(DATA)) == DATA


def test_a_power_cut_keeps_or_loses_each_unsynced_sector_whole() -> None:
    """Every kept sector is whole; over many cuts there are sectors kept, lost, and both in one file."""
    mixtures = 0
    for node in nodes():
        disk = durable_file(node, bytes(len(DATA)))
        disk.write_at("f", 0, DATA)
        node.power_cut()
        found = reopened(node).read("f", 0, len(DATA))
        kept = [found[at : at + 512] == DATA[at : at + 512] for at in range(0, len(DATA), 512)]
        lost = [found[at : at + 512] == bytes(512) for at in range(0, len(DATA), 512)]
        assert all(k != z for k, z in zip(kept, lost, strict=True))
        mixtures += any(kept) and any(lost)
    assert mixtures > 10


def test_a_write_across_a_sector_border_can_tear_at_that_border_only() -> None:
    seen = set()
    for node in nodes(100):
        disk = durable_file(node, bytes(1024))
        disk.write_at("f", 500, b"x" * 24)
        node.power_cut()
        seen.add(reopened(node).read("f", 500, 24))
    assert seen == {b"x" * 24, bytes(24), b"x" * 12 + bytes(12), bytes(12) + b"x" * 12}


def test_an_unsynced_append_may_leave_nothing_part_or_only_its_length() -> None:
    seen = set()
    for node in nodes(200):
        disk = durable_file(node, b"")
        disk.append("f", b"x" * 100)
        node.power_cut()
        seen.add(reopened(node).read("f", 0, 1000))
    assert seen == {b"", b"x" * 100, bytes(100)}


def test_a_sync_does_not_cover_what_is_written_while_it_runs() -> None:
    losses = 0
    for node in nodes():
        disk = durable_file(node, b"")
        disk.append("f", b"1" * 512)
        disk.sync("f", "first")
        disk.append("f", b"2" * 512)
        node.world.run_until(SECOND)
        assert node.core.synced == [("first", True)]
        node.power_cut()
        found = reopened(node).read("f", 0, 2000)
        assert found[:512] == b"1" * 512
        losses += found[512:] != b"2" * 512
    assert losses > 10


def test_a_durable_write_waits_for_the_one_before() -> None:
    """After no power cut is the second write there without all of the first; the writer reads it at once."""
    seen = set()
    for cut_ns in range(0, 600_000, 10_000):
        for node in nodes(5):
            disk = durable_file(node, bytes(2048))
            for number in range(3):
                disk.write_durably("f", 512 * number, b"%d" % number * 512, answer(node, number))
            assert disk.read("f", 512, 1000) == b"1" * 512 + b"2" * 488
            node.world.run_until(node.world.now + cut_ns)
            answered = len(node.core.synced)
            node.power_cut()
            found = reopened(node).read("f", 0, 2048)
            held = [found[512 * number] != 0 for number in range(3)]
            assert held == sorted(held, reverse=True)
            assert all(held[:answered])
            seen.add(sum(held))
    assert seen == {0, 1, 2, 3}


def test_no_durable_write_follows_one_that_failed() -> None:
    node = probe(make_world())
    disk = durable_file(node, bytes(2048))
    node.disk.failing_syncs = 1
    for number in range(3):
        disk.write_durably("f", 512 * number, b"x" * 512, answer(node, number))
    node.world.run_until(SECOND)
    assert node.core.synced == [(0, False), (1, False), (2, False)]
    assert disk.read("f", 512, 1024) == bytes(1024)


def test_a_durable_write_that_waits_dies_with_its_process() -> None:
    node = probe(make_world())
    disk = durable_file(node, bytes(1024))
    for number in range(2):
        disk.write_durably("f", 512 * number, b"x" * 512, answer(node, number))
    node.kill()
    node.world.run_until(SECOND)
    assert reopened(node).read("f", 0, 1024) == b"x" * 512 + bytes(512)


def test_syncs_of_one_file_complete_in_the_order_asked_for() -> None:
    for node in nodes(10):
        disk = node.core.disk
        disk.append("f", b"x")
        for token in range(20):
            disk.sync("f", token)
        node.world.run_until(SECOND)
        assert node.core.synced == [(token, True) for token in range(20)]


def test_a_sync_takes_time_and_a_kill_takes_its_answer_away() -> None:
    node = probe(make_world())
    core = node.core
    core.disk.append("f", b"x" * 512)
    core.disk.sync("f", 1)
    core.disk.sync_dir(2)
    assert core.synced == []
    node.kill()
    node.start()
    node.world.run_until(SECOND)
    assert core.synced == []
    assert node.core.synced == []
    # The kernel continued with the sync that the dead process had requested.
    node.power_cut()
    assert reopened(node).read("f", 0, 512) == b"x" * 512


def test_names_not_synced_come_and_go_with_a_power_cut() -> None:
    """A create, a rename and a remove without sync_dir are each sometimes kept and sometimes undone."""
    seen = set()
    for node in nodes(200):
        disk = durable_file(node, b"old", "old")
        durable_file(node, b"gone", "gone")
        disk.append("new", b"new")
        disk.sync_now("new")
        disk.rename("old", "renamed")
        disk.remove("gone")
        node.power_cut()
        seen.add(tuple(reopened(node).list()))
    assert ("gone", "old") in seen
    assert ("new", "renamed") in seen
    assert {"new" in names for names in seen} == {True, False}
    assert {"gone" in names for names in seen} == {True, False}
    assert all(("old" in names) != ("renamed" in names) for names in seen)


def test_sync_dir_covers_names_but_not_data() -> None:
    sizes = set()
    for node in nodes(100):
        disk = node.core.disk
        disk.append("f", b"x" * 512)
        disk.sync_dir_now()
        node.power_cut()
        assert reopened(node).list() == ["f"]
        sizes.add(node.core.disk.size("f"))
    assert sizes == {0, 512}


def test_a_rename_replaces_atomically() -> None:
    for node in nodes():
        disk = durable_file(node, b"old")
        disk.append("aside", b"new")
        disk.sync_now("aside")
        disk.rename("aside", "f")
        node.power_cut()
        assert reopened(node).read("f", 0, 10) in (b"old", b"new")


def test_after_a_failed_sync_a_retry_succeeds_and_the_data_is_gone() -> None:
    """The trap of failed syncs: pages count as clean, so a later sync succeeds and writes nothing."""
    lost = 0
    for node in nodes():
        disk = durable_file(node, bytes(512))
        disk.write_at("f", 0, b"x" * 512)
        node.disk.failing_syncs = 1
        assert not disk.sync_now("f")
        assert disk.sync_now("f")
        node.power_cut()
        lost += reopened(node).read("f", 0, 512) != b"x" * 512
    assert lost > 10


def test_a_failed_sync_answers_not_ok() -> None:
    node = probe(make_world())
    node.core.disk.append("f", b"x")
    node.disk.failing_syncs = 1
    node.core.disk.sync("f", 1)
    node.core.disk.sync("f", 2)
    node.world.run_until(SECOND)
    assert node.core.synced == [(1, False), (2, True)]


def test_a_failed_sync_of_the_directory_is_told_and_leaves_each_change_to_chance() -> None:
    seen = set()
    for node in nodes():
        node.core.disk.append("f", b"x")
        node.disk.failing_syncs = 1
        node.core.disk.sync_dir(1)
        node.core.disk.sync_dir(2)
        node.world.run_until(SECOND)
        assert node.core.synced == [(1, False), (2, True)]
        assert node.core.disk.list() == ["f"]
        node.power_cut()
        seen.add(tuple(reopened(node).list()))
    assert seen == {(), ("f",)}


def test_a_hung_sync_answers_only_when_the_hang_ends() -> None:
    node = probe(make_world())
    node.disk.hung_until_ns = 3 * SECOND
    node.core.disk.append("f", b"x")
    node.core.disk.sync("f", 1)
    node.world.run_until(3 * SECOND - 1)
    assert node.core.synced == []
    node.world.run_until(3 * SECOND)
    assert node.core.synced == [(1, True)]


def test_healing_ends_a_hang_and_a_slow_sync() -> None:
    node = probe(make_world())
    node.disk.slow_factor = 1_000_000
    node.core.disk.append("f", b"x")
    node.core.disk.sync("f", 1)
    node.disk.hung_until_ns = 1000 * SECOND
    node.core.disk.sync("f", 2)
    node.world.run_until(SECOND)
    assert node.core.synced == []
    node.world.heal()
    node.core.disk.sync("f", 3)
    node.world.run_until(2 * SECOND)
    assert node.core.synced == [(1, True), (2, True), (3, True)]


def test_a_slow_disk_takes_its_factor_longer() -> None:
    times = []
    for factor in (1, 100):
        node = probe(make_world())
        node.disk.slow_factor = factor
        node.core.disk.append("f", b"x")
        node.core.disk.sync_now("f")
        times.append(node.disk.take_elapsed())
        assert node.disk.take_elapsed() == 0
    assert times[1] == 100 * times[0] > 0


def test_a_full_disk_refuses_growth_and_changes_nothing() -> None:
    node = probe(make_world())
    disk = durable_file(node, b"x" * 100)
    node.disk.bytes_max = 150
    disk.append("f", b"y" * 50)
    for grow in (
        lambda: disk.append("f", b"z"),
        lambda: disk.append("new", b"z"),
        lambda: disk.write_at("f", 149, b"zz"),
        lambda: disk.allocate("new", 1),
        lambda: disk.truncate("f", 151),
    ):
        with pytest.raises(NoSpace):
            grow()
    assert disk.list() == ["f"]
    assert disk.read("f", 0, 1000) == b"x" * 100 + b"y" * 50
    disk.write_at("f", 0, b"over")
    node.disk.bytes_max = None
    disk.append("f", b"z")


def test_failing_reads_and_writes_raise_so_many_times() -> None:
    node = probe(make_world())
    disk = durable_file(node)
    node.disk.failing_reads = 2
    node.disk.failing_writes = 1
    for _ in range(2):
        with pytest.raises(DiskFailed):
            disk.read("f", 0, 1)
    with pytest.raises(DiskFailed):
        disk.append("f", b"x")
    assert disk.read("f", 0, 10_000) == DATA


def test_rot_flips_one_bit_for_good_within_what_is_in_use() -> None:
    """Reserved zeros at a file's end do not rot, because nothing would notice."""
    node = probe(make_world())
    disk = durable_file(node)
    disk.allocate("reserved", 1_000_000)
    disk.sync_now("reserved")
    for where in (0.0, 0.5, 0.999999):
        before = disk.read("f", 0, len(DATA))
        assert node.disk.flip_bit(where, 3)
        after = disk.read("f", 0, len(DATA))
        changed = [at for at in range(len(DATA)) if before[at] != after[at]]
        assert changed == [int(where * len(DATA))]
        assert before[changed[0]] ^ after[changed[0]] == 8
    node.power_cut()
    assert reopened(node).read("f", 0, len(DATA)) == after


def test_a_zeroed_sector_is_one_whole_sector() -> None:
    node = probe(make_world())
    disk = durable_file(node)
    assert node.disk.zero_sector(0.5)
    found = disk.read("f", 0, len(DATA))
    middle = len(DATA) // 2
    assert found == DATA[:middle] + bytes(512) + DATA[middle + 512 :]


def test_there_is_nothing_to_rot_on_an_empty_disk() -> None:
    node = probe(make_world())
    assert not node.disk.flip_bit(0.5, 0)
    assert not node.disk.zero_sector(0.5)


def test_wiped_copied_and_rolled_back_disks() -> None:
    world = make_world()
    a, b = probe(world, "a"), probe(world, "b")
    disk = durable_file(a, b"then")
    image = a.disk.copy()
    disk.write_at("f", 0, b"now!")
    a.kill()
    a.disk.replace(image)
    assert reopened(a).read("f", 0, 4) == b"then"
    b.kill()
    b.disk.replace(image)
    reopened(b).write_at("f", 0, b"mine")
    assert a.core.disk.read("f", 0, 4) == b"then"
    a.kill()
    a.disk.wipe()
    assert reopened(a).list() == []


def test_a_crash_inside_an_operation_ends_the_node_there() -> None:
    """The n-th write or sync raises, the node is down, and what the dead code still does has no effect."""
    for power, crash in ((True, PowerCut), (False, ProcessKilled)):
        node = probe(make_world())
        disk = durable_file(node, b"")
        node.disk.crash_after(3, power=power)
        disk.append("f", b"1")
        disk.append("f", b"2")
        with pytest.raises(crash):
            disk.append("f", b"3")
        assert not node.alive
        assert disk.is_stale
        disk.append("f", b"4")
        disk.remove("f")
        assert disk.sync_now("f") is False
        assert b"4" not in reopened(node).read("f", 0, 10)


def test_the_simulation_itself_meets_no_fault_that_is_meant_for_a_process() -> None:
    """A disk that is about to fail, to be full or to end its process can be damaged first; then the fault
    happens."""
    node = probe(make_world())
    disk = durable_file(node, b"abc")
    node.disk.crash_after(1, power=False)
    node.disk.failing_reads = node.disk.failing_writes = 1
    node.disk.bytes_max = 0
    with node.disk.untroubled():
        disk.write_at("f", 1, b"X")
        assert disk.read("f", 0, 3) == b"aXc"
        disk.append("f", b"d")
    with pytest.raises(DiskFailed):
        disk.read("f", 0, 3)
    with pytest.raises(DiskFailed):
        disk.append("f", b"e")
    with pytest.raises(NoSpace):
        disk.append("f", b"e")
    node.disk.bytes_max = None
    with pytest.raises(ProcessKilled):
        disk.append("f", b"e")


def test_a_power_cut_inside_a_synchronous_sync_may_come_before_or_after_its_effect() -> None:
    seen = set()
    for node in nodes(100):
        disk = durable_file(node, b"")
        disk.append("f", b"x")
        node.disk.crash_after(1, power=True)
        with pytest.raises(PowerCut):
            disk.sync_now("f")
        seen.add(reopened(node).read("f", 0, 10))
    assert b"x" in seen
    assert b"" in seen


def test_a_stale_handle_reads_nothing_and_writes_nothing() -> None:
    node = probe(make_world())
    stale = durable_file(node, b"x")
    node.kill()
    fresh = reopened(node)
    stale.append("f", b"stale")
    stale.write_at("g", 0, b"stale")
    stale.allocate("h", 10)
    stale.truncate("f", 0)
    stale.rename("f", "i")
    stale.sync("f", "stale")
    stale.sync_dir("stale")
    node.world.run_until(SECOND)
    assert fresh.list() == ["f"]
    assert fresh.read("f", 0, 10) == b"x"
    assert stale.list() == []
    assert stale.read("f", 0, 10) == b""
    assert stale.size("f") == 0
    assert not stale.exists("f")
    assert node.core.synced == []


def test_a_lying_disk_answers_ok_and_loses_everything_unsynced() -> None:
    lost = 0
    for node in nodes():
        disk = durable_file(node, b"")
        node.disk.lies = True
        disk.append("f", b"x" * 512)
        assert disk.sync_now("f")
        node.power_cut()
        lost += reopened(node).size("f") == 0
    assert lost > 10


def test_a_missing_file_is_a_failure_not_an_empty_one() -> None:
    disk = probe(make_world()).core.disk
    for use in (disk.size, disk.remove, disk.sync_now, lambda name: disk.read(name, 0, 1)):
        with pytest.raises(DiskFailed):
            use("absent")


def test_allocated_space_is_zero_and_its_size_durable_after_sync() -> None:
    for node in nodes(20):
        disk = node.core.disk
        disk.allocate("f", 4096)
        disk.sync_now("f")
        disk.sync_dir_now()
        node.power_cut()
        assert reopened(node).read("f", 0, 5000) == bytes(4096)


def test_the_disks_clock_is_the_worlds() -> None:
    """Syncs complete no sooner than the minimum latency."""
    node = probe(make_world())
    node.core.disk.append("f", b"x")
    node.core.disk.sync("f", 1)
    node.world.run_until(node.world.options.disk.sync_min_ns - 1)
    assert node.core.synced == []
    node.world.run_until(100 * MILLISECOND)
    assert node.core.synced == [(1, True)]
