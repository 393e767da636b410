"""An exchange: an order book that is fed by streams, and decides itself what to do about lost messages.

See three members stay equal while datagrams are lost and the leader is killed, on a domain of its own::

    python examples/exchange.py

Orders come from a source that loses nothing in the end: what is missing is recovered, from other members or
from the source, and a member that cannot get it steps back. Quotes come from one that loses much: an old
quote is worth nothing, so a lost one is dropped at once, unless it was a halt of trading, which has high
priority.
"""

import json
from hashlib import blake2b
from typing import Literal

from orderbook import OrderBook

import holdfast as hf

ORDERS, QUOTES = "orders", "quotes"
HALT, QUOTE = 0, 1
"""The priorities of quotes."""


class Exchange(OrderBook):
    """The book of one share. Every member has the same one, whatever each of them received."""

    streams = hf.StreamSettings(grace_ms=10, recover_ms=2_000, attempts=8)

    def __init__(self) -> None:
        super().__init__()
        self.is_halted = False
        self.reference = 0
        """The last quote."""
        self.refused = 0
        self.quotes = 0
        self.decisions: list[str] = []
        """The last decisions about losses, as every member was told of them."""

    def on_messages(self, batch: list[hf.StreamMessage]) -> None:
        for each in batch:
            if each.stream.startswith(ORDERS):
                self._on_order(json.loads(each.payload))
            else:
                self._on_quote(each)

    def on_loss(self, info: hf.LossInfo) -> hf.Action:
        """An order is never given up. A quote is, unless trading may have been halted."""
        if info.stream.startswith(ORDERS):
            return hf.Recover() | hf.Suspend()
        return hf.policies.market_data(self, info)

    def on_action(self, notice: hf.Notice) -> None:
        self.decisions = [
            *self.decisions[-99:],
            f"{notice.stream} {notice.first} to {notice.last}: {notice.kind}",
        ]

    @hf.query
    def summary(self) -> list[object]:
        """What must be equal at every member: the digest of the book, and some figures of it."""
        book = [
            [(each.number, each.trader, each.price, each.quantity) for each in side]
            for side in (self.bids, self.asks)
        ]
        text = json.dumps([book, self.orders, self.volume, self.refused, self.quotes, self.reference])
        digest = blake2b(text.encode(), digest_size=8).hexdigest()
        return [digest, self.orders, self.volume, self.quotes, len(self.problems())]

    @hf.query
    def decided(self) -> list[str]:
        return self.decisions

    def _on_order(self, order: dict[str, object]) -> None:
        if self.is_halted:
            self.refused += 1
            return
        side: Literal["buy", "sell"] = "buy" if order["side"] == "buy" else "sell"
        placed = self.place(str(order["trader"]), side, int(str(order["price"])), int(str(order["quantity"])))
        for trade in placed.trades:
            told = {"price": trade.price, "quantity": trade.quantity, "buyer": trade.buyer}
            hf.context.emit("trades", json.dumps(told).encode())

    def _on_quote(self, message: hf.StreamMessage) -> None:
        self.quotes += 1
        if message.priority == HALT:
            self.is_halted = message.payload == b"halt"
        else:
            self.reference = int(message.payload)


if __name__ == "__main__":
    from holdfast.demo.exchange import play_exchange

    play_exchange()
