"""The exchange of the examples: two sources, lost datagrams, a leader that is killed, and equal books.

`holdfast demo --scenario exchange` and ``python examples/exchange.py`` run it. Every host throws away a part
of the datagrams of both streams. Decisions about losses are shown as they are taken. At the end each member
says what its book is, and a destination what trades it was told of.
"""

import argparse
import asyncio
import json
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import uvloop
from msgspec import Struct

from holdfast.client.destination import Destination
from holdfast.client.domain import Domain, connect
from holdfast.client.proxy import Group
from holdfast.client.source import Source
from holdfast.demo.domain import LocalDomain, temporary_domain
from holdfast.execution.outputs import Output
from holdfast.machine import log_to_stderr
from holdfast.model.admin.streams import (
    BindStream,
    InspectStreams,
    LoseStream,
    StreamList,
    StreamLost,
    StreamsInspected,
    UnbindStream,
)
from holdfast.model.errors import HoldfastError, InvalidRequest, OutcomeUnknown, Unavailable
from holdfast.model.ids import HostId

SCENARIO: Final = "exchange"
GROUP: Final = "exchange"
ORDERS, QUOTES = "orders", "quotes"
SETTLE_S: Final = 60.0
MEMBERS: Final = 3
QUERY: Final = "summary"
EXIT_FAILED: Final = 1

Say = Callable[[str], None]


class ExchangeResult(Struct, frozen=True, kw_only=True):
    """What came of it."""

    orders: int
    quotes: int
    """How many were sent."""
    books: dict[HostId, list[Any]]
    """What each member says of its book: its digest, orders, volume, quotes, and how many problems it has."""
    trades: int
    """Pieces traded, as the destination was told."""
    losses: dict[str, int]
    """Decisions by stream, as the leader counted them."""
    killed: HostId
    took_s: float

    @property
    def is_whole(self) -> bool:
        """Whether every member has the same book, with every order, and the destination every trade."""
        found = list(self.books.values())
        if len(found) != MEMBERS or any(each != found[0] for each in found):
            return False
        _, orders, volume, quotes, problems = found[0]
        return orders == self.orders and volume == self.trades and quotes <= self.quotes and not problems


async def run_exchange(
    app: Path, *, seconds: float, loss: float, say: Say, directory: Path | None = None
) -> ExchangeResult:
    """Run it on a domain of its own, or on that in *directory*, for so many seconds, with that part of the
    datagrams lost."""
    if directory is not None:
        return await _run_on(LocalDomain(directory), seconds, loss, say)
    say("starting three hosts on this machine ...")
    async with temporary_domain(app) as domain:
        return await _run_on(domain, seconds, loss, say)


async def _run_on(domain: LocalDomain, seconds: float, loss: float, say: Say) -> ExchangeResult:
    async with connect(await domain.url(), dir=domain.layout.directory) as client:
        try:
            return await _Exchange(domain, client, seconds, loss, say).run()
        finally:
            # A domain that existed before stays as it was.
            for stream in (ORDERS, QUOTES):
                with suppress(InvalidRequest):
                    await client.submit(UnbindStream(name=stream), StreamList)
            with suppress(InvalidRequest):
                await client.delete(GROUP)


class _Exchange:
    def __init__(self, domain: LocalDomain, client: Domain, seconds: float, loss: float, say: Say) -> None:
        self._domain = domain
        self._client = client
        self._seconds = seconds
        self._loss = loss
        self._say = say
        self._is_over = False
        self._trades = 0
        self._dice = random.Random(7)

    async def run(self) -> ExchangeResult:
        began = time.monotonic()
        group = await self._client.create(
            "exchange:Exchange", name=GROUP, style="active", durability="memory", min_in_sync=1
        )
        await self._domain.wait_in_sync(GROUP, members=MEMBERS, within_s=SETTLE_S)
        for stream in (ORDERS, QUOTES):
            is_paced = stream == ORDERS
            await self._client.submit(BindStream(name=stream, group=GROUP, is_paced=is_paced), StreamList)
        hosts = (await self._domain.group(GROUP)).placed_on
        for stream in (ORDERS, QUOTES):
            for host in hosts:
                await self._domain.ask(LoseStream(name=stream, part=self._loss), StreamLost, host=host)
        self._say(f"every host throws away {100 * self._loss:g} % of the datagrams of both streams")
        async with Destination(self._client, group=GROUP) as destination:
            taking = asyncio.create_task(self._take(destination))
            telling = asyncio.create_task(self._tell(group))
            async with (
                Source(self._client, stream=ORDERS, group=GROUP) as orders,
                Source(self._client, stream=QUOTES, group=GROUP) as quotes,
            ):
                feeding = asyncio.gather(self._place(orders), self._quote(quotes))
                await asyncio.sleep(self._seconds / 2)
                killed = await self._kill_leader()
                await asyncio.sleep(self._seconds / 2)
                self._is_over = True
                await feeding
                await orders.delivered(timeout_s=SETTLE_S)
                sent = (orders.highest, quotes.highest)
            books, losses = await self._settled(sent[0])
            telling.cancel()
            taking.cancel()
        return ExchangeResult(
            orders=sent[0],
            quotes=sent[1],
            books=books,
            trades=self._trades,
            losses=losses,
            killed=killed,
            took_s=round(time.monotonic() - began, 1),
        )

    # --- what is sent

    async def _place(self, source: Source) -> None:
        """A reliable source: it waits until there is room, and repeats what members lack."""
        number = 0
        while not self._is_over:
            number += 1
            order = {
                "trader": f"trader {self._dice.randrange(20)}",
                "side": self._dice.choice(("buy", "sell")),
                "price": self._dice.randrange(95, 106),
                "quantity": self._dice.randrange(1, 6),
            }
            await source.send(json.dumps(order).encode(), topic="order", priority=0)
            if number % 5 == 0:
                await asyncio.sleep(0.01)

    async def _quote(self, source: Source) -> None:
        """A lossy source: what is old is worth nothing."""
        while not self._is_over:
            source.post(str(self._dice.randrange(9_500, 10_600)).encode(), topic="quote", priority=1)
            await asyncio.sleep(0.003)

    # --- what happens

    async def _kill_leader(self) -> HostId:
        found = await self._domain.wait_in_sync(GROUP, members=MEMBERS, within_s=SETTLE_S)
        if found is None:
            raise Unavailable(f"the exchange is not whole after {SETTLE_S:g} s")
        self._domain.signal(found.primary, signal.SIGKILL)
        self._say(f"kill -9 of {found.primary}, the leader")
        return found.primary

    async def _take(self, destination: Destination) -> None:
        async for each in destination:
            if isinstance(each, Output):
                self._trades += json.loads(each.payload)["quantity"]
            else:
                self._say(f"outputs are missing: {each}")

    async def _tell(self, group: Group[Any]) -> None:
        """Show decisions as they are taken: the first ones, then some."""
        told: list[str] = []
        while True:
            try:
                found = await group.decided()
            except (Unavailable, OutcomeUnknown):
                found = told
            new = [each for each in found if each not in told]
            for each in new[:3]:
                self._say(f"  decided: {each}")
            if len(new) > 3:
                self._say(f"  decided: {len(new) - 3} more")
            told = found
            await asyncio.sleep(1.0)

    # --- the end

    async def _settled(self, orders: int) -> tuple[dict[HostId, list[Any]], dict[str, int]]:
        """What each member says once all have everything."""
        deadline = time.monotonic() + SETTLE_S
        while True:
            found = await self._inspected()
            books = {each.host: each.answer[QUERY] for each in found if QUERY in each.answer}
            first = next(iter(books.values()), None)
            is_equal = len(books) == MEMBERS and all(each == first for each in books.values())
            if time.monotonic() > deadline or (is_equal and first and first[1:3] == [orders, self._trades]):
                losses = {
                    figures.name: figures.counts.get("losses", 0)
                    for each in found
                    if each.is_leader
                    for figures in each.streams
                }
                return books, losses
            await asyncio.sleep(0.2)

    async def _inspected(self) -> list[StreamsInspected]:
        order = InspectStreams(group=GROUP, query=QUERY)
        found = []
        for host in (await self._domain.group(GROUP)).placed_on:
            try:
                found.append(await self._domain.ask(order, StreamsInspected, host=host))
            except (Unavailable, OutcomeUnknown):
                continue  # it is being started again
        return found


def told(result: ExchangeResult) -> list[str]:
    """*result* in sentences."""
    lines = [f"{result.orders} orders and {result.quotes} quotes were sent; {result.killed} was killed"]
    for host, (digest, orders, volume, quotes, _) in sorted(result.books.items()):
        lines.append(
            f"{host}: book {digest}, {orders} orders, {volume} pieces traded, {quotes} quotes delivered"
        )
    lines.append(f"the destination was told of {result.trades} pieces")
    lines += [f"losses of {stream} decided: {count}" for stream, count in sorted(result.losses.items())]
    lines.append("every book is the same" if result.is_whole else "THE BOOKS DIFFER, OR SOMETHING IS MISSING")
    return lines


def play_exchange() -> None:
    """Run it as a script of the examples; ends the process."""
    arguments = argparse.ArgumentParser(prog=f"python {sys.argv[0]}", description=__doc__)
    arguments.add_argument("--dir", type=Path, help="a domain that runs with --app examples; else a new one")
    arguments.add_argument("--seconds", type=float, default=6.0, help="how long orders are sent")
    chosen = arguments.parse_args()
    log_to_stderr("warning")

    def say(text: str) -> None:
        print(text, flush=True)

    try:
        app = Path(sys.argv[0]).resolve().parent
        result = uvloop.run(
            run_exchange(app, seconds=chosen.seconds, loss=0.02, say=say, directory=chosen.dir)
        )
    except HoldfastError as error:
        print(f"exchange: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    for line in told(result):
        say(line)
    sys.exit(0 if result.is_whole else EXIT_FAILED)
