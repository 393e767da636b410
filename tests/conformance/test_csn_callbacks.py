"""Callbacks, and the end of every CSN (checklist CSN, section E). The changelog that will register is not
there yet, so no row is claimed."""

import threading

import pytest
from csn_machine import Machine

from holdfast.clock import PendingList, Vector
from holdfast.model.csn import Csn
from holdfast.model.errors import InvalidRequest
from holdfast.model.ids import ReplicaId


def test_registrants_are_told_with_their_own_argument() -> None:
    """Assigned, committed, aborted: each registrant hears of each, in order, with what it registered."""
    machine = Machine()
    assignments = machine.generator.assignments
    heard: list[tuple[str, Csn, object]] = []
    first = assignments.register(
        lambda csn, argument: heard.append(("assigned", csn, argument)),
        lambda csn, argument: heard.append(("committed", csn, argument)),
        lambda csn, argument: heard.append(("aborted", csn, argument)),
        argument="changelog",
    )
    assignments.register(assigned=lambda csn, argument: heard.append(("new", csn, argument)), argument=7)
    a, b = machine.generator.take(), machine.generator.take()
    machine.generator.abort(a)
    machine.generator.commit(b)
    assert heard == [
        ("assigned", a, "changelog"),
        ("new", a, 7),
        ("assigned", b, "changelog"),
        ("new", b, 7),
        ("aborted", a, "changelog"),
        ("committed", b, "changelog"),
    ]
    assignments.unregister(first)
    assignments.unregister(first)
    heard.clear()
    c = machine.generator.take()
    assert heard == [("new", c, 7)]


def test_a_failing_callback_breaks_nothing() -> None:
    """The CSN is assigned, the other registrants hear of it, and the failure is reported and counted."""
    machine = Machine()
    heard: list[Csn] = []

    def fail(csn: Csn, _: object) -> None:
        raise RuntimeError("changelog is full")

    machine.generator.assignments.register(fail, fail, fail)
    machine.generator.assignments.register(lambda csn, _: heard.append(csn))
    a, b = machine.generator.take(), machine.generator.take()
    machine.generator.commit(a)
    machine.generator.abort(b)
    assert heard == [a, b]
    assert machine.generator.status().callback_failures == 4
    assert "changelog is full" in machine.notes("csn_callback_failed")[0]


def test_every_csn_ends_exactly_once() -> None:
    """assigned = committed + aborted + in flight, and no CSN ends twice or without having begun."""
    machine = Machine()
    taken = [machine.generator.take() for _ in range(10)]
    for csn in taken[:4]:
        machine.generator.commit(csn)
    for csn in taken[4:6]:
        machine.generator.abort(csn)
    status = machine.generator.status()
    assert (status.assigned, status.committed, status.aborted, status.in_flight) == (10, 4, 2, 4)
    foreign = Csn(taken[7].timestamp, taken[7].sequence, ReplicaId(9))
    for wrong in (taken[0], taken[5], taken[7].part(1), foreign):
        with pytest.raises(InvalidRequest):
            machine.generator.commit(wrong)
        with pytest.raises(InvalidRequest):
            machine.generator.abort(wrong)
    assert machine.generator.status() == status
    assert machine.generator.assignments.oldest_in_flight() == taken[6]


@pytest.mark.covers("CSN-38")
@pytest.mark.parametrize("event", ["assigned", "committed", "aborted"])
def test_callbacks_run_outside_the_lock(event: str) -> None:
    """A callback may take CSNs itself, from this thread or another, while what became of its own CSN is being
    announced."""
    machine = Machine(lock=threading.Lock())
    generator = machine.generator
    inner: list[Csn] = []

    def take_two(csn: Csn, _: object) -> None:
        generator.assignments.unregister(registration)
        inner.append(generator.take())
        thread = threading.Thread(target=lambda: inner.append(generator.take()))
        thread.start()
        thread.join(10)

    registration = generator.assignments.register(**{event: take_two})
    outer: list[Csn] = []

    def work() -> None:
        outer.append(generator.take())
        (generator.abort if event == "aborted" else generator.commit)(outer[0])

    # Aside and a daemon, so that one which waits for its own lock is found, and not waited for.
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(10)
    assert not worker.is_alive(), "it waits for a lock that it holds itself"
    assert len(inner) == 2
    assert outer[0] < inner[0] < inner[1]
    assert generator.status().callback_failures == 0


def test_overtaking_callbacks_do_not_mislead_the_pending_list() -> None:
    """A thread that has its CSN but has not announced it holds up a greater one that another committed."""
    machine = Machine(lock=threading.Lock())
    pending = PendingList(ReplicaId(1), lock=threading.Lock())
    assignments = machine.generator.assignments
    is_taken, may_announce = threading.Event(), threading.Event()

    def stall(csn: Csn, _: object) -> None:
        if threading.current_thread() is slow:
            is_taken.set()
            may_announce.wait(10)

    assignments.register(stall)
    assignments.register(pending.assigned, pending.committed, pending.aborted)
    slow = threading.Thread(target=lambda: machine.generator.commit(machine.generator.take()))
    slow.start()
    is_taken.wait(10)
    greater = machine.generator.take()
    machine.generator.commit(greater)
    assert pending.take_sendable(below=assignments.oldest_in_flight()) == []
    may_announce.set()
    slow.join(10)
    assert len(pending.take_sendable(below=assignments.oldest_in_flight())) == 2


def test_a_changelog_waits_for_smaller_csns_but_not_for_aborted_ones() -> None:
    """Registered with the generator, a pending list releases what may be sent, in the order of the CSNs."""
    machine = Machine()
    pending = PendingList(ReplicaId(1))
    machine.generator.assignments.register(pending.assigned, pending.committed, pending.aborted)
    a, b, c, d = (machine.generator.take() for _ in range(4))
    machine.generator.commit(c)
    machine.generator.commit(b)
    assert pending.take_sendable() == []
    machine.generator.abort(a)
    assert pending.take_sendable() == [b, c]
    machine.generator.abort(d)
    assert pending.take_sendable() == []
    assert len(pending) == 0
    assert Vector.of("g", [b, c]).get(ReplicaId(1)) == c
