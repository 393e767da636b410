"""The claims of one host travel together, and each gets its own answer (K4, A1)."""

from collections import deque
from collections.abc import Callable, Hashable
from pathlib import Path

import pytest

from holdfast.authority.contract import Request, Result, Txn, Unknown
from holdfast.authority.groups import GroupRecord, create_group, reserve_group
from holdfast.authority.identity import Floors, Identity, ensure_identity, restore
from holdfast.authority.recipe import InDoubt, Recipes, Seen
from holdfast.authority.removal import remove_group
from holdfast.authority.views import (
    VIEWS_PER_TXN_MAX,
    IdentityChanged,
    Lost,
    View,
    ViewChange,
    ViewMember,
    change_view,
    next_epoch,
)
from holdfast.model.ids import GroupId, HostId, Incarnation, Nonce, Opening, StoreId
from holdfast.model.ports import NoTrace, TimerId
from holdfast.sequence.claim_batches import TRANSACTIONS_MAX, Answer, ClaimBatches
from recipe_bench import Bench

A = ViewMember(host=HostId("a"), store=StoreId("a"), incarnation=Incarnation(1), opening=Opening(1))
B = ViewMember(host=HostId("b"), store=StoreId("b"), incarnation=Incarnation(1), opening=Opening(1))


class Host:
    """A host's claims, with an authority that answers on command and a turn that ends on command."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.asked: deque[tuple[Request, Hashable]] = deque()
        self.sizes: list[int] = []
        self.answers: dict[GroupId, list[Answer]] = {}
        self._due: list[Hashable] = []
        self._recipes = Recipes(self)
        found = bench.run(ensure_identity("test", nonce=bench.nonce()))
        assert isinstance(found, Seen)
        self.identity: Seen[Identity] = found
        self.claims = ClaimBatches(self._recipes, self._timers, lambda: self.identity, NoTrace())

    def _timers(self, on_timer: Callable[[Hashable], None]) -> "Host":
        self._on_timer = on_timer
        return self

    def set(self, delay_ns: int, tag: Hashable) -> TimerId:
        assert delay_ns == 0
        self._due.append(tag)
        return TimerId(0)

    def cancel(self, timer: TimerId) -> None:
        raise AssertionError("nothing is cancelled")

    def request(self, request: Request, token: Hashable) -> None:
        assert isinstance(request, Txn)
        self.sizes.append(len(request.changes))
        self.asked.append((request, token))

    def end_turn(self) -> None:
        due, self._due = self._due, []
        for tag in due:
            self._on_timer(tag)

    def answer(self, treat: Callable[[Request], Result] | None = None) -> None:
        """Answer the oldest question, and end the turn."""
        request, token = self.asked.popleft()
        self._recipes.on_authority(token, (treat or self.bench.ask)(request))
        self.end_turn()

    def answer_all(self) -> None:
        while self.asked:
            self.answer()

    def claim(self, view: Seen[View]) -> ViewChange:
        wanted = change(view, B, self.bench.nonce(), self.identity.value)
        self.ask(wanted)
        return wanted

    def ask(self, wanted: ViewChange) -> None:
        answers = self.answers.setdefault(wanted.new.group, [])
        self.claims.ask(wanted, answers.append)


def change(view: Seen[View], to: ViewMember, nonce: Nonce, identity: Identity) -> ViewChange:
    epoch = next_epoch(view.value, identity)
    new = View(group=view.value.group, epoch=epoch, primary=to.host, members=(to,), nonce=nonce)
    return ViewChange(view, new)


def groups(bench: Bench, count: int) -> list[Seen[View]]:
    found = []
    for _ in range(count):
        group = bench.run(reserve_group(nonce=bench.nonce()))
        assert isinstance(group, int)
        record = GroupRecord(group=group, class_name="C", style="active", members=(), nonce=bench.nonce())
        view = bench.run(create_group(record, A.host, (A, B)))
        assert isinstance(view, Seen)
        found.append(view)
    return found


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(Bench(tmp_path))


def test_what_is_asked_for_in_one_turn_goes_in_one_transaction(host: Host) -> None:
    """Ten groups lost their primary in the same turn."""
    for view in groups(host.bench, 10):
        host.claim(view)
    assert host.sizes == []
    host.end_turn()
    assert host.sizes == [10]
    host.answer_all()
    assert all(isinstance(answer, Seen) for (answer,) in host.answers.values())
    assert len(host.answers) == 10


def test_transactions_are_bounded_in_size_and_in_number(host: Host) -> None:
    """A change that finds no room waits, is sent when an answer comes, and is answered once."""
    count = (TRANSACTIONS_MAX + 2) * VIEWS_PER_TXN_MAX + 5
    for view in groups(host.bench, count):
        host.claim(view)
    host.end_turn()
    assert host.sizes == [VIEWS_PER_TXN_MAX] * TRANSACTIONS_MAX
    host.answer()
    assert host.sizes == [VIEWS_PER_TXN_MAX] * (TRANSACTIONS_MAX + 1)
    host.answer_all()
    assert host.sizes == [*[VIEWS_PER_TXN_MAX] * (TRANSACTIONS_MAX + 2), 5]
    assert [len(answers) for answers in host.answers.values()] == [1] * count


def test_claims_gather_while_transactions_are_under_way(host: Host) -> None:
    """A slow authority makes transactions larger, not more numerous."""
    views = groups(host.bench, TRANSACTIONS_MAX + 7)
    for view in views:
        host.claim(view)
        host.end_turn()
    assert host.sizes == [1] * TRANSACTIONS_MAX
    host.answer()
    assert host.sizes == [*[1] * TRANSACTIONS_MAX, 7]


def test_a_refused_transaction_costs_nobody_but_the_losers(host: Host) -> None:
    """One view has another primary by now and one group is gone: the other claims are won all the same
    (K4)."""
    views = groups(host.bench, 5)
    rival = change(views[1], A, host.bench.nonce(), host.identity.value)
    standing = host.bench.run(change_view(rival, identity=host.identity))
    host.bench.run(remove_group(views[3].value.group, nonce=host.bench.nonce()))
    for view in views:
        host.claim(view)
    host.end_turn()
    host.answer_all()
    assert host.sizes == [5, 3]
    numbers = [view.value.group for view in views]
    assert host.answers[numbers[1]] == [Lost(numbers[1], standing)]
    assert host.answers[numbers[3]] == [Lost(numbers[3], None)]
    assert all(isinstance(host.answers[numbers[n]][0], Seen) for n in (0, 2, 4))


def test_a_transaction_without_an_answer_leaves_each_of_its_changes_in_doubt(host: Host) -> None:
    """Requested again with the same nonces, in other batches, each change is found or won (A1)."""
    views = groups(host.bench, 4)
    wanted = [host.claim(view) for view in views]
    host.end_turn()

    def applied_unheard(request: Request) -> Result:
        host.bench.ask(request)
        return Unknown("no answer")

    host.answer(applied_unheard)
    for each in wanted:
        assert host.answers[each.new.group] == [InDoubt(each.new.nonce, "no answer to the change of a view")]
    host.answers.clear()
    for each in wanted:
        host.ask(each)
    other = host.claim(*groups(host.bench, 1))
    host.end_turn()
    host.answer_all()
    assert [answer.value for (answer,) in host.answers.values() if isinstance(answer, Seen)] == [
        each.new for each in (*wanted, other)
    ]


def test_a_restored_authority_is_told_to_all(host: Host) -> None:
    """Nothing may be concluded from what was read before the restore (A5)."""
    for view in groups(host.bench, 3):
        host.claim(view)
    host.bench.run(restore(Floors(), nonce=host.bench.nonce()))
    host.end_turn()
    host.answer_all()
    assert list(host.answers.values()) == [[IdentityChanged()]] * 3
