"""Objects that the application creates itself, next to those that the factories of the hosts create."""

import gc
from collections import Counter
from typing import ClassVar
from weakref import WeakSet

import holdfast as hf

asked: Counter[str] = Counter()
"""How often members of each group were asked whether they are alive, in this process."""


class Till:
    living: ClassVar["WeakSet[Till]"] = WeakSet()
    """All tills of this process."""

    def __init__(self, made_by: str = "a factory") -> None:
        self.made_by = made_by
        self.total = 0
        Till.living.add(self)

    def get_state(self) -> bytes:
        return str(self.total).encode()

    def set_state(self, state: bytes) -> None:
        self.total = int(state)

    def is_alive(self) -> bool:
        asked[hf.context.this_group] += 1
        return True

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    @hf.query
    def whose(self) -> str:
        """Return who made the object that executes this. It is a query: members differ in it, and no replay
        may (E8)."""
        return self.made_by


OWN = Till("the application")
"""Every host's process has one."""


class Onlooker:
    """Sees what is in the process of its host; to be created without replicas, and stateless. It uses
    queries, because the answers change with time and an operation's must not (E8)."""

    @hf.query
    def total_of_own(self) -> int:
        return OWN.total

    @hf.query
    def made_by_factories(self) -> int:
        gc.collect()
        return sum(each.made_by == "a factory" for each in Till.living)

    @hf.query
    def asked(self) -> dict[str, int]:
        return dict(asked)
