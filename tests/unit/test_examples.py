"""The examples' classes, without any host: what their invariants promise, whatever is asked of them."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.check import EXIT_CLEAN, check
from holdfast.execution.context import Scope, scope_now
from holdfast.execution.interface import Interface
from holdfast.execution.timers import Timers
from holdfast.model.ids import SECOND, ClientId
from means import ROOT

EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))
ledger: ModuleType = importlib.import_module("ledger")
orderbook: ModuleType = importlib.import_module("orderbook")
scheduler: ModuleType = importlib.import_module("scheduler")
transfers: ModuleType = importlib.import_module("transfers")

PRICES = st.integers(90, 110)
QUANTITIES = st.integers(1, 9)
PLACED = st.lists(st.tuples(st.sampled_from(["buy", "sell"]), PRICES, QUANTITIES), max_size=60)
ACCOUNTS = st.sampled_from(["a", "b", "c"])


@pytest.fixture(autouse=True)
def restored_path() -> Iterator[None]:
    """`check` puts its directory first on the import path."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.mark.parametrize(
    "name",
    [
        "archive:Archive",
        "ledger:Ledger",
        "orderbook:OrderBook",
        "scheduler:Scheduler",
        "transfers:Bank",
        "transfers:BusyBank",
    ],
)
def test_an_example_does_nothing_that_replicas_would_not_do_alike(name: str) -> None:
    assert check(name, app=EXAMPLES) == EXIT_CLEAN


@given(st.lists(st.tuples(ACCOUNTS, ACCOUNTS, st.integers(0, 50)), max_size=40))
def test_transfers_never_change_the_sum(moves: list[tuple[str, str, int]]) -> None:
    """Also those that are refused, and those from an account to itself."""
    book = ledger.Ledger()
    for account in "abc":
        book.deposit(account, 100)
    for source, target, amount in moves:
        try:
            book.transfer(source, target, amount)
        except ledger.Overdrawn:
            continue
        assert min(book.balances.values()) >= 0
    assert book.total() == 300


@given(st.lists(st.integers(1, 12), max_size=60))
def test_a_bank_takes_each_transfer_once_however_often_it_comes(numbers: list[int]) -> None:
    """Also when the sender has been done with it for long."""
    bank = transfers.Bank(0)
    for number in numbers:
        bank.deposit("other", number, max(1, number - 3), 10)
    assert bank.balance <= 10 * len(set(numbers))
    again = bank.balance
    for number in numbers:
        bank.deposit("other", number, 1, 10)
    assert bank.balance == again


@given(PLACED, st.lists(st.integers(1, 60), max_size=10))
def test_a_book_is_never_crossed_and_forgets_nothing(
    placed: list[tuple[str, int, int]], cancelled: list[int]
) -> None:
    """Every piece was bought, sold, waits, or was cancelled."""
    book = orderbook.OrderBook()
    gone = 0
    for number, (side, price, quantity) in enumerate(placed, 1):
        assert book.place("t", side, price, quantity).number == number
        if number in cancelled:
            before = book.waiting()
            book.cancel(number)
            gone += before - book.waiting()
        assert book.problems() == []
    assert 2 * book.traded() + book.waiting() + gone == sum(quantity for _, _, quantity in placed)


def test_an_order_trades_with_the_best_price_first_then_with_the_oldest() -> None:
    book = orderbook.OrderBook()
    for trader, price in (("late", 101), ("early", 100), ("second", 100)):
        book.place(trader, "sell", price, 2)
    trades = book.place("buyer", "buy", 101, 5).trades
    assert [(each.seller, each.price, each.quantity) for each in trades] == [
        ("early", 100, 2),
        ("second", 100, 2),
        ("late", 101, 1),
    ]
    assert book.spread() == (None, 101)


def test_a_book_says_what_is_wrong_with_it() -> None:
    """Or its story would prove nothing."""
    book = orderbook.OrderBook()
    book.bids = [orderbook.Order(1, "t", 100, 1), orderbook.Order(2, "t", 101, 0)]
    book.asks = [orderbook.Order(3, "t", 99, 1)]
    assert book.problems() == [
        "crossed: 100 is bid, 99 is asked",
        "the bids are out of order",
        "an empty order is among the bids",
    ]


def test_a_job_that_is_asked_for_again_does_not_run_again() -> None:
    """A cron job does, each time; an unknown one is an error."""
    scope = Scope("s", Interface(scheduler.Scheduler), Timers())
    scope.begin(ClientId("c"), 1, 10 * SECOND)
    token = scope_now.set(scope)
    try:
        jobs = scheduler.Scheduler()
        once, often = jobs.after(1.5, "once"), jobs.every("*/5 * * * *", "often")
        assert jobs.waiting() == [once, often]
        for number in (once, once, often, often):
            jobs.run(number)
        assert (jobs.runs(once), jobs.runs(often)) == ([10.0], [10.0, 10.0])
        with pytest.raises(scheduler.NoSuchJob):
            jobs.run(7)
    finally:
        scope_now.reset(token)
