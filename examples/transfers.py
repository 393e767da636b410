"""Banks that transfer to each other, all ways at once. Whatever is refused or times out, no money is lost.

Three banks that do one thing after the other, and three that go on with others while a transfer waits, in
rings and both ways; a primary is killed in the middle::

    python examples/transfers.py
    python examples/transfers.py --seconds 60 --chaos

A plain bank that waits for another can be waited for by it: Holdfast finds such circles and refuses one of
the calls, which never runs, and the bank takes its money back. A transfer whose fate is not known in time is
made again under its old number until it is: the other bank takes each number once.
"""

import asyncio
import random
import time
from collections import Counter
from typing import Any

import holdfast as hf

WAIT_S, AGAIN_S = 5, 1


class Bank:
    """Money, and the transfers that have left and are not known to have arrived."""

    open: dict[int, tuple[str, int]]
    """By number: to whom, and how much."""
    taken: dict[str, list[int]]
    """By sender: numbers that were taken, as far as they may come again."""

    def __init__(self, balance: int = 1_000) -> None:
        self.balance = balance
        self.transfers = 0
        self.open = {}
        self.taken = {}
        self.floors: dict[str, int] = {}

    async def transfer(self, to: str, amount: int) -> str:
        """How it ended: ``done``, ``in doubt``, or why it did not take place."""
        if not 0 < amount <= self.balance:
            return "overdrawn"
        self.balance -= amount
        self.transfers += 1
        number = self.transfers
        self.open[number] = (to, amount)
        try:
            await self._deposit_there(number)
        except hf.CallRefused as refusal:  # in a circle, or nobody took it: it never runs
            self.balance += self.open.pop(number)[1]
            return refusal.reason
        except hf.NestedOutcomeUnknown:
            hf.context.call_later(AGAIN_S, self.settle, number)
            return "in doubt"
        return "done"

    async def settle(self, number: int) -> None:
        """Make it again, until it has surely arrived."""
        if number in self.open:
            try:
                await self._deposit_there(number)
            except (hf.CallRefused, hf.NestedOutcomeUnknown):
                hf.context.call_later(AGAIN_S, self.settle, number)

    async def _deposit_there(self, number: int) -> None:
        to, amount = self.open[number]
        other = hf.context.group(to, timeout_s=WAIT_S)
        await other.deposit(hf.context.this_group, number, min(self.open), amount)
        self.open.pop(number, None)

    def deposit(self, sender: str, number: int, floor: int, amount: int) -> None:
        """Take money once for each number. *floor*: the sender is done with all numbers below."""
        floor = self.floors[sender] = max(floor, self.floors.get(sender, 0))
        taken = [each for each in self.taken.get(sender, []) if each >= floor]
        if number >= floor and number not in taken:
            self.balance += amount
            taken.append(number)
        self.taken[sender] = taken

    @hf.query(anytime=True)
    def books(self) -> tuple[int, int]:
        """The balance, and how many transfers are not known to have arrived."""
        return self.balance, len(self.open)


@hf.interleaved
class BusyBank(Bank):
    """The same; others transfer while one waits for another bank."""


BANKS, EACH, AT_ONCE, TRANSFERS = 3, 1_000, 4, 8


async def story(stage: Any) -> None:
    """All banks of a kind transfer to all others at once, while primaries are killed."""
    seconds: float = stage.options.seconds
    kinds: dict[str, dict[str, Any]] = {"plain": {stage.name: stage.group}, "interleaved": {}}
    for kind, cls in (("plain", Bank), ("interleaved", BusyBank)):
        while len(kinds[kind]) < BANKS:
            name, bank = await stage.create(cls, [EACH])
            kinds[kind][name] = bank
    ends: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    until = time.monotonic() + seconds

    async def move(kind: str, source: Any, to: str, dice: random.Random) -> None:
        for _ in range(1_000_000 if seconds else TRANSFERS):
            if seconds and time.monotonic() >= until:
                return
            try:
                how = await source.transfer(to, dice.randint(1, 9))
            except (hf.CallOutcomeUnknown, hf.Unavailable, hf.Overloaded):
                how = "not known here"
            ends[kind][how] += 1
            if how != "done":
                await asyncio.sleep(dice.uniform(0, 0.2))  # let those in the way end

    async def kill() -> None:
        dice = random.Random(0)
        names = [name for banks in kinds.values() for name in banks]
        while time.monotonic() < until - 5:
            await asyncio.sleep(3)
            await stage.kill_primary(dice.choice(names))

    moving = [
        asyncio.create_task(move(kind, source, to, random.Random(f"{kind}/{name}/{to}/{caller}")))
        for kind, banks in kinds.items()
        for name, source in banks.items()
        for to in banks
        for caller in range(AT_ONCE)
        if to != name
    ]
    if not stage.options.chaos:
        await stage.kill_primary(stage.name)
    elif seconds:
        await kill()
    await asyncio.gather(*moving)
    await end(kinds, ends)


async def end(kinds: dict[str, dict[str, Any]], ends: dict[str, "Counter[str]"]) -> None:
    """Wait until everything has arrived, and count."""
    is_right = True
    for kind, banks in kinds.items():
        while any([(await bank.books())[1] for bank in banks.values()]):
            await asyncio.sleep(0.2)
        total = sum([(await bank.books())[0] for bank in banks.values()])
        is_right = is_right and total == BANKS * EACH
        found = ends[kind]
        told = ", ".join(f"{how}: {count}" for how, count in sorted(found.items()))
        print(f"{kind} banks: {found['done']} transfers ({told})", flush=True)
        print(f"{kind} banks: {found['call_cycle']} refused in circles, {total} in all", flush=True)
    if not is_right:
        print(f"money was lost or made: {BANKS * EACH} were there")
        raise SystemExit(1)


if __name__ == "__main__":
    from holdfast.demo.story import play

    play(
        Bank,
        story,
        {
            "--seconds": {"type": float, "default": 0, "help": "how long; else some transfers each"},
            "--chaos": {"action": "store_true", "help": "kill a primary every few seconds"},
        },
    )
