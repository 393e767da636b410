"""The classes that benchmarks make groups of. They are installed with Holdfast, so a domain must allow them.

- :class:`Counter` serves most benchmarks: its methods cost almost nothing, so that Holdfast is measured.
- :class:`Patient` serves the benchmark of detectors. It is harmed by a file that names its process, and not
  by a call: a call would be repeated on the member that takes over, and would harm that one too.
- :class:`Bulk` is the large object of :mod:`holdfast.bench.state`: many accounts, of which every call changes
  one.
- :class:`Relay`, :class:`InterleavedRelay` and :class:`Neighbour` serve ``bench nested``: their operations
  await another group.
- :class:`Documents` serves ``bench archive``: it is in files.
- :class:`Miller` serves ``bench busy``: it computes for long.
"""

import os
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

import holdfast as hf
from holdfast.execution.context import context
from holdfast.execution.interface import interleaved, query
from holdfast.machine import MachineClock
from holdfast.model.outcome import CallCycle, CallRefused, NestedOutcomeUnknown


class Documents(hf.Stored):
    """Documents in a database, by id."""

    schema = "CREATE TABLE documents (id TEXT PRIMARY KEY, body BLOB NOT NULL)"

    def put(self, id: str, body: bytes) -> None:
        self.database.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", id, body)

    @query
    def get(self, id: str) -> int:
        """The length of a document; -1 if there is none."""
        found = self.database.one("SELECT length(body) FROM documents WHERE id = ?", id)
        return int(found[0]) if found is not None else -1

    @query
    def digests(self, ids: list[str]) -> list[bytes]:
        """What each of these documents hashes to; of one that is not there, nothing."""
        return [self._digest(each) for each in ids]

    def _digest(self, id: str) -> bytes:
        found = self.database.one("SELECT body FROM documents WHERE id = ?", id)
        return sha256(found[0]).digest() if found is not None and isinstance(found[0], bytes) else b""


class Miller:
    """Computes for long, beside its host's loop."""

    def __init__(self) -> None:
        self.ground = 0

    @hf.slow
    def grind(self, seconds: float) -> int:
        """Compute for so many seconds of a processor."""
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        self.ground += 1
        return self.ground


class Counter:
    """Adds up numbers."""

    def __init__(self) -> None:
        self.total = 0
        self.last = b""

    def add(self, amount: int) -> int:
        self.total += amount
        return self.total

    def put(self, payload: bytes) -> int:
        """Keep *payload* in place of the previous one; return how many were put."""
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
    """Adds up numbers. *orders* is the directory of the files that tell it how to misbehave."""

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
    """Make the object in process *pid* misbehave in that way, once."""
    (orders / f"{pid} {how}").touch()


def hung_since_ns(orders: Path, pid: int) -> int | None:
    """Return when the loop of process *pid* began to hang, on the machine's clock; None if it has not."""
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
"""The approximate size of an account in a checkpoint; as Python objects it is seven times that."""


def key_of(number: int) -> str:
    return f"account-{number:010d}"


class Bulk:
    """A large object: half the accounts are plain balances, half have a short history."""

    accounts: dict[str, int | list[int]]

    def __init__(self) -> None:
        self.accounts = {}

    def grow(self, first: int, count: int) -> int:
        """Open *count* accounts from number *first* on; return how many there are."""
        for number in range(first, first + count):
            history = [number, number * 7, number + 1]
            self.accounts[key_of(number)] = number if number % 2 else history
        return len(self.accounts)

    def add(self, key: str, amount: int, memo: str) -> int:
        """Change one account; return its balance."""
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
    """Lets another group add up; its operations stand in line behind the one that waits."""

    def __init__(self, to: str) -> None:
        self.to = to
        self.passed = 0

    async def relay(self) -> int:
        added: int = await context.group(self.to).add(1)
        self.passed += 1
        return added


@interleaved
class InterleavedRelay(Relay):
    """Like :class:`Relay`, but other operations begin while one waits."""


class Neighbour:
    """Calls another group, which may be calling this one at the same time, or may not be served."""

    def __init__(self) -> None:
        self.met = 0

    async def visit(self, whom: str, timeout_s: float) -> str:
        """Call the group *whom* and return how it ended: ``met``, ``circle``, or ``away``."""
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
    "holdfast.bench.measuring.callers:Tally",
    "holdfast.bench.objects:Bulk",
    "holdfast.bench.objects:Patient",
    "holdfast.bench.objects:InterleavedRelay",
    "holdfast.bench.objects:Miller",
    "holdfast.bench.objects:Neighbour",
    "holdfast.bench.objects:Relay",
    "holdfast.bench.objects:Counter",
    "holdfast.bench.objects:Documents",
)
