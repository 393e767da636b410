"""Banks that transfer to each other: what does not arrive is returned."""

import time

import holdfast as hf

DEPOSIT_S = 0.05


class Bank:
    """A bank that makes one transfer at a time: others wait behind one that waits for another bank."""

    def __init__(self, balance: int) -> None:
        self.balance = balance
        self.refused: list[str] = []
        """The messages of refused calls."""

    async def transfer(self, to: str, amount: int) -> str:
        """Return how it ended: ``done``, or why it did not take place."""
        self.balance -= amount
        try:
            await hf.context.group(to).deposit(amount)
        except hf.CallRefused as refusal:
            self.balance += amount
            self.refused.append(str(refusal))
            return refusal.reason
        return "done"

    async def pass_on(self, amount: int, to: list[str]) -> str:
        """Transfer to the first of *to*, which passes it on to the others in turn."""
        if not to:
            self.deposit(amount)
            return "done"
        self.balance -= amount
        try:
            ended: str = await hf.context.group(to[0]).through(amount, to[1:])
        except hf.CallRefused as refusal:
            ended = refusal.reason
        if ended != "done":
            self.balance += amount
        return ended

    async def through(self, amount: int, to: list[str]) -> str:
        self.deposit(amount)
        ended = await self.pass_on(amount, to) if to else "done"
        if ended != "done":
            self.balance -= amount
        return ended

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance

    @hf.query
    def holds(self) -> int:
        return self.balance

    @hf.query
    def said(self) -> list[str]:
        return self.refused


@hf.interleaved
class OpenBank(Bank):
    """A bank that executes other operations while one of its own waits."""


class SlowBank(Bank):
    """A bank that takes its time for a deposit, without computing: whoever transfers to it waits for it
    nearly always."""

    @hf.slow
    def deposit(self, amount: int) -> int:
        time.sleep(DEPOSIT_S)
        return super().deposit(amount)
