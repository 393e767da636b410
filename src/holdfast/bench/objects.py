"""The object of the benchmarks. Its methods cost nearly nothing, so that what is measured is ours.

The object of the benchmark of detectors: it is harmed by a file that names the process it lives in.

By a file and not by a call: a call would be made again on the member that takes over, and harm that one too.

The large object of :mod:`holdfast.bench.state`: many accounts, of which every call changes one.

The objects of ``bench nested``: each operation awaits one of another group, and does nothing else.

The classes that benchmarks make groups of: installed with Holdfast, so a domain must allow them.
"""

import os
import time
from pathlib import Path
from typing import Final

import holdfast as hf
from holdfast.execution.context import context
from holdfast.execution.interface import interleaved, query
from holdfast.machine import MachineClock
from holdfast.model.outcome import CallCycle, CallRefused, NestedOutcomeUnknown


class Counter:
    """Adds up."""

    def __init__(self) -> None:
        self.total = 0
        self.last = b""

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    def put(self, payload: bytes) -> int:
        """Keep *payload* in place of the one before; how many were put."""
        self.last = payload
        self.total += 1
        return self.total

    @query
    def read(self) -> int:
        return self.total


SAYS_NO: Final = "says no"
BLOCKS: Final = "blocks"
STANDS: Final = "stands"
FOR_EVER_S: Final = 600.0


class Patient:
    """Adds up. *orders*: the directory in which it finds how it shall be."""

    def __init__(self, orders: str) -> None:
        self.orders = orders
        self.total = 0

    def add(self, amount: int) -> int:
        if _takes(self.orders, STANDS):
            _stand(self.orders)
        self.total += amount
        return self.total

    def is_alive(self) -> bool:
        if _takes(self.orders, BLOCKS):
            _stand(self.orders)
        return not _takes(self.orders, SAYS_NO)


def harm(orders: Path, pid: int, how: str) -> None:
    """Let the object in process *pid* be so, once."""
    (orders / f"{pid} {how}").touch()


def stood_at_ns(orders: Path, pid: int) -> int | None:
    """When the loop of process *pid* began to stand, by the machine's clock; None: not yet."""
    try:
        return int((orders / f"{pid} stood").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _takes(orders: str, how: str) -> bool:
    try:
        os.unlink(os.path.join(orders, f"{os.getpid()} {how}"))
    except FileNotFoundError:
        return False
    return True


def _stand(orders: str) -> None:
    (Path(orders) / f"{os.getpid()} stood").write_text(str(MachineClock().now()))
    time.sleep(FOR_EVER_S)


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


class Relay:
    """Has another group add up; its operations stand in line behind the one that waits."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.passed = 0

    async def relay(self) -> int:
        added: int = await context.group(self.to).add(1)
        self.passed += 1
        return added


@interleaved
class InterleavedRelay(Relay):
    """The same; others begin while one waits."""


class Neighbour:
    """Calls on another, who may be on the way here, or not at home."""

    def __init__(self) -> None:
        self.met = 0

    async def visit(self, whom: str, timeout_s: float) -> str:
        """How it ended: ``met``, ``circle``, or ``away``."""
        try:
            await context.group(whom, timeout_s=timeout_s).greet()
        except CallCycle:
            return "circle"
        except (CallRefused, NestedOutcomeUnknown):
            return "away"
        self.met += 1
        return "met"

    def greet(self) -> None:
        return

    @query
    def times_met(self) -> int:
        return self.met


CLASSES: Final = (
    "holdfast.bench.callers:Tally",
    "holdfast.bench.objects:Bulk",
    "holdfast.bench.objects:Patient",
    "holdfast.bench.objects:InterleavedRelay",
    "holdfast.bench.objects:Neighbour",
    "holdfast.bench.objects:Relay",
    "holdfast.bench.objects:Counter",
)
