"""Proofs of death: acted on at once, refuted by who lives, doubted when old or after a false one (K2, K7)."""

from holdfast.model.ids import HostId, Incarnation
from holdfast.model.proven_dead import PROOFS_KEPT, ProvenDead

B = HostId("b")
ONE, TWO, NEVER = Incarnation(1), Incarnation(2), Incarnation(1_000_000)
LATE = 100


class Host:
    """One host's proofs, on a clock that the test sets."""

    def __init__(self, now: int = 10_000) -> None:
        self.time = now
        self.heard: dict[Incarnation, int] = {}
        self.proven = ProvenDead(self, lambda host, incarnation: self.heard.get(incarnation), LATE)

    def now(self) -> int:
        return self.time

    def wall(self) -> int:
        return self.time

    def hear(self, incarnation: Incarnation, after: int) -> None:
        self.time += after
        self.heard[incarnation] = self.time


def test_a_fresh_proof_counts_at_once() -> None:
    host = Host()
    host.hear(ONE, 10)
    host.proven.on_proof(B, ONE)
    assert host.proven.is_dead(B, ONE)
    assert not host.proven.is_dead(B, TWO)


def test_who_is_heard_longer_than_a_lease_afterwards_lives() -> None:
    host = Host()
    host.proven.on_proof(B, ONE)
    host.hear(ONE, LATE)
    assert host.proven.is_dead(B, ONE)  # a message that was late
    host.hear(ONE, 1)
    assert not host.proven.is_dead(B, ONE)
    assert host.proven.is_refuted(B, ONE)


def test_a_false_proof_that_is_repeated_counts_no_more() -> None:
    """Neither with its true age nor as if it were new, at any time while the process is heard."""
    host = Host()
    host.proven.on_proof(B, ONE)
    for _ in range(20):
        host.hear(ONE, LATE // 2)
        for age in (0, host.time - 10_000):
            if host.time > 10_000 + LATE:
                host.proven.on_proof(B, ONE, age)
                assert not host.proven.is_dead(B, ONE)


def test_a_later_true_proof_counts_when_the_process_is_silent() -> None:
    host = Host()
    host.proven.on_proof(B, ONE)
    host.hear(ONE, 3 * LATE)
    host.proven.on_proof(B, ONE)
    assert not host.proven.is_dead(B, ONE)  # it was heard just now, and was reported falsely once
    host.time += LATE + 1
    assert host.proven.is_dead(B, ONE)


def test_an_old_proof_waits_for_silence_at_a_host_that_has_just_begun() -> None:
    """An agent repeats what it knows; a new process has not heard yet who lives."""
    host = Host()
    host.proven.on_proof(B, ONE, age_ns=50 * LATE)
    assert not host.proven.is_dead(B, ONE)
    host.hear(ONE, LATE // 2)
    host.time += LATE
    assert not host.proven.is_dead(B, ONE)
    other = Host()
    other.proven.on_proof(B, ONE, age_ns=50 * LATE)
    other.time += LATE + 1
    assert other.proven.is_dead(B, ONE)


def test_a_proof_that_is_told_twice_is_no_later_one() -> None:
    host = Host()
    host.proven.on_proof(B, ONE)
    host.time += 10 * LATE
    host.proven.on_proof(B, ONE, age_ns=10 * LATE)
    assert host.proven.is_dead(B, ONE)


def test_a_number_that_was_never_issued_proves_nothing_about_others() -> None:
    host = Host()
    host.proven.on_issued([(B, ONE)])
    host.proven.on_proof(B, NEVER)
    host.time += 10 * LATE
    assert not host.proven.is_gone(B, ONE)


def test_who_is_silent_and_was_followed_by_another_is_gone() -> None:
    host = Host()
    host.hear(ONE, 10)
    host.proven.on_issued([(B, TWO)])
    host.proven.on_proof(B, TWO)
    assert not host.proven.is_gone(B, ONE)
    host.time += LATE + 1
    assert host.proven.is_gone(B, ONE)
    assert not host.proven.is_dead(B, ONE)


def test_only_so_many_proofs_are_kept() -> None:
    host = Host()
    for number in range(PROOFS_KEPT + 5):
        host.proven.on_proof(B, Incarnation(number))
    kept = [number for number in range(PROOFS_KEPT + 5) if host.proven.is_dead(B, Incarnation(number))]
    assert len(kept) == PROOFS_KEPT
