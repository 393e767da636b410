"""A ledger behind simulated hosts on real sockets, and a client of it: for tests of both."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import uvloop
from call_server import Cluster

import holdfast as hf
from holdfast.calling.config import CallPolicy, ClientConfig
from holdfast.model.ids import MILLISECOND, SECOND
from holdfast.net import Limits

QUICK = ClientConfig(
    patience_ns=200 * MILLISECOND,
    heartbeat_interval_ns=50 * MILLISECOND,
    heartbeat_timeout_ns=200 * MILLISECOND,
)


@dataclass
class Account:
    owner: str
    balance: int
    history: tuple[int, ...]


@dataclass
class Picky:
    owner: str

    def __post_init__(self) -> None:
        raise LookupError(self.owner)


@dataclass
class Leaving:
    owner: str

    def __post_init__(self) -> None:
        raise SystemExit(self.owner)


class Ledger:
    def __init__(self) -> None:
        self.balances: dict[str, int] = {}
        self.calls: list[str] = []

    def deposit(self, who: str, amount: int) -> int:
        self.calls.append(f"{who}+{amount}")
        self.balances[who] = self.balances.get(who, 0) + amount
        return self.balances[who]

    def withdraw(self, who: str, amount: int) -> int:
        if self.balances.get(who, 0) < amount:
            raise ValueError(f"{who} has too little")
        return self.deposit(who, -amount)

    @hf.query
    def balance(self, who: str) -> int:
        return self.balances.get(who, 0)

    @hf.query
    def account(self, who: str) -> Account:
        return Account(who, self.balances.get(who, 0), (1, 2))

    @hf.query
    def owners(self) -> set[str]:
        return set(self.balances)

    @hf.query
    def picky(self, who: str) -> Picky:
        return {"owner": who}  # type: ignore[return-value]  # as it travels: it could not be made here either

    @hf.query
    def leaving(self, who: str) -> Leaving:
        return {"owner": who}  # type: ignore[return-value]  # as above

    def opened(self, who: str, amount: int) -> int:
        self.calls.append(f"{who} opened")
        return "not an int"  # type: ignore[return-value]  # as below

    @hf.query
    def promised(self) -> int:
        return "not an int"  # type: ignore[return-value]  # a class that does not keep its word


Story = Callable[[Cluster, Any, Ledger], Awaitable[None]]


def tell(
    story: Story, *, duration_s: float = 10, config: ClientConfig = QUICK, limits: Limits | None = None
) -> None:
    """Run *story* with three hosts and a client of them."""

    async def run() -> None:
        ledger = Ledger()
        policy = CallPolicy(duration_ns=round(duration_s * SECOND))
        async with (
            asyncio.timeout(30),
            Cluster(ledger, limits or Limits()) as cluster,
            hf.connect(cluster.url, policy=policy, config=config) as domain,
        ):
            await story(cluster, domain, ledger)

    uvloop.run(run())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)
