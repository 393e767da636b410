"""Groups that call each other: a shop, and the stock it sells from."""

import time
from pathlib import Path

import holdfast as hf

HELD_S_MAX = 10.0
"""Less than the time that a loop may be blocked."""


class Stock:
    def __init__(self) -> None:
        self.reserved: dict[str, int] = {}
        self.notes: list[str] = []

    def reserve(self, order: str) -> int:
        """Return how often this order has reserved something, including this time."""
        self.reserved[order] = self.reserved.get(order, 0) + 1
        return self.reserved[order]

    def reserve_when(self, order: str, directory: str) -> int:
        """Reserve as soon as the file *released* exists; the file *entered* shows that the call has begun."""
        (Path(directory) / "entered").touch()
        until = time.monotonic() + HELD_S_MAX
        while not (Path(directory) / "released").exists() and time.monotonic() < until:
            time.sleep(0.01)
        return self.reserve(order)

    def refuse(self) -> None:
        raise ValueError("sold out")

    async def ask_back(self, who: str, domain: str = "") -> str:
        try:
            await hf.context.group(who, domain=domain).buy("never")
        except hf.CallCycle as error:
            return str(error)
        return "it was called"

    async def wait_for(self, other: str) -> None:
        try:
            await hf.context.group(other).touch()
        except hf.NestedOutcomeUnknown:
            self.notes.append("unknown")

    async def ask_within(self, other: str, timeout_s: float) -> str:
        """Return how a call to *other* with that timeout ends."""
        stock = hf.context.group(other, Stock, timeout_s=timeout_s)
        try:
            await stock.call(Stock.touch)
        except hf.NestedOutcomeUnknown:
            return "unknown"
        except hf.NestedNotExecuted as refusal:
            return refusal.reason
        return "done"

    async def sell_within(self, shop: str, order: str, timeout_s: float) -> str:
        try:
            await hf.context.group(shop, Shop, timeout_s=timeout_s).call(Shop.buy, order)
        except hf.NestedNotExecuted as refusal:
            return refusal.reason
        return "done"

    def touch(self) -> None:
        self.notes.append("touched")

    @hf.query
    def times(self) -> dict[str, int]:
        return self.reserved

    @hf.query
    def noted(self) -> list[str]:
        return self.notes


class Shop:
    def __init__(self, stock: str, domain: str = "") -> None:
        """*domain*: where the stock is, if not in this domain."""
        self.stock = stock
        self.domain = domain
        self.sold: dict[str, int] = {}

    async def buy(self, order: str) -> int:
        """Return the stock's answers to two calls within one."""
        stock = hf.context.group(self.stock, domain=self.domain)
        first = await stock.reserve(order)
        self.sold[order] = first * 10 + await stock.reserve(f"{order}, again")
        return self.sold[order]

    async def buy_when(self, order: str, directory: str) -> int:
        stock = hf.context.group(self.stock, domain=self.domain)
        self.sold[order] = await stock.reserve_when(order, directory)
        return self.sold[order]

    async def fail(self) -> None:
        await hf.context.group(self.stock, domain=self.domain).refuse()

    async def circle(self, home: str = "") -> str:
        stock = hf.context.group(self.stock, domain=self.domain)
        answer: str = await stock.ask_back(hf.context.this_group, home)
        return answer

    async def nobody(self) -> None:
        await hf.context.group("no such group", domain=self.domain).anything()

    @hf.query
    def orders(self) -> dict[str, int]:
        return self.sold


@hf.interleaved
class BusyShop(Shop):
    """A shop for many concurrent buyers."""


class Herald:
    """Sends to others without waiting for answers."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, line: str, *to: str) -> int:
        self.told.append(line)
        for name in to:
            hf.context.send(name).hear(line)
        return len(self.told)

    def tell_soon(self, line: str, to: str) -> None:
        hf.context.send(to, expires_s=2).hear(line)

    @hf.query
    def lines(self) -> list[str]:
        return self.told


class Listener:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def hear(self, line: str) -> None:
        self.heard.append(line)

    @hf.query
    def lines(self) -> list[str]:
        return self.heard
