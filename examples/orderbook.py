"""An order book: orders to buy and to sell are matched by price, then by time of arrival.

See it survive the death of its primary, on a domain of its own::

    python examples/orderbook.py

What an exchange must never do, and what the story checks: cross its book, trade twice, or forget an order.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

import holdfast as hf

Side = Literal["buy", "sell"]


@dataclass
class Order:
    """What is left of an order that waits in the book."""

    number: int
    """Counts up: an earlier order of the same price comes first."""
    trader: str
    price: int
    quantity: int


@dataclass
class Trade:
    buyer: str
    seller: str
    price: int
    quantity: int


@dataclass
class Placed:
    """What became of an order: its number, and the trades it made at once."""

    number: int
    trades: list[Trade] = field(default_factory=list)


class OrderBook:
    """Price-time priority. An order trades at the prices of those that were there before it."""

    bids: list[Order]
    asks: list[Order]

    def __init__(self) -> None:
        self.bids = []
        """The best first: highest price, then oldest."""
        self.asks = []
        """The best first: lowest price, then oldest."""
        self.orders = 0
        self.volume = 0

    def place(self, trader: str, side: Side, price: int, quantity: int) -> Placed:
        """Trade with whatever matches; what is left waits in the book."""
        if price <= 0 or quantity <= 0:
            raise ValueError("price and quantity are above zero")
        self.orders += 1
        order = Order(self.orders, trader, price, quantity)
        placed = Placed(order.number, self._match(side, order))
        if order.quantity:
            self._add(side, order)
        return placed

    def cancel(self, number: int) -> bool:
        """Take what is left of an order out of the book; False when nothing is."""
        for book in (self.bids, self.asks):
            for order in book:
                if order.number == number:
                    book.remove(order)
                    return True
        return False

    @hf.query
    def spread(self) -> tuple[int | None, int | None]:
        """The best price to sell at, and the best to buy at."""
        return (self.bids[0].price if self.bids else None, self.asks[0].price if self.asks else None)

    @hf.query
    def waiting(self) -> int:
        """The quantity of all orders in the book."""
        return sum(order.quantity for order in self.bids + self.asks)

    @hf.query
    def traded(self) -> int:
        return self.volume

    @hf.query
    def problems(self) -> list[str]:
        """What is wrong with the book; nothing, if all is well."""
        found = []
        if self.bids and self.asks and self.bids[0].price >= self.asks[0].price:
            found.append(f"crossed: {self.bids[0].price} is bid, {self.asks[0].price} is asked")
        for name, book, rank in (("bids", self.bids, _bid_rank), ("asks", self.asks, _ask_rank)):
            if sorted(book, key=rank) != book:
                found.append(f"the {name} are out of order")
            if any(order.quantity <= 0 for order in book):
                found.append(f"an empty order is among the {name}")
        return found

    def _match(self, side: Side, order: Order) -> list[Trade]:
        others = self.asks if side == "buy" else self.bids
        trades = []
        while order.quantity and others and _agree(side, order.price, others[0].price):
            other = others[0]
            quantity = min(order.quantity, other.quantity)
            buyer, seller = (order, other) if side == "buy" else (other, order)
            trades.append(Trade(buyer.trader, seller.trader, other.price, quantity))
            self.volume += quantity
            order.quantity -= quantity
            other.quantity -= quantity
            if not other.quantity:
                others.pop(0)
        return trades

    def _add(self, side: Side, order: Order) -> None:
        book, rank = (self.bids, _bid_rank) if side == "buy" else (self.asks, _ask_rank)
        book.append(order)
        book.sort(key=rank)


def _agree(side: Side, price: int, other: int) -> bool:
    return price >= other if side == "buy" else price <= other


def _bid_rank(order: Order) -> tuple[int, int]:
    return (-order.price, order.number)


def _ask_rank(order: Order) -> tuple[int, int]:
    return (order.price, order.number)


TRADERS, ORDERS, QUANTITY = 8, 40, 3


async def story(stage: Any) -> None:
    """Traders place orders while the primary is killed; whatever was bought has been sold, once."""
    book = stage.group
    bought: dict[str, int] = {}
    sold: dict[str, int] = {}

    async def trade(number: int) -> None:
        for step in range(ORDERS):
            side: Side = "buy" if (number + step) % 2 else "sell"
            placed = await book.place(f"trader {number}", side, 95 + (number * 7 + step * 3) % 11, QUANTITY)
            for each in placed["trades"]:
                bought[each["buyer"]] = bought.get(each["buyer"], 0) + each["quantity"]
                sold[each["seller"]] = sold.get(each["seller"], 0) + each["quantity"]

    trading = [asyncio.create_task(trade(number)) for number in range(TRADERS)]
    await stage.kill_primary()
    await asyncio.gather(*trading)
    volume, waiting = await book.traded(), await book.waiting()
    bid, ask = await book.spread()
    placed = TRADERS * ORDERS
    print(f"{placed} orders, {volume} pieces traded, {waiting} wait; best bid {bid}, best ask {ask}")
    print(f"served by {await stage.primary()}; problems: {await book.problems() or 'none'}")
    assert await book.problems() == []
    # Every order was placed once: each piece was bought, sold, or waits.
    assert 2 * volume + waiting == placed * QUANTITY
    assert sum(bought.values()) == sum(sold.values()) == volume


if __name__ == "__main__":
    from holdfast.demo.story import play

    play(OrderBook, story)
