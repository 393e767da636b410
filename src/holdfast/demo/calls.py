"""Callers of a ledger whose every call can be distinguished forever, and the count of what became of them.

The ledger keeps balances only. Every call owns one octal digit of one balance: the deposit is a power of
eight, and ``CALLS_PER_ACCOUNT`` calls share an account. At the end the digit says how often its call was
executed: 0 is lost, 1 is right, more is duplicated. A ledger with a line for each call would say the same and
grow without end. This one stays small, so that failover shows its own cost and not that of a huge state.

The count uses only the files of the stopped members. The newest checkpoint of each member and the log after
it give the balances that it would serve. All logs are compared with each other, record by record. What the
group answered while it ran plays no part.
"""

import asyncio
import time
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.execution.definition import Definition
from holdfast.execution.execution import Execution
from holdfast.execution.records import decode_record
from holdfast.model.errors import Corruption, OutcomeUnknown, Rejected, Unavailable
from holdfast.model.ids import GroupId, HostId, Position
from holdfast.storage.checkpoint import UNFINISHED, Checkpoint, checkpoint_of, read_chunks, verify
from holdfast.storage.disk import Directory
from holdfast.storage.inspect import records

BASE: Final = 8
CALLS_PER_ACCOUNT: Final = 20
"""8 to the 20th is still an integer that every wire format carries."""


def place_of(caller: int, number: int) -> tuple[str, int]:
    """Return the account and the amount of a caller's call; numbers count from 0."""
    account, digit = divmod(number, CALLS_PER_ACCOUNT)
    return f"{caller}/{account}", BASE**digit


def executions(balance: int) -> list[int]:
    """Return how often each call of an account was executed."""
    return [balance // BASE**digit % BASE for digit in range(CALLS_PER_ACCOUNT)]


@dataclass(slots=True)
class Caller:
    """One caller, which makes its calls one after the other."""

    id: int
    sent: int = 0
    """Calls made so far; the last one may be in progress."""
    unknown: list[int] = field(default_factory=list)
    """Numbers of calls that ended without an outcome."""


@dataclass(slots=True)
class Load:
    """All callers. Times are seconds of ``time.monotonic``."""

    callers: list[Caller]
    pace_s: float = 0.0
    """How long each caller waits between an answer and its next call."""
    answered_at: "array[float]" = field(default_factory=lambda: array("d"))
    took_s: "array[float]" = field(default_factory=lambda: array("d"))
    wrong_replies: int = 0
    """Answers that differ from what the balance must have been then."""

    @classmethod
    def of(cls, callers: int, *, pace_s: float = 0.0) -> "Load":
        return cls([Caller(each) for each in range(callers)], pace_s)

    async def run(self, ledger: Any, stop: asyncio.Event) -> None:
        """Call until *stop* is set; returns when the last call has ended."""
        await asyncio.gather(*(self._call(ledger, caller, stop) for caller in self.callers))

    async def _call(self, ledger: Any, caller: Caller, stop: asyncio.Event) -> None:
        balance: int | None = 0
        while not stop.is_set():
            number = caller.sent
            account, amount = place_of(caller.id, number)
            if number % CALLS_PER_ACCOUNT == 0:
                balance = 0
            caller.sent += 1
            began = time.monotonic()
            try:
                reply = await ledger.deposit(account, amount)
            except (OutcomeUnknown, Unavailable, Rejected):
                caller.unknown.append(number)
                balance = None  # nobody knows what the next answer must be
                continue
            now = time.monotonic()
            self.answered_at.append(now)
            self.took_s.append(now - began)
            if balance is not None:
                balance += amount
                self.wrong_replies += reply != balance
            if self.pace_s:
                await asyncio.sleep(self.pace_s)


@dataclass(frozen=True, slots=True)
class Remains:
    """What one member left on its disk."""

    host: HostId
    balances: Mapping[str, int]
    position: Position
    log: Mapping[Position, int]
    """The checksum of each record in its log, by the record's first position; each covers all records before
    it."""


class Count(Struct, frozen=True, kw_only=True):
    """What became of the calls, according to the members' files."""

    acknowledged: int
    lost: int
    """Calls that were acknowledged and are missing from a member."""
    duplicated: int
    """Surplus executions, in the member that has the most of them."""
    unknown: int
    """Calls that ended without an outcome."""
    unknown_executed: int
    members: tuple[HostId, ...]
    records_compared: int
    records_differing: int
    """Records at the same position of two members' logs that differ."""


def read_member(host: HostId, store: Path, group: GroupId, definition: Definition) -> Remains:
    """Read the state and the log that a member left. Raises ``Corruption`` when the store is damaged."""
    disk = Directory(store)
    checkpoint = _newest(disk, group)
    if checkpoint is None:
        execution = Execution(definition)
    else:
        execution = Execution.load(definition, b"".join(read_chunks(disk, checkpoint)))
    log: dict[Position, int] = {}
    for record in records(disk, group):
        log[record.first] = record.checksum
        if record.first > execution.position:
            execution.apply(record.first, decode_record(record.body))
    instance = execution.line.instance
    return Remains(host, dict(instance.balances), execution.position, log)  # type: ignore[attr-defined]  # a ledger


def count(callers: Iterable[Caller], members: list[Remains]) -> Count:
    """Count what became of the calls of *callers*. A call lost or duplicated in one member counts as such."""
    acknowledged = lost = duplicated = unknown = unknown_executed = 0
    known: set[str] = set()
    for caller in callers:
        in_doubt = set(caller.unknown)
        acknowledged += caller.sent - len(in_doubt)
        unknown += len(in_doubt)
        for first in range(0, caller.sent, CALLS_PER_ACCOUNT):
            account, _ = place_of(caller.id, first)
            known.add(account)
            digits = [executions(member.balances.get(account, 0)) for member in members]
            for digit in range(CALLS_PER_ACCOUNT):
                times = [each[digit] for each in digits]
                number = first + digit
                duplicated += max(0, max(times) - (number < caller.sent))
                if number in in_doubt:
                    unknown_executed += max(times) > 0
                elif number < caller.sent:
                    lost += min(times) == 0
    # Deposits that nobody made count as duplicates.
    duplicated += sum(account not in known for member in members for account in member.balances)
    compared, differing = _compare(members)
    return Count(
        acknowledged=acknowledged,
        lost=lost,
        duplicated=duplicated,
        unknown=unknown,
        unknown_executed=unknown_executed,
        members=tuple(member.host for member in members),
        records_compared=compared,
        records_differing=differing,
    )


def _compare(members: list[Remains]) -> tuple[int, int]:
    compared = differing = 0
    first, *others = members
    for other in others:
        both = first.log.keys() & other.log.keys()
        compared += len(both)
        differing += sum(first.log[position] != other.log[position] for position in both)
    return compared, differing


def _newest(disk: Directory, group: GroupId) -> Checkpoint | None:
    """Return the newest checkpoint that is complete."""
    named = ((checkpoint_of(name), name) for name in disk.list() if not name.endswith(UNFINISHED))
    found = sorted((of[1], name) for of, name in named if of is not None and of[0] == group)
    for _, name in reversed(found):
        try:
            return verify(disk, name)
        except Corruption:
            continue
    return None
