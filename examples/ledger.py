"""A ledger: accounts, and transfers between them. The sum of all balances changes by deposits alone.

See it survive the death of its primary, on a domain of its own::

    python examples/ledger.py

Or call it yourself::

    holdfast up --detach --app examples --group ledger=ledger:Ledger
    holdfast call ledger deposit '"alice"' 5
    holdfast chaos kill-primary ledger
    holdfast call ledger balance '"alice"'
"""

import asyncio
from typing import Any

import holdfast as hf


class Overdrawn(Exception):
    """Raised when an account would fall below zero; nothing has changed."""


class Ledger:
    """Balances by account. An ordinary class: Holdfast keeps it alive."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}

    def deposit(self, account: str, amount: int) -> int:
        """Add to an account; its new balance."""
        if amount < 0:
            raise ValueError(f"a deposit of {amount}")
        self.balances[account] = self.balances.get(account, 0) + amount
        return self.balances[account]

    def transfer(self, source: str, target: str, amount: int) -> None:
        """Move money; all of it, or nothing."""
        if amount < 0:
            raise ValueError(f"a transfer of {amount}")
        if self.balances.get(source, 0) < amount:
            raise Overdrawn(f"{source} has {self.balances.get(source, 0)}, less than {amount}")
        self.balances[source] -= amount
        self.balances[target] = self.balances.get(target, 0) + amount

    @hf.query
    def balance(self, account: str) -> int:
        return self.balances.get(account, 0)

    @hf.query
    def total(self) -> int:
        return sum(self.balances.values())


ACCOUNTS, EACH, TRANSFERS = 10, 100, 50


async def story(stage: Any) -> None:
    """Many transfers at once, the primary killed in the middle of them: no money is lost or made."""
    ledger = stage.group
    for number in range(ACCOUNTS):
        await ledger.deposit(f"account {number}", EACH)
    print(f"{ACCOUNTS} accounts with {EACH} each: {await ledger.total()} in all", flush=True)

    async def move_on(number: int) -> None:
        for step in range(1, TRANSFERS + 1):
            source, target = f"account {number}", f"account {(number + step) % ACCOUNTS}"
            await ledger.transfer(source, target, 1)

    moving = [asyncio.create_task(move_on(number)) for number in range(ACCOUNTS)]
    await stage.kill_primary()
    await asyncio.gather(*moving)
    moved = ACCOUNTS * TRANSFERS
    print(f"{moved} transfers later, on {await stage.primary()}: {await ledger.total()} in all")
    assert await ledger.total() == ACCOUNTS * EACH


if __name__ == "__main__":
    from holdfast.demo.story import play

    play(Ledger, story)
