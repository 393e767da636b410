"""Checklist CSN, section C: the conditions a generator keeps while it runs.

Rows are claimed of what hosts use to stamp operations (:mod:`holdfast.groups.stamps`). Sessions, vectors,
locks, callbacks and what is set while it runs wait for the directory: tested, and not claimed.
"""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from csn_machine import START_S, Machine

from holdfast.authority.sessions import ensure_replica
from holdfast.clock import ClockConfig, Vector
from holdfast.clock.errors import ClockUnreadable, DuplicateReplica, FutureNotStored, SkewTooLarge, TimeEnded
from holdfast.clock.offsets import LogicalTime
from holdfast.model.csn import TIMESTAMP_MAX, ZERO, Csn
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import SECOND, HostId, ReplicaId
from holdfast.model.validation import insist_valid
from holdfast.sim import Options, World
from recipe_bench import Bench

PEER = ReplicaId(2)


def remote(machine: Machine, ahead_s: int, sequence: int = 0) -> Csn:
    """A peer's CSN, so many seconds ahead of the time here."""
    return Csn(machine.generator.status().state.position[0] + ahead_s, sequence, PEER)


def is_increasing(csns: list[Csn]) -> bool:
    return all(a < b for a, b in pairwise(csns))


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns so often that a missing lock shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.covers("CSN-19", "CSN-38")
def test_threads_get_increasing_csns(rounds: Callable[..., int], eager_threads: None) -> None:
    """However many threads take CSNs, none is handed out twice and each thread sees its own grow."""
    each = rounds(short=5_000, long=125_000)
    config = ClockConfig(in_flight_max=1_000_000, store_spare_s=30)
    machine = Machine(lock=threading.Lock(), config=config)
    order: list[Csn] = []
    machine.generator.assignments.register(committed=lambda csn, _: order.append(csn))
    shares: list[list[Csn]] = [[] for _ in range(8)]

    def work(share: list[Csn]) -> None:
        for _ in range(each):
            csn = machine.generator.take()
            share.append(csn)
            machine.generator.commit(csn)

    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(is_increasing(share) for share in shares)
    assert len(set().union(*shares)) == 8 * each
    assert sorted(order) == sorted(csn for share in shares for csn in share)


@pytest.mark.covers("CSN-19", "CSN-30")
def test_increasing_while_the_clock_is_moved() -> None:
    """Set back, set ahead, slowed down, stopped: CSNs only grow, and so do both offsets."""
    machine = Machine()
    rng = random.Random(5)
    taken: list[Csn] = []
    offsets = [0]
    for _ in range(200):
        match rng.randrange(4):
            case 0:
                machine.node.clock.jump_wall(rng.randint(-50, 50) * SECOND // 7)
            case 1:
                machine.node.clock.set_rate(rng.choice((-1_000_000, -900_000, 0, 100_000)))
            case _:
                machine.run(rng.random() * 3)
        taken += machine.take(rng.randrange(5))
        offsets.append(machine.generator.status().state.local_ns)
    assert len(taken) > 200
    assert is_increasing(taken)
    assert offsets == sorted(offsets)
    assert offsets[-1] > 0


@pytest.mark.covers("CSN-20", "CSN-31")
@pytest.mark.parametrize("ahead_s", [-5, -1, 0, 1, 5, 900])
@pytest.mark.parametrize("sequence", [0, 1, 0xFFFE, 0xFFFF])
def test_greater_than_what_others_have(ahead_s: int, sequence: int) -> None:
    """After a peer's CSN is seen the next one here is greater, also for the last S of the same second."""
    machine = Machine()
    machine.take(3)
    seen = remote(machine, ahead_s, sequence)
    machine.generator.observe("b", seen)
    machine.run(0.1)
    assert machine.generator.take() > seen
    assert (machine.generator.status().state.network_ns > 0) == (ahead_s > 0)


def test_a_vector_feeds_the_generator() -> None:
    """The newest CSN of a peer's vector, whoever made it, is passed when a session begins."""
    machine = Machine()
    vector = Vector.of("g", [remote(machine, 7, 9), Csn(START_S + 20, 4, ReplicaId(3))])
    machine.generator.begin_session("b", PEER, vector)
    machine.run(0.1)
    newest = vector.newest()
    assert newest is not None
    assert machine.generator.take() > newest


@pytest.mark.covers("CSN-26", "CSN-27")
def test_logical_time_is_the_sum_of_three_terms() -> None:
    """T is the whole seconds of system clock, local and network offset, each visible on its own."""
    machine = Machine()
    machine.run(10.5)
    machine.generator.observe("b", remote(machine, 30))
    machine.run(2)
    machine.set_back(100)
    machine.run(2)
    csn = machine.generator.take()
    state = machine.generator.status().state
    assert state.network_ns > 29 * SECOND
    assert state.local_ns > 97 * SECOND
    assert abs(state.system_ns - machine.node.clock.wall()) <= SECOND
    assert csn.timestamp == (state.system_ns + state.local_ns + state.network_ns) // SECOND


@pytest.mark.covers("CSN-28", "CSN-29")
def test_system_clock_is_sampled_each_second() -> None:
    """The cached time is whole seconds, at most one old, and does not move between samples."""
    machine = Machine()
    for _ in range(20):
        machine.run(0.25)
        assert machine.node.clock.wall() // SECOND - machine.generator.current_time() in (0, 1)
    before = machine.generator.current_time()
    machine.clock.fixed_ns = (START_S + 1000) * SECOND + SECOND * 7 // 10
    machine.generator.take()
    assert machine.generator.current_time() == before
    machine.run(1)
    assert machine.generator.current_time() == START_S + 1000, "whole seconds, of a clock between two"
    machine.clock.fixed_ns += SECOND * 3 // 10
    machine.run(1)
    assert machine.generator.current_time() == START_S + 1001


@pytest.mark.covers("CSN-30")
def test_local_offset_stays_zero_while_the_clock_behaves() -> None:
    """A clock that never goes back needs no correction; one set back 90 s needs at most those 90 s."""
    machine = Machine()
    for _ in range(100):
        machine.run(1.3)
        machine.take(10)
    assert machine.generator.status().state.local_ns == 0
    machine.set_back(90)
    machine.run(1.1)
    assert 88 * SECOND < machine.generator.status().state.local_ns <= 90 * SECOND


@pytest.mark.covers("CSN-31")
def test_clocks_in_step_do_not_push_each_other() -> None:
    """Two servers a few milliseconds apart exchange CSNs for minutes: no offset exceeds that difference."""
    world = World(Options(scenario="", seed=0))
    a = Machine(world, name="a", replica=1)
    b = Machine(world, name="b", replica=2, wall_offset_ns=5_000_000)
    for _ in range(2000):
        world.run_until(world.now + 97_000_000)
        b.generator.observe("a", a.take(1)[0])
        a.generator.observe("b", b.take(1)[0])
    assert a.generator.status().state.network_ns <= 5_000_000
    assert b.generator.status().state.network_ns == 0


def test_a_peer_too_far_ahead_is_refused() -> None:
    """+3,599 s is accepted, +3,601 s refused by name, amount and limit; local writes go on unchanged."""
    machine = Machine()
    before = machine.take(1)[0]
    state = machine.generator.csnstate()
    with pytest.raises(SkewTooLarge) as refused:
        machine.generator.begin_session("b", PEER, Vector.of("g", [remote(machine, 3601)]))
    assert (refused.value.peer, refused.value.limit_s) == ("b", 3600)
    assert 3600 < refused.value.ahead_s <= 3601
    assert all(word in str(refused.value) for word in ("peer b", "3600 s", "csn_max_skew"))
    assert machine.notes("clock_peer_refused")
    assert machine.generator.csnstate() == state
    after = machine.take(1)[0]
    assert (after.timestamp, after.sequence) == (before.timestamp, before.sequence + 1)

    accepted = remote(machine, 3599)
    machine.generator.begin_session("b", PEER, Vector.of("g", [accepted]))
    machine.run(0.1)
    assert machine.generator.take() > accepted


@pytest.mark.covers("CSN-32")
def test_skew_is_limited_in_sum() -> None:
    """Many small steps get no further than one big one; the limit and an override change that, visibly."""
    machine = Machine()
    for _ in range(6):
        machine.generator.observe("b", remote(machine, 590))
    with pytest.raises(SkewTooLarge):
        machine.generator.observe("b", remote(machine, 590))
    assert machine.generator.status().state.network_ns <= 3600 * SECOND

    machine.generator.set_max_skew(4200)
    machine.generator.observe("b", remote(machine, 590))
    assert machine.notes("clock_max_skew")
    machine.generator.set_max_skew(100)
    far = remote(machine, 10_000)
    with pytest.raises(SkewTooLarge):
        machine.generator.observe("b", far)
    machine.generator.observe("b", far, override_reason="b was repaired by hand")
    assert "b was repaired by hand" in machine.notes("clock_pulled")[-1]
    machine.run(0.1)
    assert machine.generator.take() > far
    with pytest.raises(InvalidRequest):
        machine.generator.set_max_skew(-1)


@pytest.mark.covers("CSN-35", "CSN-36", "CSN-3")
def test_a_frozen_clock_gives_200_000_csns() -> None:
    """S runs to the end of its width, then T advances into the local offset, and S begins at 0 again."""
    machine = Machine()
    taken = machine.take(200_000)
    assert len(set(taken)) == 200_000
    assert is_increasing(taken)
    for a, b in pairwise(taken):
        if b.timestamp != a.timestamp:
            assert (b.timestamp, a.sequence, b.sequence) == (a.timestamp + 1, 0xFFFF, 0)
        else:
            assert b.sequence == a.sequence + 1
    assert taken[-1].timestamp == taken[0].timestamp + 3
    assert 2 * SECOND < machine.generator.status().state.local_ns <= 3 * SECOND


@pytest.mark.covers("CSN-36")
def test_sequence_restarts_only_when_the_second_changes() -> None:
    """Within one T the S goes on across samples and stores; in the next T it is 0 again."""
    machine = Machine()
    taken: list[Csn] = []
    for _ in range(60):
        machine.run(0.21)
        taken += machine.take(3)
    for a, b in pairwise(taken):
        assert b.sequence == (a.sequence + 1 if a.timestamp == b.timestamp else 0)
    assert len({csn.timestamp for csn in taken}) > 10


@pytest.mark.covers("CSN-9")
def test_time_ends_in_2106() -> None:
    """The last second of the 32 bits is handed out to its last S; beyond it the operation is refused."""
    machine = Machine(wall_offset_ns=(TIMESTAMP_MAX - START_S) * SECOND)
    machine.generator.observe("b", Csn(TIMESTAMP_MAX, 0xFFFD, PEER))
    assert machine.generator.take() == Csn(TIMESTAMP_MAX, 0xFFFE, ReplicaId(1))
    assert machine.generator.take() == Csn(TIMESTAMP_MAX, 0xFFFF, ReplicaId(1))
    with pytest.raises(TimeEnded):
        machine.generator.take()
    machine.run(5)
    with pytest.raises(TimeEnded):
        machine.generator.take()


@pytest.mark.covers("CSN-39")
def test_an_unreadable_clock_is_an_error() -> None:
    """No CSN is made of a clock that cannot be read or shows nothing; with the clock, CSNs come back."""
    machine = Machine()
    before = machine.take(1)[0]
    machine.clock.is_broken = True
    with pytest.raises(ClockUnreadable):
        machine.generator.observe("b", remote(machine, 1))
    machine.run(1.1)
    with pytest.raises(ClockUnreadable):
        machine.generator.take()
    machine.clock.is_broken = False
    machine.clock.fixed_ns = 0
    machine.run(1.1)
    with pytest.raises(ClockUnreadable):
        machine.generator.take()
    machine.clock.fixed_ns = None
    machine.run(1.1)
    assert machine.generator.take() > before


def test_a_replica_id_is_nobody_elses() -> None:
    """A peer with this server's id, or with another peer's, is refused; the same peer may come again."""
    machine = Machine(replica=1)
    empty = Vector.of("g")
    with pytest.raises(DuplicateReplica, match="peer b says it is replica 1, which is this server"):
        machine.generator.begin_session("b", ReplicaId(1), empty)
    machine.generator.begin_session("b", PEER, empty)
    machine.generator.begin_session("b", PEER, empty)
    with pytest.raises(DuplicateReplica, match="peer b"):
        machine.generator.begin_session("c", PEER, empty)
    machine.generator.end_session("b")
    machine.generator.begin_session("c", PEER, empty)


@pytest.mark.covers("CSN-6", "CSN-112")
def test_a_csn_is_joined_from_its_parts() -> None:
    """T and S come from the state, r from the server, s is 0; the empty CSN is less."""
    machine = Machine(replica=0xBEEF)
    timestamp, sequence = machine.generator.status().state.position
    csn = machine.generator.take()
    assert csn == Csn(timestamp, sequence, ReplicaId(0xBEEF), 0)
    assert csn > ZERO


@pytest.mark.covers("CSN-113")
def test_each_step_towards_a_csn_has_a_means_of_its_own(tmp_path: Path) -> None:
    """Each is used here without the others: begin, the timestamp, the sequence number, the replica's id, the
    sub-sequence number, and the whole that is joined from them."""
    time = LogicalTime(START_S * SECOND)
    assert (time.timestamp, time.sequence) == (START_S, 0)
    time.sample((START_S + 2) * SECOND + 5, until=START_S + 10)
    assert (time.timestamp, time.sequence) == (START_S + 2, 0)
    time.resume(START_S + 2, 7)
    assert (time.timestamp, time.sequence) == (START_S + 2, 7)
    time.roll_over()
    assert (time.timestamp, time.sequence) == (START_S + 3, 0)
    bench = Bench(tmp_path)
    one, other, again = (
        bench.run(ensure_replica(HostId(host), nonce=bench.nonce())).value.replica  # type: ignore[union-attr]  # nobody else asks
        for host in ("a", "b", "a")
    )
    assert one == again != other
    joined = Csn(time.timestamp, time.sequence, one)
    assert joined.part(3) == Csn(START_S + 3, 0, one, 3)
    assert joined.text() == f"0{START_S + 3:08x}0000{one:04x}"


def test_a_batch_has_one_csn() -> None:
    """A batch takes one CSN for up to 65,536 operations; more or none are refused (S1)."""
    machine = Machine()
    first, second = machine.generator.take(65_536), machine.generator.take(3)
    assert first.part(65_535) < second
    assert (second.sequence, second.sub_sequence) == (first.sequence + 1, 0)
    for parts in (0, -1, 65_537):
        with pytest.raises(InvalidRequest):
            machine.generator.take(parts)


def test_csns_in_flight_are_bounded() -> None:
    """Whoever never ends what it takes is refused in the end, and served again once it ends some."""
    machine = Machine(config=ClockConfig(in_flight_max=3))
    taken = [machine.generator.take() for _ in range(3)]
    with pytest.raises(Overloaded):
        machine.generator.take()
    machine.generator.abort(taken[1])
    assert machine.generator.take().sequence == taken[2].sequence + 1


def test_settings_are_checked_all_at_once() -> None:
    """Every wrong setting is named in one refusal."""
    with pytest.raises(InvalidRequest, match=r"csn_max_skew_s.*store_interval_s.*in_flight_max"):
        insist_valid(ClockConfig(csn_max_skew_s=-1, store_interval_s=0, in_flight_max=0), "clock")
    assert "replica id 65536" in Machine(replica=65_536).node.stops[0]


def test_nothing_is_handed_out_before_the_first_store() -> None:
    """Until its first future timestamp is durable a generator refuses, and says what it waits for."""
    world = World(Options(scenario="", seed=0))
    machine = Machine(world)
    machine.node.kill()
    machine.node.disk.hung_until_ns = world.now + SECOND
    machine.node.start()
    with pytest.raises(FutureNotStored):
        machine.generator.take()
    machine.run(1.1)
    machine.generator.take()
