"""Objects that the application makes itself, beside those that the factories of the hosts make."""

import gc
from typing import ClassVar
from weakref import WeakSet


class Till:
    living: ClassVar["WeakSet[Till]"] = WeakSet()
    """All of this process."""

    def __init__(self, made_by: str = "a factory") -> None:
        self.made_by = made_by
        self.total = 0
        Till.living.add(self)

    def get_state(self) -> bytes:
        return str(self.total).encode()

    def set_state(self, state: bytes) -> None:
        self.total = int(state)

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    def whose(self) -> str:
        """Who made the object that executes this."""
        return self.made_by


OWN = Till("the application")
"""Every host's process has one."""


class Onlooker:
    """Sees what there is in the process of its host; to be made without replicas, and stateless."""

    def total_of_own(self) -> int:
        return OWN.total

    def made_by_factories(self) -> int:
        gc.collect()
        return sum(each.made_by == "a factory" for each in Till.living)
