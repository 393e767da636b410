"""Durable one-way sends: calls that a group has others execute, and waits for none of them (E13, E14).

The outbox is part of the state: a method puts a call in it, and every member and every replay puts the same
one. It leaves when what put it there is committed, from the primary, again and again until the receiver has
answered (:mod:`holdfast.styles.outgoing`); its id is made of the operation's, so the receiver executes it
once. Its end is a record, which takes it out of the outbox. One that came to nothing stays listed: nobody
waited to be told.
"""

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from holdfast.model.calls import Request
from holdfast.model.errors import InvalidRequest, Overloaded
from holdfast.model.ids import ClientId

SENDS_MAX: Final = 10_000
"""Per group, and to one receiver no more than are left for others. They are in every checkpoint."""
BYTES_MAX: Final = 8 * 1024 * 1024
"""Of their arguments together, in the same way."""
SEND_BYTES_MAX: Final = 900_000
"""Of one: it must be a record of its receiver."""
FAILED_MAX: Final = 100
"""So many that came to nothing are listed; the oldest go first."""
TEXT_MAX: Final = 300
LISTED_MAX: Final = 100
"""So many that wait are shown."""
LIST_QUERY: Final = "@sends"
"""A query that every group with a state answers: what is in its outbox."""


class OutboxFull(Overloaded):
    """Raised when a group has as many calls to send as it may have, in all or to this receiver: one takes
    none, or not as fast."""

    code = "outbox_full"


class Send(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call to be sent."""

    number: int
    """Within the group, upwards; never used again."""
    group: str
    """The receiver."""
    method: str
    arguments: msgspec.Raw
    client: ClientId
    operation: int
    """With *client*, the operation that sends it."""
    call: int
    """Which of its sends, from 1."""
    expires_ns: int
    """By the sender's time."""
    traceparent: bytes = b""

    @property
    def caller(self) -> Request:
        return Request(self.client, self.operation)


class FailedSend(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One that came to nothing, as far as is known."""

    number: int
    group: str
    method: str
    code: str
    """``expired``, ``no_such_group``, ``raised``, ``poisoned``, or why the receiver refused it."""
    text: str
    ended_ns: int
    """By the sender's time."""


class _Saved(msgspec.Struct, frozen=True, array_like=True):
    issued: int
    sends: list[Send]
    failed: list[FailedSend]
    failures: int


class Sends:
    """The outbox of one group."""

    def __init__(self) -> None:
        self.issued = 0
        """The number of the newest."""
        self.failures = 0
        """How many have come to nothing, those that are not listed any more included."""
        self.failed: deque[FailedSend] = deque(maxlen=FAILED_MAX)
        self._sends: dict[int, Send] = {}
        self._bytes = 0
        self._to: dict[str, dict[int, None]] = {}
        """Their numbers by receiver, in the order of sending."""
        self._bytes_to: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._sends)

    def __iter__(self) -> Iterator[Send]:
        return iter(self._sends.values())

    def put(
        self,
        group: str,
        method: str,
        arguments: msgspec.Raw,
        caller: Request,
        call: int,
        expires_ns: int,
        traceparent: bytes = b"",
    ) -> None:
        """One more. Raises :class:`OutboxFull`, ``InvalidRequest``."""
        size = len(arguments)
        if size > SEND_BYTES_MAX:
            raise InvalidRequest(f"{group}.{method}: {size} bytes of arguments; at most {SEND_BYTES_MAX}")
        to, to_bytes = len(self._to.get(group, ())), self._bytes_to.get(group, 0)
        # One receiver may have as much as it leaves for others: however many are away, there is room for one
        # more. *Without it:* one that is away has all of it, and nobody else is sent anything.
        if to >= SENDS_MAX - len(self._sends) or to_bytes + size > BYTES_MAX - self._bytes:
            raise OutboxFull(
                f"{len(self._sends)} calls of {self._bytes} bytes wait to be sent, {to} of {to_bytes} bytes "
                f"to {group}; at most {SENDS_MAX} and {BYTES_MAX}, and no more to one receiver than it "
                f"leaves for others: see `holdfast group sends`"
            )
        self.issued += 1
        self._keep(Send(self.issued, group, method, arguments, *caller, call, expires_ns, traceparent))

    def first_to_each(self) -> Iterator[Send]:
        """For each receiver the one that is sent next: the others wait for its end."""
        for numbers in self._to.values():
            yield self._sends[next(iter(numbers))]

    def has(self, number: int) -> bool:
        return number in self._sends

    def get(self, number: int) -> Send | None:
        return self._sends.get(number)

    def listed(self) -> dict[str, Any]:
        """What waits, and what came to nothing, for people."""
        waiting = [
            {"number": each.number, "group": each.group, "method": each.method, "expires_ns": each.expires_ns}
            for each in islice(self, LISTED_MAX)
        ]
        return {
            "waiting": waiting,
            "waiting_count": len(self),
            "bytes": self._bytes,
            "failed": [msgspec.structs.asdict(each) for each in self.failed],
            "failures": self.failures,
        }

    def end(self, number: int, code: str, text: str, time_ns: int) -> Send | None:
        """It has ended: as it should, or with a *code* that says how not. None when it has before."""
        found = self._sends.pop(number, None)
        if found is None:
            return None
        self._bytes -= len(found.arguments)
        self._bytes_to[found.group] -= len(found.arguments)
        numbers = self._to[found.group]
        del numbers[number]
        if not numbers:
            del self._to[found.group], self._bytes_to[found.group]
        if code:
            self.failures += 1
            self.failed.append(FailedSend(number, found.group, found.method, code, text[:TEXT_MAX], time_ns))
        return found

    def save(self) -> bytes:
        return msgspec.msgpack.encode(
            _Saved(self.issued, list(self._sends.values()), list(self.failed), self.failures)
        )

    @classmethod
    def load(cls, saved: bytes) -> "Sends":
        """The outbox that was saved; an empty one, if it is of a time without. Raises ``msgspec.DecodeError``
        for anything else."""
        if not saved:
            return cls()
        outbox, found = cls(), msgspec.msgpack.decode(saved, type=_Saved)
        outbox.issued, outbox.failures = found.issued, found.failures
        outbox.failed.extend(found.failed)
        for each in found.sends:
            outbox._keep(each)
        return outbox

    def _keep(self, send: Send) -> None:
        self._sends[send.number] = send
        self._bytes += len(send.arguments)
        self._bytes_to[send.group] = self._bytes_to.get(send.group, 0) + len(send.arguments)
        self._to.setdefault(send.group, {})[send.number] = None
