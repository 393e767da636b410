"""Leases between two hosts: who may read for how long, and from when on others may claim (R1, R3, K3)."""

from collections.abc import Callable, Hashable

import msgspec

from holdfast.model.ids import MILLISECOND, Epoch, GroupId, HostId, Incarnation
from holdfast.model.ports import TimerId, Timers
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.lease_heartbeats import PROCESSES_KEPT, LeaseHeartbeats
from holdfast.sequence.leases import LeaseNote, Leases
from holdfast.sequence.messages import Beat, BeatAnswer, Confirm, Confirmed

A, B = HostId("a"), HostId("b")
CONFIG = LeaseConfig(lease_ns=300 * MILLISECOND, interval_ns=100 * MILLISECOND, margin_ns=10 * MILLISECOND)
GROUP = GroupId(7)


class Machine:
    """A host that has only leases; the test moves its time and its messages."""

    def __init__(
        self, incarnation: int, beats: LeaseHeartbeats | None = None, note: LeaseNote | None = None
    ) -> None:
        self.time = 1_000_000_000
        self.sent: list[object] = []
        self.due: list[tuple[int, Hashable]] = []
        self.lapsed: list[HostId] = []
        self.confirmed: list[tuple[HostId, Incarnation, GroupId, Epoch, int]] = []
        self.epoch = Epoch(4)
        self.notes: list[str] = []
        self._fire: Callable[[Hashable], None] = lambda tag: None
        self.leases = Leases(
            incarnation=Incarnation(incarnation),
            clock=self,
            timers=self._timers,
            network=self,
            trace=self,
            config=CONFIG,
            on_lapsed=self.lapsed.append,
            is_in=lambda group, epoch, host: epoch == self.epoch,
            on_confirmed=lambda *answer: self.confirmed.append(answer),
            beats=beats,
            note=note,
        )
        self.leases.start([B if incarnation == 1 else A])

    def _timers(self, on_timer: Callable[[Hashable], None]) -> Timers:
        self._fire = on_timer
        return self

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.due.append((self.time + delay_ns, tag))
        return TimerId(len(self.due))

    def cancel(self, timer: TimerId) -> None:
        raise AssertionError("leases cancel nothing")

    def send(self, peer: str, message: object) -> None:
        self.sent.append(message)

    def note(self, kind: str, **fields: object) -> None:
        self.notes.append(kind)

    def take(self, kind: type) -> list[object]:
        taken = [message for message in self.sent if isinstance(message, kind)]
        self.sent = [message for message in self.sent if not isinstance(message, kind)]
        return taken

    def advance(self, by_ns: int) -> None:
        end = self.time + by_ns
        while self.due and min(self.due)[0] <= end:
            at, tag = min(self.due)
            self.due.remove((at, tag))
            self.time = max(self.time, at)
            self._fire(tag)
        self.time = end


def answered(holder: Machine, giver: Machine) -> None:
    """Deliver the holder's heartbeats to the giver, and the answers to the holder."""
    for beat in holder.take(Beat):
        giver.leases.on_message(A, beat)
    for answer in giver.take(BeatAnswer):
        holder.leases.on_message(B, answer)


def test_a_lease_lasts_from_before_its_heartbeat_was_sent() -> None:
    """An answer that took 200 ms leaves 100 ms of 300 (R3)."""
    a, b = Machine(1), Machine(2)
    a.time += 200 * MILLISECOND
    answered(a, b)
    assert a.leases.lease(B) is not None
    a.time += 100 * MILLISECOND - 1
    assert a.leases.lease(B) is not None
    a.time += 1
    assert a.leases.lease(B) is None


def test_the_promise_outlives_the_lease() -> None:
    """The giver counts the grace from the receipt, which is after the sending (R3)."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    promised = b.leases.promised_until(A, Incarnation(1)) - b.time
    assert promised == CONFIG.grace_ns > CONFIG.lease_ns


def longer(config: LeaseConfig = CONFIG) -> LeaseConfig:
    """Return settings with leases ten times as long."""
    return msgspec.structs.replace(config, lease_ns=10 * config.lease_ns)


def test_a_lease_lasts_as_it_was_granted_not_as_its_holder_is_set() -> None:
    """The giver's answer says how long; a longer lease in the holder's own settings changes nothing (R5)."""
    a, b = Machine(1), Machine(2)
    a.leases.retune(longer())
    answered(a, b)
    a.time += CONFIG.lease_ns - 1
    assert a.leases.lease(B) is not None
    a.time += 1
    assert a.leases.lease(B) is None


def test_a_holder_that_trusts_clocks_less_holds_a_lease_for_less() -> None:
    """By its own bound the lease ends before the grace that was promised, by any clock (R5)."""
    a, b = Machine(1), Machine(2)
    a.leases.retune(msgspec.structs.replace(CONFIG, rate_bound_ppm=200_000))
    answered(a, b)
    a.time += 252_500_000 - 1  # 303 ms of grace less the margin, divided by 1.2
    assert a.leases.lease(B) is not None
    a.time += 1
    assert a.leases.lease(B) is None


def test_a_promise_is_not_shortened_with_the_settings() -> None:
    """The lease that was granted before goes on, so the promise does too (R5)."""
    a, b = Machine(1), Machine(2)
    b.leases.retune(longer())
    answered(a, b)
    promised = b.leases.promised_until(A, Incarnation(1))
    b.leases.retune(CONFIG)
    a.advance(100 * MILLISECOND)
    b.advance(100 * MILLISECOND)
    answered(a, b)
    assert b.leases.promised_until(A, Incarnation(1)) == promised
    assert b.leases.heard_at(A, Incarnation(1)) == b.time
    a.time += longer().lease_ns - 100 * MILLISECOND - 1
    assert a.leases.lease(B) is not None


def test_a_process_is_bound_by_what_its_predecessor_granted() -> None:
    """The predecessor kept the length before it granted it; its successor has other settings (R5)."""
    kept: list[int] = []
    earlier = Machine(2, note=LeaseNote(0, kept.append))
    assert kept == [CONFIG.lease_ns]
    earlier.leases.retune(longer())
    assert kept == [CONFIG.lease_ns, longer().lease_ns]
    b = Machine(2, note=LeaseNote(kept[-1], kept.append))
    assert b.leases.bound_until == b.time + CONFIG.grace_of(longer().lease_ns)
    b.advance(longer().lease_ns)
    assert kept[-1] == longer().lease_ns
    b.advance(CONFIG.grace_of(longer().lease_ns) - longer().lease_ns + CONFIG.interval_ns)
    assert kept[-1] == CONFIG.lease_ns


def test_a_false_death_is_distrusted_for_as_long_as_any_peer_may_believe_it() -> None:
    """A peer that grants longer leases believes a proof for longer (K7, R5)."""
    a, b = Machine(1), Machine(2)
    b.leases.retune(longer())
    answered(a, b)
    a.leases.on_own_death()
    for _ in range(60):
        a.advance(CONFIG.interval_ns)
        b.advance(CONFIG.interval_ns)
        answered(a, b)
    assert a.leases.lease(B) is None
    for _ in range(5):
        a.advance(CONFIG.interval_ns)
        b.advance(CONFIG.interval_ns)
        answered(a, b)
    assert a.leases.lease(B) is not None


def test_a_renewed_lease_is_the_same_and_a_lapsed_one_is_not() -> None:
    """A confirmation under a lease counts while the lease is renewed in time, and never again after it lapsed
    (R1)."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    first = a.leases.lease(B)
    a.advance(100 * MILLISECOND)
    answered(a, b)
    assert a.leases.lease(B) == first
    a.advance(400 * MILLISECOND)
    assert a.leases.lease(B) is None
    answered(a, b)
    renewed = a.leases.lease(B)
    assert renewed is not None
    assert first is not None
    assert renewed[1] > first[1]


def test_an_answer_of_another_process_begins_another_lease() -> None:
    a, b = Machine(1), Machine(2)
    answered(a, b)
    a.advance(100 * MILLISECOND)
    answered(a, Machine(3))
    assert a.leases.lease(B) == (Incarnation(3), 2)


def test_an_answer_to_an_earlier_process_of_ours_is_worth_nothing() -> None:
    a = Machine(1)
    a.leases.on_message(B, BeatAnswer(Incarnation(2), Incarnation(9), 1, CONFIG.lease_ns, CONFIG.grace_ns))
    assert a.leases.lease(B) is None


def test_promises_are_made_to_one_process_each() -> None:
    """A new process of a host does not extend what was promised to the one before (K2)."""
    b = Machine(2)
    b.leases.on_message(A, Beat(Incarnation(1), 1, 0))
    b.advance(200 * MILLISECOND)
    b.leases.on_message(A, Beat(Incarnation(5), 1, 0))
    assert (
        b.leases.promised_until(A, Incarnation(5)) - b.leases.promised_until(A, Incarnation(1)) == 200_000_000
    )


def test_a_late_heartbeat_of_an_earlier_process_promises_nothing() -> None:
    b = Machine(2)
    b.leases.on_message(A, Beat(Incarnation(5), 1, 0))
    b.leases.on_message(A, Beat(Incarnation(1), 900, 0))
    assert b.leases.promised_until(A, Incarnation(1)) == 0
    assert b.leases.latest_beat(A) == (Incarnation(5), 1)


def test_a_host_that_does_not_hear_us_gets_no_answer() -> None:
    """That host can send but not receive. If it were answered, nobody could ever claim what it cannot serve
    (K3)."""
    b = Machine(2)
    b.leases.on_message(A, Beat(Incarnation(1), 1, CONFIG.lease_ns + 1))
    assert b.take(BeatAnswer) == []
    assert b.leases.promised_until(A, Incarnation(1)) == 0


def test_the_end_of_a_promise_is_told_once() -> None:
    a, b = Machine(1), Machine(2)
    answered(a, b)
    b.advance(CONFIG.grace_ns + CONFIG.interval_ns)
    assert b.lapsed == [A]
    b.advance(CONFIG.grace_ns)
    assert b.lapsed == [A]


def test_the_end_of_a_promise_is_told_when_it_comes() -> None:
    """The end is not reported up to an interval later: a failover without proof waits for nothing else."""
    a, b = Machine(1), Machine(2)
    b.advance(CONFIG.interval_ns // 2)
    answered(a, b)
    b.advance(CONFIG.grace_ns - 1)
    assert b.lapsed == []
    b.advance(1)
    assert b.lapsed == [A]


def test_a_host_that_is_heard_after_all_was_suspected_wrongly() -> None:
    """The wrong suspicion is recorded: its frequency shows whether the lease is too short for this
    machine."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    b.advance(CONFIG.grace_ns + CONFIG.interval_ns)
    assert b.notes == ["promise_lapsed"]
    b.leases.on_message(A, Beat(Incarnation(1), 2, 0))
    b.advance(CONFIG.interval_ns)
    assert b.notes == ["promise_lapsed", "heard_again"]


def test_a_process_that_is_known_to_be_dead_is_not_suspected() -> None:
    """The promise to a dead process runs out all the same, and members that wait for that are told."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    b.advance(CONFIG.interval_ns // 2)
    b.leases.on_death(A, Incarnation(1))
    assert b.leases.silence_ns(A) == CONFIG.interval_ns // 2
    b.advance(CONFIG.grace_ns + CONFIG.interval_ns)
    assert b.notes == ["death_proven"]
    assert b.lapsed == [A]
    b.leases.on_message(A, Beat(Incarnation(3), 1, 0))
    b.advance(CONFIG.grace_ns + CONFIG.interval_ns)
    assert b.notes == ["death_proven", "promise_lapsed"], "the next one is another process"


def test_a_host_that_was_paused_hears_the_others_before_it_judges_them() -> None:
    """When the host continues, the messages that renew its promises are still unread. If it looked at the
    clock first, it would claim the groups of healthy hosts because of its own pause."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    b.time += 60 * 1000 * MILLISECOND  # paused: nothing fires, nothing is read
    assert b.leases.promised_until(A, Incarnation(1)) > b.time
    b.advance(0)
    assert b.lapsed == []
    b.leases.on_message(A, Beat(Incarnation(1), 2, 0))
    b.advance(CONFIG.grace_ns - 1)
    assert b.lapsed == []


def test_who_stays_silent_after_a_pause_is_judged_a_grace_later() -> None:
    """This includes a host whose promise had run out before the pause."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    b.advance(CONFIG.grace_ns + CONFIG.interval_ns)
    assert b.lapsed == [A]
    b.time += 60 * 1000 * MILLISECOND
    b.advance(CONFIG.grace_ns - 1)
    assert b.lapsed == [A]
    b.advance(2 * CONFIG.interval_ns)
    assert b.lapsed == [A, A]


def test_a_loop_that_was_late_by_a_little_judges_as_ever() -> None:
    a, b = Machine(1), Machine(2)
    answered(a, b)
    b.time += 2 * CONFIG.interval_ns
    b.advance(CONFIG.grace_ns)
    assert b.lapsed == [A]


def test_questions_of_one_turn_travel_together_and_only_what_holds_is_confirmed() -> None:
    """The answer says which of our heartbeats its writer had received last (R1)."""
    a, b = Machine(1), Machine(2)
    answered(a, b)
    a.leases.confirm(B, GROUP, Epoch(4))
    a.leases.confirm(B, GroupId(8), Epoch(3))
    a.advance(0)
    (question,) = a.take(Confirm)
    b.leases.on_message(A, question)
    (answer,) = b.take(Confirmed)
    a.leases.on_message(B, answer)
    assert a.confirmed == [(B, Incarnation(2), GROUP, Epoch(4), 1)]


def test_how_many_hosts_are_heard() -> None:
    b = Machine(2)
    b.advance(CONFIG.lease_ns)
    assert b.leases.heard() == 0
    b.leases.on_message(A, Beat(Incarnation(1), 1, 0))
    assert b.leases.heard() == 1


class Apart:
    """Heartbeats that are driven and received outside the host's loop, by a clock of their own."""

    def __init__(self) -> None:
        self.time = 1_000_000_000
        self.sent: list[object] = []
        self.beats = LeaseHeartbeats(incarnation=Incarnation(2), clock=self, network=self, config=CONFIG)

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time

    def send(self, peer: str, message: object) -> None:
        self.sent.append(message)


def test_a_loop_that_stood_finds_the_promises_that_were_renewed_meanwhile() -> None:
    """The loop looks late, but what it looks at is up to date (R4). *Without it:* a host whose loop is
    blocked for a grace claims the groups of hosts that were alive all the time."""
    apart = Apart()
    b = Machine(2, apart.beats)
    for number in range(1, 20):
        apart.time += CONFIG.interval_ns
        apart.beats.on_message(A, Beat(Incarnation(1), number, 0))
    b.time = apart.time
    b.advance(0)
    assert b.lapsed == []
    assert b.leases.latest_beat(A) == (Incarnation(1), 19)
    assert len(apart.sent) == 19
    b.advance(CONFIG.grace_ns + CONFIG.interval_ns)
    assert b.lapsed == [A]


def test_a_loop_sends_no_heartbeats_and_takes_none_in_when_another_does() -> None:
    """Two threads would each make promises, and know only of their own."""
    apart = Apart()
    b = Machine(2, apart.beats)
    b.leases.on_message(A, Beat(Incarnation(1), 1, 0))
    b.advance(10 * CONFIG.interval_ns)
    assert b.sent == apart.sent == []
    assert b.leases.promised_until(A, Incarnation(1)) == 0


def test_promises_are_kept_for_the_last_processes_of_a_host_only() -> None:
    """A host that restarts again and again does not fill the memory of the others."""
    apart = Apart()
    apart.beats.start([A])
    for incarnation in range(1, 20):
        apart.beats.on_message(A, Beat(Incarnation(incarnation), 1, 0))
    assert list(apart.beats.peers[A].promised.to) == list(range(20 - PROCESSES_KEPT, 20))


def test_a_host_that_comes_later_is_met_and_what_was_promised_to_others_stands() -> None:
    """The domain may grow while it serves. A host that nobody has named gets no lease."""
    machine, late = Machine(1), HostId("late")
    machine.leases.on_message(B, Beat(Incarnation(2), 1, 0, 0))
    promised = machine.leases.promised_until(B, Incarnation(2))
    beat = Beat(Incarnation(5), 1, 0, 0)
    machine.leases.on_message(late, beat)
    assert machine.leases.promised_until(late, Incarnation(5)) == 0
    machine.leases.meet([B, late])
    machine.leases.on_message(late, beat)
    assert machine.leases.promised_until(late, Incarnation(5)) > machine.time
    assert machine.leases.promised_until(B, Incarnation(2)) == promised > machine.time
    assert machine.leases.latest_beat(late) == (Incarnation(5), 1)
