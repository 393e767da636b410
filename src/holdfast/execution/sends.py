"""Durable one-way sends: calls to other groups that no operation waits for (E13, E14).

The outbox is part of the state: a method puts a call into it, and every member and every replay puts the same
one. Once the operation is committed, the primary sends the call and repeats it until the receiver has
answered (:mod:`holdfast.styles.outgoing`). The call's id is derived from the operation's, so the receiver
executes it once. A record ends the send and removes it from the outbox. A failed send stays listed, because
nobody waited for the result.
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
"""Per group. One receiver may have no more than what is left for the others. All sends are in every
checkpoint."""
BYTES_MAX: Final = 8 * 1024 * 1024
"""The limit for the arguments of all sends together, divided in the same way."""
SEND_BYTES_MAX: Final = 900_000
"""The limit for one send: it must fit into a record of its receiver."""
FAILED_MAX: Final = 100
"""How many failed sends are listed; the oldest are dropped first."""
TEXT_MAX: Final = 300
LISTED_MAX: Final = 100
"""How many waiting sends are shown."""
LIST_QUERY: Final = "@sends"
"""A query that every group with a state answers: the contents of its outbox."""


class OutboxFull(Overloaded):
    """Raised when a group has as many calls to send as it may have, in total or to this receiver, because a
    receiver accepts none or is too slow."""

    code = "outbox_full"


class Send(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One call to be sent."""

    number: int
    """Numbers ascend within the group and are never reused."""
    group: str
    """The receiver."""
    method: str
    arguments: msgspec.Raw
    client: ClientId
    operation: int
    """With *client*, the operation that sends it."""
    call: int
    """The index of this send among the operation's sends, from 1."""
    expires_ns: int
    """By the sender's time."""
    traceparent: bytes = b""

    @property
    def caller(self) -> Request:
        return Request(self.client, self.operation)


class FailedSend(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A send that has failed, as far as is known."""

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
        """The number of the newest send."""
        self.failures = 0
        """How many sends have failed, including those no longer listed."""
        self.failed: deque[FailedSend] = deque(maxlen=FAILED_MAX)
        self._sends: dict[int, Send] = {}
        self._bytes = 0
        self._to: dict[str, dict[int, None]] = {}
        """The numbers of the sends to each receiver, in the order of sending."""
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
        """Add a send. Raises :class:`OutboxFull`, ``InvalidRequest``."""
        size = len(arguments)
        if size > SEND_BYTES_MAX:
            raise InvalidRequest(f"{group}.{method}: {size} bytes of arguments; at most {SEND_BYTES_MAX}")
        to, to_bytes = len(self._to.get(group, ())), self._bytes_to.get(group, 0)
        # A receiver may take at most as much as it leaves free: however many receivers are away, there is
        # room for one more. *Without it:* one receiver that is away fills the outbox, and nothing is sent to
        # the others.
        if to >= SENDS_MAX - len(self._sends) or to_bytes + size > BYTES_MAX - self._bytes:
            raise OutboxFull(
                f"{len(self._sends)} calls of {self._bytes} bytes wait to be sent, {to} of {to_bytes} bytes "
                f"to {group}; at most {SENDS_MAX} and {BYTES_MAX}, and no more to one receiver than it "
                f"leaves for others: see `holdfast group sends`"
            )
        self.issued += 1
        self._keep(Send(self.issued, group, method, arguments, *caller, call, expires_ns, traceparent))

    def first_to_each(self) -> Iterator[Send]:
        """The next send for each receiver; later ones wait until it has ended."""
        for numbers in self._to.values():
            yield self._sends[next(iter(numbers))]

    def has(self, number: int) -> bool:
        return number in self._sends

    def get(self, number: int) -> Send | None:
        return self._sends.get(number)

    def listed(self) -> dict[str, Any]:
        """The waiting and the failed sends, for people."""
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
        """End a send: successfully, or with a *code* for the failure. Returns None if it has already
        ended."""
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
        """Load a saved outbox; an empty one if it was saved before outboxes existed. Raises
        ``msgspec.DecodeError`` for anything else."""
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
