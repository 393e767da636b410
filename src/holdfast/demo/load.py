"""Callers of a ledger, of whose calls each can be told apart for ever, though the ledger keeps balances only.

Every call owns one octal digit of one balance: the deposit is a power of eight, ``CALLS_PER_ACCOUNT`` calls
share an account. What the digit says when everything is over is how often its call was executed: 0 is lost,
1 is right, more is duplicated. A ledger that kept a line for each call would say the same and grow without
end; this one stays small, so that fail-over shows what it costs and not what a huge state costs.
"""

import asyncio
import time
from array import array
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.model.errors import OutcomeUnknown, Rejected, Unavailable

BASE: Final = 8
CALLS_PER_ACCOUNT: Final = 20
"""8 to the 20th still is an integer that every wire carries."""


def place_of(caller: int, number: int) -> tuple[str, int]:
    """The account and the amount of a caller's call; numbers count from 0."""
    account, digit = divmod(number, CALLS_PER_ACCOUNT)
    return f"{caller}/{account}", BASE**digit


def executions(balance: int) -> list[int]:
    """How often each call of an account was executed."""
    return [balance // BASE**digit % BASE for digit in range(CALLS_PER_ACCOUNT)]


@dataclass(slots=True)
class Caller:
    """One caller: its calls one after the other."""

    id: int
    sent: int = 0
    """Calls made so far: the last one may be under way."""
    unknown: list[int] = field(default_factory=list)
    """Numbers of calls that ended without an outcome."""


@dataclass(slots=True)
class Load:
    """All callers. Times are seconds of ``time.monotonic``."""

    callers: list[Caller]
    pace_s: float = 0.0
    """What each caller waits between an answer and its next call."""
    answered_at: "array[float]" = field(default_factory=lambda: array("d"))
    took_s: "array[float]" = field(default_factory=lambda: array("d"))
    wrong_replies: int = 0
    """Answers other than what the balance must have been then."""

    @classmethod
    def of(cls, callers: int, *, pace_s: float = 0.0) -> "Load":
        return cls([Caller(each) for each in range(callers)], pace_s)

    async def run(self, ledger: Any, stop: asyncio.Event) -> None:
        """Call until told to stop; ends when the last call has ended."""
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
