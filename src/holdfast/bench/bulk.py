"""The large object of :mod:`holdfast.bench.state`: many accounts, of which every call changes one."""

from typing import Final

import holdfast as hf

ENTRY_BYTES: Final = 30
"""What one account takes in a checkpoint, about; as Python objects it is seven times that."""


def key_of(number: int) -> str:
    return f"account-{number:010d}"


class Bulk:
    """Half the accounts are plain balances, half have a short history."""

    accounts: dict[str, int | list[int]]

    def __init__(self) -> None:
        self.accounts = {}

    def grow(self, first: int, count: int) -> int:
        """Open *count* accounts from number *first* on; how many there are."""
        for number in range(first, first + count):
            history = [number, number * 7, number + 1]
            self.accounts[key_of(number)] = number if number % 2 else history
        return len(self.accounts)

    def add(self, key: str, amount: int, memo: str) -> int:
        """Change one account; its balance."""
        held = self.accounts[key]
        if isinstance(held, list):
            held[-1] += amount
            return held[-1]
        self.accounts[key] = held + amount
        return held + amount

    @hf.query
    def count(self) -> int:
        return len(self.accounts)
