"""A class with a strict interface, and classes that cannot be used for groups."""

import threading
from dataclasses import dataclass

import holdfast as hf


@dataclass
class Order:
    item: str
    number: int


class Overdrawn(Exception):
    pass


class Strict:
    def __init__(self) -> None:
        self.orders: list[str] = []

    def place(self, order: Order, *, urgent: bool = False) -> int:
        self.orders.append(order.item)
        return len(self.orders)

    def keep(self, content: str) -> int:
        self.orders.append("kept")
        return len(content)

    def raise_error(self, account: str) -> None:
        raise Overdrawn(f"{account} has 0")

    def give_back(self, number: int) -> str:
        return "x" * number

    def get_socket(self) -> object:
        return threading.Lock()

    def _secret(self) -> None:
        self.orders.append("secret")

    @hf.query
    def placed(self) -> list[str]:
        return self.orders


class Locked:
    """Cannot be captured, because a lock is not state."""

    def __init__(self) -> None:
        self.total = 0
        self.guard = threading.Lock()

    def add(self, amount: int) -> None:
        with self.guard:
            self.total += amount
