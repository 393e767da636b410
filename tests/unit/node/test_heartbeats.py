"""Heartbeats: which peers are heard, which are silent, and when a host must end itself."""

from collections.abc import Callable, Hashable

import msgspec
import pytest

from holdfast.model.ids import MILLISECOND, SECOND, HostId, Incarnation
from holdfast.model.ports import NoTrace, TimerId
from holdfast.node.heartbeats import Heartbeat, HeartbeatConfig, Heartbeats, Vitals

A, B = HostId("a"), HostId("b")
CONFIG = HeartbeatConfig()
WELL = Vitals(loop_age_ns=0, sync_age_ns=0)


class Bench:
    """Two hosts on one simulated clock; a cut direction loses every heartbeat."""

    def __init__(self) -> None:
        self.time = 0
        self.cut: list[tuple[str, str]] = []
        self.unfit: list[str] = []
        self.vitals = WELL
        self.ends = {A: self._host(A, 1), B: self._host(B, 1)}
        self.ends[A].set_peers({A: Incarnation(1), B: Incarnation(1)})
        self.ends[B].set_peers({A: Incarnation(1), B: Incarnation(1)})

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time

    def _host(self, name: HostId, incarnation: int) -> Heartbeats:
        bench = self

        class NoTimers:
            def set(self, delay_ns: int, tag: Hashable) -> TimerId:
                return TimerId(0)

            def cancel(self, timer: TimerId) -> None:
                return None

        class Wire:
            def send(self, peer: str, message: object) -> None:
                if (name, peer) not in bench.cut:
                    bench.ends[HostId(peer)].on_message(name, message)

        def timers(on_timer: Callable[[Hashable], None]) -> NoTimers:
            return NoTimers()

        return Heartbeats(
            host=name,
            incarnation=Incarnation(incarnation),
            clock=self,
            timers=timers,
            network=Wire(),
            trace=NoTrace(),
            vitals=lambda: self.vitals,
            on_unfit=lambda why, stood_ns: self.unfit.append(why),
            config=CONFIG,
        )

    def run(self, duration_ns: int) -> None:
        for _ in range(duration_ns // CONFIG.interval_ns):
            self.time += CONFIG.interval_ns
            for end in self.ends.values():
                end.on_timer("beat")


def test_a_heard_peer_is_not_silent_and_says_that_it_hears_us() -> None:
    bench = Bench()
    bench.run(SECOND)
    (peer,) = bench.ends[A].peers()
    assert (peer.host, peer.is_silent, peer.hears_us) == (B, False, True)
    assert peer.heard_age_ns is not None
    assert peer.heard_age_ns <= CONFIG.interval_ns


def test_a_path_that_works_one_way_shows_on_both_sides() -> None:
    """A can send but not receive: A finds B silent, B hears A and learns that A does not hear it (K3)."""
    bench = Bench()
    bench.run(SECOND)
    bench.cut.append((B, A))
    bench.run(2 * SECOND)
    (b_at_a,) = bench.ends[A].peers()
    (a_at_b,) = bench.ends[B].peers()
    assert b_at_a.is_silent
    assert (a_at_b.is_silent, a_at_b.hears_us) == (False, False)


def test_a_peer_that_was_never_heard_becomes_silent_too() -> None:
    bench = Bench()
    bench.cut.append((B, A))
    bench.run(500 * MILLISECOND)
    assert not bench.ends[A].peers()[0].is_silent
    bench.run(SECOND)
    assert bench.ends[A].peers()[0].is_silent
    assert bench.ends[A].peers()[0].heard_age_ns is None


def test_heartbeats_of_an_earlier_incarnation_do_not_count() -> None:
    bench = Bench()
    bench.run(SECOND)
    bench.ends[A].set_peers({B: Incarnation(2)})
    bench.run(2 * SECOND)
    (peer,) = bench.ends[A].peers()
    assert (peer.incarnation, peer.heard_age_ns, peer.is_silent) == (2, None, True)


def test_a_repeated_or_late_heartbeat_does_not_renew() -> None:
    bench = Bench()
    bench.run(SECOND)
    old = Heartbeat(B, Incarnation(1), 1, 0, 0, 0, 0)
    bench.cut.append((B, A))
    bench.run(2 * SECOND)
    bench.ends[A].on_message(B, old)
    assert bench.ends[A].peers()[0].is_silent


@pytest.mark.covers("FTC-21")
@pytest.mark.parametrize(
    ("vitals", "word"),
    [
        (Vitals(loop_age_ns=CONFIG.hang_limit_ns + 1, sync_age_ns=0), "event loop"),
        (Vitals(loop_age_ns=0, sync_age_ns=CONFIG.sync_limit_ns + 1), "disk sync"),
    ],
)
def test_a_host_that_cannot_work_ends_itself(vitals: Vitals, word: str) -> None:
    bench = Bench()
    bench.run(SECOND)
    assert bench.unfit == []
    bench.vitals = vitals
    bench.run(CONFIG.hang_limit_ns)
    assert bench.unfit
    assert word in bench.unfit[0]


def test_a_pause_of_the_whole_process_is_not_taken_for_a_hang() -> None:
    """After SIGCONT every age includes the pause, and a busy machine may take seconds to run every thread
    again: loop and disk are judged by the time in which they could have made progress."""
    bench = Bench()
    bench.run(SECOND)
    bench.time += 60 * SECOND
    bench.vitals = Vitals(loop_age_ns=60 * SECOND, sync_age_ns=60 * SECOND)
    bench.run(5 * SECOND)
    assert bench.unfit == []
    bench.run(CONFIG.sync_limit_ns)
    assert bench.unfit


@pytest.mark.covers("FTC-248")
def test_a_loop_that_answers_for_no_member_is_borne_for_their_timeout_alone() -> None:
    """This holds as long as a member there is monitored."""
    bench = Bench()
    bench.run(SECOND)
    bench.vitals = Vitals(2 * SECOND, 0, loop_limit_ns=None)
    bench.run(SECOND)
    assert bench.unfit == []
    bench.vitals = Vitals(2 * SECOND, 0, loop_limit_ns=SECOND)
    bench.run(SECOND)
    assert "event loop" in bench.unfit[0]


def test_a_short_pause_of_the_whole_process_is_not_taken_for_a_hang_of_its_loop() -> None:
    """The pause exceeds the members' timeout, but nobody could answer and nobody could listen."""
    bench = Bench()
    bench.vitals = Vitals(0, 0, loop_limit_ns=500 * MILLISECOND)
    bench.run(SECOND)
    for _ in range(5):
        bench.time += 600 * MILLISECOND
        bench.vitals = Vitals(600 * MILLISECOND, 0, loop_limit_ns=500 * MILLISECOND)
        bench.run(CONFIG.interval_ns)
        bench.vitals = Vitals(0, 0, loop_limit_ns=500 * MILLISECOND)
        bench.run(CONFIG.interval_ns)
    assert bench.unfit == []


def test_a_heartbeat_survives_the_wire() -> None:
    beat = Heartbeat(A, Incarnation(7), 9, 8, 5, 4, 3)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(beat), type=Heartbeat) == beat


def test_every_bad_setting_is_reported_at_once() -> None:
    bad = HeartbeatConfig(interval_ns=0, silence_ns=-1, hang_limit_ns=-2, sync_limit_ns=-2)
    assert len(bad.validate()) == 4
    assert CONFIG.validate() == []
