"""Two ways to use a connection: questions with answers, and a bounded queue of frames.

:class:`Requests` matches answers to questions. The payload of such a frame is a u32 number and a body, and an
answer carries the number of its question. One timer per connection checks all deadlines, because a timer per
call would cost more than the call. :class:`Inbox` is a bounded queue between a connection and a task that
consumes its frames at its own pace.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import Final

from msgspec import DecodeError

from holdfast.model.errors import HoldfastError, OutcomeUnknown, Overloaded
from holdfast.net.connection import Connection
from holdfast.net.frame import Frame, Kind, NotConnected, Reason

NUMBER: Final = Struct(">I")
NUMBER_BYTES: Final = NUMBER.size
PENDING_MAX: Final = 10_000
"""The most questions without an answer on one connection; further callers are told to come back later."""

SWEEP_S: Final = 0.02
"""The precision of deadlines."""


def with_number(number: int, body: bytes) -> bytes:
    """The payload of question or answer *number*."""
    return NUMBER.pack(number) + body


def split_number(payload: bytes) -> tuple[int, bytes]:
    """The number and the body of a payload. Raises ``DecodeError`` when it is too short to have one."""
    if len(payload) < NUMBER_BYTES:
        raise DecodeError("shorter than a request number")
    return NUMBER.unpack_from(payload)[0], payload[NUMBER_BYTES:]


@dataclass(slots=True)
class _Pending:
    answer: asyncio.Future[bytes]
    kind: Kind
    asked_at: float
    deadline: float


class Requests:
    """The questions that this end has asked on one connection.

    Pass it every answer with ``on_answer`` and the end of the connection with ``on_closed``.
    """

    def __init__(self, connection: Connection, *, pending_max: int = PENDING_MAX) -> None:
        self._connection = connection
        self._pending_max = pending_max
        self._pending: dict[int, _Pending] = {}
        self._last_number = 0
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = 0.0

    @property
    def pending(self) -> int:
        return len(self._pending)

    async def ask(self, kind: Kind, body: bytes, *, deadline_s: float) -> bytes:
        """Send a question and wait for the body of its answer.

        Raises ``OutcomeUnknown`` when no answer came in time or the connection ended meanwhile,
        ``NotConnected`` when it had ended before, ``Overloaded`` when too many questions are pending.
        """
        connection = self._connection
        if connection.reason is not None:
            raise NotConnected(str(connection.address), connection.reason)
        if len(self._pending) >= self._pending_max:
            raise Overloaded(f"{len(self._pending)} requests to {connection.peer} have no answer yet")
        number = self._next_number()
        now = self._loop.time()
        pending = _Pending(self._loop.create_future(), kind, now, now + deadline_s)
        self._pending[number] = pending
        try:
            connection.send(kind, with_number(number, body))
            self._sweep_by(pending.deadline)
            return await pending.answer
        finally:
            # Also when the caller was cancelled or the payload refused: a late answer is then dropped.
            self._pending.pop(number, None)

    def on_answer(self, payload: bytes) -> None:
        """Deliver an answer. An answer that nobody waits for is dropped."""
        number, body = split_number(payload)
        pending = self._pending.get(number)
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(body)

    def on_closed(self, reason: Reason) -> None:
        """Fail the pending questions: it is unknown whether the peer received them before the end."""
        if self._sweep is not None:
            self._sweep.cancel()
        for pending in self._pending.values():
            self._give_up(pending, NotHeard(self._name(pending), self._waited_s(pending), reason))

    def _next_number(self) -> int:
        # Numbers wrap after 4 billion; a number still pending after a whole round is skipped.
        while True:
            self._last_number = (self._last_number + 1) & 0xFFFF_FFFF
            if self._last_number not in self._pending:
                return self._last_number

    def _sweep_by(self, deadline: float) -> None:
        if self._sweep is not None and self._sweep_at <= deadline:
            return
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep_at = max(deadline, self._loop.time() + SWEEP_S)
        self._sweep = self._loop.call_at(self._sweep_at, self._on_sweep)

    def _on_sweep(self) -> None:
        self._sweep = None
        now = self._loop.time()
        waiting = [pending for pending in self._pending.values() if not pending.answer.done()]
        for pending in waiting:
            if pending.deadline <= now:
                self._give_up(pending, OutcomeUnknown(self._name(pending), waited_s=self._waited_s(pending)))
        later = [pending.deadline for pending in waiting if pending.deadline > now]
        if later:
            self._sweep_by(min(later))

    def _give_up(self, pending: _Pending, error: HoldfastError) -> None:
        if not pending.answer.done():
            pending.answer.set_exception(error)

    def _name(self, pending: _Pending) -> str:
        return f"{pending.kind.name} to {self._connection.peer}"

    def _waited_s(self, pending: _Pending) -> float:
        return round(self._loop.time() - pending.asked_at, 3)


class NotHeard(OutcomeUnknown):
    """Raised when the connection ended before the answer came; ``reason`` says why it ended."""

    def __init__(self, request: str, waited_s: float, reason: Reason) -> None:
        super().__init__(request, waited_s=waited_s)
        self.reason = reason
        self.args = (f"{request}: the connection ended ({reason}); it may have been applied",)


FRAMES_MAX: Final = 1024
BYTES_MAX: Final = 4 * 1024 * 1024


class Inbox:
    """A receiver that stores frames until they are taken.

    When it is full, it stops the connection from reading, so that the peer's send buffer fills up and the
    peer waits; when it is half empty, reading resumes. It can exceed its bounds by what one read of the
    socket brings.
    """

    def __init__(self, *, frames_max: int = FRAMES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._frames: deque[Frame] = deque()
        self._connection: Connection | None = None
        self._reason: Reason | None = None
        self._arrived = asyncio.Event()
        self.held_bytes = 0

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self._connection = connection
        self._frames.append((kind, payload))
        self.held_bytes += len(payload)
        if len(self._frames) >= self._frames_max or self.held_bytes >= self._bytes_max:
            connection.pause_reading()
        self._arrived.set()

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self._connection = connection
        self._reason = reason
        self._arrived.set()

    async def take(self) -> Frame:
        """Return the next frame. Raises ``NotConnected`` after the last frame of an ended connection."""
        while not self._frames:
            if self._reason is not None:
                where = str(self._connection.address) if self._connection is not None else "?"
                raise NotConnected(where, self._reason)
            self._arrived.clear()
            await self._arrived.wait()
        kind, payload = self._frames.popleft()
        self.held_bytes -= len(payload)
        if len(self._frames) <= self._frames_max // 2 and self.held_bytes <= self._bytes_max // 2:
            self._resume()
        return kind, payload

    def _resume(self) -> None:
        if self._connection is not None and self._reason is None:
            self._connection.resume_reading()
