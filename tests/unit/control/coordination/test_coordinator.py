"""Tests the coordinator on a real authority that falls silent at the worst moment (IM D, T2)."""

import random
from collections.abc import Callable, Collection, Hashable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.authority.control_records import MANAGER, Status, Transaction
from holdfast.authority.election import Elected, elect
from holdfast.authority.membership import join
from holdfast.authority.recipe import Recipe, Seen
from holdfast.authority.transactions import get_transaction_status, last_transaction
from holdfast.control.coordination.config import CHANGES_BYTES_MAX, ControlConfig
from holdfast.control.coordination.coordinator import Coordinator
from holdfast.control.coordination.ports import ControlPorts, Failed, Outcome
from holdfast.control.coordination.role_base import OwnPart
from holdfast.control.coordination.state_file import Context
from holdfast.model.ids import HostId, Term
from holdfast.model.ports import TimerId
from recipe_bench import Bench, Treatment

A, B, C = map(HostId, "abc")


class Surroundings:
    """Clock, timers and authority of one host, driven by hand. *treat* stands between the host and the
    authority."""

    def __init__(self, directory: Path) -> None:
        self.bench = Bench(directory)
        self.treat: Treatment = self.bench.ask
        self.due: list[Hashable] = []
        self.stepped_down: list[str] = []

    def now(self) -> int:
        return 0

    def timers(self, on_timer: Callable[[Hashable], None]) -> "Surroundings":
        self.on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        self.due.append(tag)
        return TimerId(0)

    def fire(self) -> None:
        due, self.due = self.due, []
        for tag in due:
            self.on_timer(tag)

    def stream(self, name: str) -> random.Random:
        return random.Random(0)

    def send(self, peer: str, message: object) -> None:
        return None

    def note(self, kind: str, **fields: object) -> None:
        return None

    def start(self, recipe: Recipe[Any], then: Callable[[Any], None]) -> None:
        then(self.bench.run(recipe, self.treat))

    def join(self, host: str) -> object:
        session = self.bench.session(host)
        return self.bench.run(join(session, roles=(MANAGER,), context_cas=0, nonce=self.bench.nonce()))

    def coordinator(self, *, dead: Collection[HostId] = ()) -> Coordinator:
        """A coordinator on host a, elected, which knows that the first processes of *dead* are dead."""
        session = self.bench.session(A)
        self.bench.run(join(session, roles=(MANAGER,), context_cas=0, nonce=self.bench.nonce()))
        elected = self.bench.run(elect(Term(0), nonce=self.bench.nonce(), prefer=A))
        assert isinstance(elected, Elected)
        me = cast(Any, self)
        ports = ControlPorts(me, self.timers, me, me, me, me, self.bench.nonce, lambda: None)  # type: ignore[arg-type]  # as far as it is used
        archive = SimpleNamespace(context=Context(), keep_log=lambda context, kept: None)
        application = SimpleNamespace(apply=lambda body, change: (body + change, b""))
        self_ = OwnPart(
            A, session.incarnation, cast(Any, archive), ports, cast(Any, application), ControlConfig()
        )
        return Coordinator(
            self_,
            Term(1),
            self.stepped_down.append,
            is_dead=lambda each: each.host in dead and each.incarnation == 1,
        )


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    made = Surroundings(tmp_path)
    yield made
    made.bench.close()


def test_an_opening_that_was_given_up_and_made_after_all_is_rolled_back(around: Surroundings) -> None:
    """The authority opens the update, but its answer is lost, and nobody answers for a while. The client is
    told that nothing was changed. Yet the update is open, and until it ends nobody can join."""
    coordinator, told = around.coordinator(), list[Outcome]()
    around.treat = around.bench.lose_answer
    coordinator.update(b"x", told.append)
    around.treat = around.bench.silence
    around.fire()
    assert [type(each) for each in told] == [Failed]
    left = around.bench.run(last_transaction())
    assert isinstance(left, Transaction)
    assert left.status is Status.INITIAL
    around.treat = around.bench.ask
    coordinator.begin()
    left = around.bench.run(last_transaction())
    assert isinstance(left, Transaction)
    assert left.status is Status.ROLLBACK
    assert isinstance(around.join("b"), Seen)
    assert around.stepped_down == []


def test_the_next_change_ends_an_opening_that_was_given_up(around: Surroundings) -> None:
    """This holds even if the change comes before the coordinator has polled the record. Stepping down because
    of one lost answer would fail all waiting changes and leave the domain without a coordinator."""
    coordinator, told = around.coordinator(), list[Outcome]()
    around.treat = around.bench.lose_answer
    coordinator.update(b"x", told.append)
    around.treat = around.bench.silence
    around.fire()
    left = around.bench.run(last_transaction())
    around.treat = around.bench.ask
    coordinator.update(b"y", told.append)
    opened = around.bench.run(last_transaction())
    assert isinstance(left, Transaction)
    assert isinstance(opened, Transaction)
    assert (opened.cas, opened.status) == (left.cas + 1, Status.INITIAL)
    ended = around.bench.run(get_transaction_status(left.cas))
    assert isinstance(ended, Transaction)
    assert ended.status is Status.ROLLBACK
    assert around.stepped_down == []


def test_changes_that_do_not_fit_one_message_wait_for_the_next_update(around: Surroundings) -> None:
    """A message longer than a frame would end the connection instead of arriving, again and again."""
    coordinator, told = around.coordinator(), list[Outcome]()
    around.treat = around.bench.lose_answer
    coordinator.update(b"x", told.append)
    for _ in range(5):
        coordinator.update(bytes(CHANGES_BYTES_MAX // 4), told.append)
    around.treat = around.bench.silence
    counts = []
    for _ in range(3):
        around.fire()  # each update is given up, and the next one is opened with the waiting changes
        counts.append(len(told))
    assert counts == [1, 1 + 4, 1 + 4 + 1]


def participants(around: Surroundings) -> list[HostId]:
    """The participants of the open update."""
    opened = around.bench.run(last_transaction())
    assert isinstance(opened, Transaction)
    return [each.host for each in opened.participants]


def test_no_update_waits_for_a_process_that_died_before_the_term_began(around: Surroundings) -> None:
    """The dead process's session lasts for a while. The first change of the term comes before anything is
    known of the other hosts, and leaves that process out. Otherwise the next change would have to wait until
    it counts as silent."""
    around.join(B)
    around.join(C)
    around.coordinator(dead=[C]).update(b"x", lambda _: None)
    assert participants(around) == [A, B]


def test_the_next_process_of_a_host_that_died_takes_part(around: Surroundings) -> None:
    around.join(B)
    around.bench.end(around.bench.session(C))
    around.join(C)
    around.coordinator(dead=[C]).update(b"x", lambda _: None)
    assert participants(around) == [A, B, C]
