"""Groups that call each other: a shop, and the stock it sells from."""

import holdfast as hf


class Stock:
    def __init__(self) -> None:
        self.reserved: dict[str, int] = {}
        self.notes: list[str] = []

    def reserve(self, order: str) -> int:
        """How often this order has reserved something, this time included."""
        self.reserved[order] = self.reserved.get(order, 0) + 1
        return self.reserved[order]

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
        """*domain*: where the stock is, if it is elsewhere."""
        self.stock = stock
        self.domain = domain
        self.sold: dict[str, int] = {}

    async def buy(self, order: str) -> int:
        """What the stock says, twice over: two calls within one."""
        stock = hf.context.group(self.stock, domain=self.domain)
        first = await stock.reserve(order)
        self.sold[order] = first * 10 + await stock.reserve(f"{order}, again")
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
