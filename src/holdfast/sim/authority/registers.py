"""Registers at the authority, read and written by everyone: the reads and transactions are linearizable."""

from collections.abc import Iterable

from holdfast.authority.contract import (
    Absent,
    Applied,
    Compare,
    Equals,
    Get,
    Got,
    Put,
    Refused,
    Txn,
)
from holdfast.authority.recipe import Recipe
from holdfast.model.units import MILLISECOND
from holdfast.sim.authority.host_node import Actor
from holdfast.sim.checkers import CompareAndSet, Handle, History, Read, Violation, Write
from holdfast.sim.checkers.linearizability import check
from holdfast.sim.checkers.models import RegisterModel
from holdfast.sim.checkers.unique import check_register

WRITTEN, SWAPPED = "written", "swapped"
"""Two kinds of registers, because unique writes can be judged fast and swaps only by search."""


class Registers:
    """Reads, writes of unique values, and compare-and-set against what was read last."""

    name = "registers"

    def __init__(self, actor: Actor, *, think_ns: int = 60 * MILLISECOND) -> None:
        self.think_ns = think_ns
        self._actor = actor
        self._last: dict[str, str | None] = {}
        self._values = 0

    def round(self) -> Recipe[None]:
        rng = self._actor.rng
        lineage = self._actor.stage.truth.lineage
        kind = rng.choice((WRITTEN, WRITTEN, SWAPPED))
        key = f"registers/{lineage}/{kind}{rng.randrange(2)}"
        if rng.random() < 0.5:
            yield from self._read(key)
        elif kind == WRITTEN:
            yield from self._write(key)
        else:
            yield from self._swap(key)

    def _read(self, key: str) -> Recipe[None]:
        history = self._actor.stage.history()
        handle = history.begin(self._actor.process, key, Read())
        result = yield Get(key)
        if isinstance(result, Got):
            found = None if result.item is None else result.item.value.decode()
            self._last[key] = found
            self._end(history, handle, found)

    def _write(self, key: str) -> Recipe[None]:
        history = self._actor.stage.history()
        value = self._value()
        handle = history.begin(self._actor.process, key, Write(value))
        result = yield Txn((), (Put(key, value.encode()),))
        if isinstance(result, Applied):
            self._end(history, handle, None)
        elif isinstance(result, Refused):
            history.failed(handle)

    def _swap(self, key: str) -> Recipe[None]:
        history = self._actor.stage.history()
        expected, new = self._last.get(key), self._value()
        compare: Compare = Absent(key) if expected is None else Equals(key, expected.encode())
        handle = history.begin(self._actor.process, key, CompareAndSet(expected, new))
        result = yield Txn((compare,), (Put(key, new.encode()),))
        if isinstance(result, Applied | Refused):
            self._last[key] = new if isinstance(result, Applied) else _found(result)
            self._end(history, handle, isinstance(result, Applied))

    def _end(self, history: History, handle: Handle, result: str | bool | None) -> None:
        # An answer of a lineage that has been lost meanwhile proves nothing: it stays unknown.
        if history is self._actor.stage.history():
            history.ok(handle, result)
            self._actor.done(self.name)

    def _value(self) -> str:
        self._values += 1
        return f"{self._actor.process}.{self._values}"


def check_registers(histories: Iterable[History]) -> list[Violation]:
    found: list[Violation] = []
    for history in histories:
        operations = history.operations()
        found += check_register(each for each in operations if WRITTEN in each.key)
        found += check([each for each in operations if SWAPPED in each.key], RegisterModel)
    return found


def _found(refused: Refused) -> str | None:
    (item,) = refused.found
    return None if item is None else item.value.decode()
