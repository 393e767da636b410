"""A ledger: accounts, and transfers between them. The sum of all balances changes by deposits alone.

Run it::

    holdfast up --detach --app examples
    holdfast group create ledger ledger:Ledger
    holdfast call ledger deposit '"alice"' 5
    holdfast chaos kill-primary ledger
    holdfast call ledger balance '"alice"'
"""

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
