"""Checklist CSN, sections C and D: what a generator keeps across restarts, and how."""

import random

import pytest
from csn_machine import START_S, Machine

from holdfast.clock import ClockConfig, ClockState, Phase
from holdfast.clock.errors import FutureNotStored, GeneratorStopped
from holdfast.clock.state import Reservation
from holdfast.model.csn import Csn
from holdfast.model.errors import Corruption, InvalidRequest
from holdfast.model.ids import SECOND, ReplicaId


def stored_timestamp(machine: Machine) -> int:
    return Reservation.decode(machine.file(), file="clock").timestamp


@pytest.mark.covers("CSN-21")
@pytest.mark.parametrize("power", [False, True])
def test_greater_than_ever_before_across_crashes(power: bool) -> None:
    """Crash after crash, with the clock moved and peers heard: never behind what was handed out or seen."""
    machine = Machine()
    rng = random.Random(21)
    greatest = Csn(0, 0, ReplicaId(0))
    for _ in range(60):
        for csn in machine.take(rng.randrange(1, 50)):
            assert csn > greatest
            greatest = csn
        if rng.random() < 0.3:
            seen = Csn(greatest.timestamp + rng.randrange(3), rng.randrange(9), ReplicaId(2))
            if machine.generator.observe("b", seen):
                greatest = max(greatest, seen)
        machine.node.clock.jump_wall(rng.randint(-20, 10) * SECOND)
        machine.run(rng.choice((0, 0, 0.0005, 0.5, 4)))
        machine.restart(power=power, after_s=rng.choice((0, 0.01, 30)))


@pytest.mark.covers("CSN-20", "CSN-21")
def test_what_a_peer_showed_is_known_after_a_crash() -> None:
    """Once `observe` answers True, also a crash in that instant does not forget it; before, it says False."""
    machine = Machine()
    near = Csn(START_S + 1, 5, ReplicaId(2))
    assert machine.generator.observe("b", near)
    machine.restart(power=True)
    assert machine.generator.take() > near

    far = Csn(START_S + 3000, 5, ReplicaId(2))
    assert not machine.generator.observe("b", far)
    with pytest.raises(FutureNotStored):
        machine.generator.take()
    machine.run(0.1)
    assert machine.generator.observe("b", far)
    machine.restart(power=True)
    assert machine.generator.take() > far


@pytest.mark.covers("CSN-22", "CSN-23", "CSN-24")
def test_a_future_timestamp_is_stored_now_and_then() -> None:
    """The file always promises more than was handed out, and is written per interval, not per CSN."""
    machine = Machine()
    stores = machine.stored
    for _ in range(300):
        machine.run(0.1)
        assert all(csn.timestamp < stored_timestamp(machine) for csn in machine.take(100))
    interval = ClockConfig().store_interval_s
    assert 30 // interval - 1 <= machine.stored - stores <= 30 // interval + 1
    assert stored_timestamp(machine) - machine.take(1)[0].timestamp <= interval + ClockConfig().store_spare_s


@pytest.mark.covers("CSN-24")
def test_a_late_store_holds_the_time_back() -> None:
    """While a store hangs, CSNs stay below what is stored; when S is used up they stop; then they resume."""
    machine = Machine()
    machine.take(1)
    machine.node.disk.hung_until_ns = machine.world.now + 1000 * SECOND
    machine.run(100)
    stored = stored_timestamp(machine)
    taken = machine.take(65_536)
    assert {csn.timestamp for csn in taken} == {stored - 1}
    with pytest.raises(FutureNotStored):
        machine.generator.take()
    machine.run(100)
    with pytest.raises(FutureNotStored):
        machine.generator.take()
    machine.node.disk.heal()
    machine.run(1)
    assert machine.take(1)[0].timestamp >= START_S + 200


@pytest.mark.covers("CSN-26")
def test_a_clock_set_ahead_is_followed_at_once() -> None:
    """However far the system clock is set ahead, one store is enough to follow it; writes go on meanwhile."""
    machine = Machine()
    machine.run(2.5)
    machine.set_back(-100_000)
    stores = machine.stored
    for _ in range(25):
        machine.run(0.1)
        machine.take(1)
    assert machine.take(1)[0].timestamp >= START_S + 100_003
    assert machine.stored == stores + 1


@pytest.mark.covers("CSN-30", "CSN-31")
def test_offsets_outlive_a_crash() -> None:
    """Once grown, both offsets are soon stored, and are still there after a crash and a long pause."""
    machine = Machine()
    machine.generator.observe("b", Csn(START_S + 40, 0, ReplicaId(2)))
    machine.run(0.1)
    machine.set_back(100)
    machine.run(1.1)
    before = machine.generator.status().state
    machine.restart(power=True, after_s=300)
    after = machine.generator.status().state
    assert after.network_ns == before.network_ns > 38 * SECOND
    assert after.local_ns == before.local_ns > 97 * SECOND


@pytest.mark.covers("CSN-24")
@pytest.mark.parametrize("fault", ["sync", "directory sync", "write", "full"])
def test_a_failed_store_stops_the_generator(fault: str) -> None:
    """After a failed sync or write, or on a full disk, nothing is handed out until a restart (D1)."""
    machine = Machine()
    greatest = machine.take(1)[0]
    match fault:
        case "sync":
            machine.node.disk.failing_syncs = 1
        case "directory sync":
            machine.failing_sync = "directory"
        case "write":
            machine.node.disk.failing_writes = 1
        case "full":
            machine.node.disk.bytes_max = machine.node.disk.used()
    machine.run(10)
    assert machine.generator.status().phase is Phase.FAILED
    assert machine.notes("clock_store_failed")
    with pytest.raises(GeneratorStopped):
        machine.generator.take()
    with pytest.raises(GeneratorStopped):
        machine.generator.observe("b", Csn(START_S + 100, 0, ReplicaId(2)))
    machine.node.disk.heal()
    machine.failing_sync = None
    machine.run(10)
    with pytest.raises(GeneratorStopped):
        machine.generator.take()
    machine.restart()
    assert machine.take(1)[0] > greatest


def test_a_start_on_a_full_disk_is_refused() -> None:
    """A generator that cannot store its first future timestamp says so instead of waiting for ever."""
    machine = Machine()
    machine.node.kill()
    machine.node.disk.bytes_max = machine.node.disk.used()
    machine.node.start()
    assert machine.node.stops[0].startswith("generator_stopped: ")


@pytest.mark.covers("CSN-25")
def test_the_store_is_atomic() -> None:
    """Power lost inside any write or sync of a store: the old promise or the new one is there, whole."""
    for operation in range(1, 12):
        machine = Machine()
        machine.run(2)
        greatest = machine.take(1)[0]
        machine.node.disk.crash_after(operation, power=True)
        for _ in range(200):
            machine.run(0.1)
            if not machine.node.alive:
                break
            greatest = machine.take(1)[0]
        assert machine.node.start()
        machine.run(0.1)
        assert machine.take(1)[0] > greatest, operation


@pytest.mark.covers("CSN-25")
def test_a_damaged_or_missing_file_is_not_read_as_zero() -> None:
    """Any flipped bit, a cut, or no file where one must be: the start is refused, naming the file."""
    size = len(Machine().file())
    for offset in range(0, size, 7):
        machine = Machine()
        machine.damage(offset)
        machine.restart()
        assert not machine.node.alive
        assert machine.node.stops[0].startswith("corruption: "), offset
    whole = Machine().file()
    for length in range(size):
        with pytest.raises(Corruption):
            Reservation.decode(whole[:length], file="clock")
    machine = Machine()
    machine.remove_file()
    machine.restart()
    assert machine.node.stops[0].startswith("clock_file_missing: ")
    assert "clock at byte 0" in machine.node.stops[0]


@pytest.mark.covers("CSN-37")
def test_a_restart_resumes_at_the_stored_timestamp() -> None:
    """With the clock far behind, T resumes exactly at what was stored; the gap is in the local offset."""
    machine = Machine()
    machine.run(5)
    stored = stored_timestamp(machine)
    machine.node.kill()
    machine.set_back(7200)
    machine.node.start()
    machine.run(0.1)
    csn = machine.generator.take()
    assert (csn.timestamp, csn.sequence) == (stored, 0)
    state = machine.generator.status().state
    assert 7200 * SECOND < state.local_ns <= 7210 * SECOND
    machine.run(10)
    assert machine.generator.take().timestamp in (stored + 9, stored + 10)


@pytest.mark.covers("CSN-37")
def test_a_clock_past_the_stored_timestamp_needs_no_offset() -> None:
    """After a crash and a minute's pause the system clock alone is enough."""
    machine = Machine()
    machine.restart(after_s=60)
    assert machine.generator.status().state.local_ns == 0
    assert machine.generator.take().timestamp == machine.node.clock.wall() // SECOND


# --- csnstate: its entry in the directory is not there yet; no row is claimed


def test_csnstate_is_a_documented_line() -> None:
    """System clock, local offset, network offset, sequence, as text that reads back the same."""
    state = ClockState(system_ns=1_700_000_000_123_456_789, local_ns=0, network_ns=250_000_000, sequence=17)
    text = "system=1700000000.123456789 local=0.000000000 network=0.250000000 sequence=17"
    assert state.text() == text
    assert ClockState.parse(text) == state
    machine = Machine()
    machine.generator.observe("b", Csn(START_S + 3, 8, ReplicaId(2)))
    shown = ClockState.parse(machine.generator.csnstate())
    assert shown == machine.generator.status().state
    assert shown.sequence == 9
    for wrong in (
        "",
        text + " ",
        text.upper(),
        text.replace("sequence=17", "sequence=65536"),
        text.replace(" local", " locale"),
    ):
        with pytest.raises(InvalidRequest):
            ClockState.parse(wrong)


def test_a_clean_restart_goes_on_exactly() -> None:
    """Stopped in order and started within the second, offsets are unchanged and S goes on."""
    machine = Machine()
    machine.generator.observe("b", Csn(START_S + 40, 0, ReplicaId(2)))
    machine.set_back(50)
    machine.run(3)
    last = machine.take(5)[-1]
    machine.clock.fixed_ns = machine.generator.status().state.system_ns
    before = machine.generator.status().state
    machine.close()
    machine.csnstate = machine.generator.csnstate()
    with pytest.raises(GeneratorStopped):
        machine.generator.take()
    with pytest.raises(GeneratorStopped):
        machine.generator.observe("b", Csn(START_S + 400, 0, ReplicaId(2)))
    machine.restart()
    after = machine.generator.status().state
    assert (after.local_ns, after.network_ns) == (before.local_ns, before.network_ns)
    assert machine.take(1)[0] > last


def test_csnstate_alone_carries_the_offsets() -> None:
    """A generator given nothing but the text resumes past it, with its offsets."""
    text = f"system={START_S}.000000000 local=5.000000000 network=20.500000000 sequence=300"
    machine = Machine()
    machine.node.kill()
    machine.remove_file()
    machine.is_new, machine.csnstate = True, text
    machine.clock.fixed_ns = None
    machine.set_back(1)
    machine.node.start()
    machine.run(0.1)
    state = machine.generator.status().state
    assert state.network_ns == 20_500_000_000
    assert state.local_ns >= 5 * SECOND
    csn = machine.generator.take()
    assert (csn.timestamp, csn.sequence) >= (START_S + 25, 300)


@pytest.mark.parametrize("ahead_s", [-1000, 1000])
def test_the_later_of_file_and_csnstate_counts(ahead_s: int) -> None:
    """Whichever is later, the clock file or csnstate, is where the generator resumes."""
    machine = Machine()
    stored = stored_timestamp(machine)
    machine.csnstate = (
        f"system={START_S + ahead_s}.0{'0' * 8} local=0.{'0' * 9} network=0.{'0' * 9} sequence=7"
    )
    machine.restart()
    csn = machine.generator.take()
    expected = (START_S + ahead_s, 7) if ahead_s > 0 else (stored, 0)
    assert (csn.timestamp, csn.sequence) == expected
