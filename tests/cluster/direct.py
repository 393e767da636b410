"""A caller that talks to one host only, whatever its role: the kind of caller that a stale answer would
harm."""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import msgspec

from holdfast.execution.records import Call, Sent, encode_arguments, encode_calls
from holdfast.model.calls import (
    Calls,
    Reads,
    Redirected,
    Replies,
    Seen,
    ToClient,
    Turned,
    decode_to_client,
    encode_message,
)
from holdfast.model.ids import ClientId, Epoch, GroupId
from holdfast.model.outcome import Outcome, Returned, decode_outcome
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Expected,
    Kind,
    NotConnected,
    Reason,
    Role,
    connect,
)

DURATION_S = 3600
"""So long that no request expires within a test."""
PACE_S = 0.005
"""The pause between two questions of a watch."""


@dataclass(frozen=True)
class Answer:
    """What the host returned, and its epoch."""

    value: int
    epoch: Epoch


class DirectCaller:
    """One connection to one host. Every frame carries the version that this host knows, once it has said
    so."""

    def __init__(self, name: str, group: GroupId, version: Epoch) -> None:
        self._client = ClientId(f"direct-{name}-{secrets.token_hex(4)}")
        self._group = group
        self.version = version
        self._number = 0
        self._connection: Connection | None = None
        self._asked: dict[int, asyncio.Future[Answer | None]] = {}
        self._outcome: asyncio.Future[Outcome] | None = None

    async def open(self, address: str, endpoint: ConnectionSettings) -> None:
        """Connect to the host. Raises ``NotConnected``."""
        endpoint = replace(endpoint, expected=Expected(roles=frozenset({Role.HOST})))
        self.close()
        self._connection = await connect(Address.parse(address), lambda _: self, endpoint)

    def send(self, method: str, *arguments: object) -> "asyncio.Future[Answer | None]":
        """Make a call and return its answer; None when the host refuses the call or closes the connection."""
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        if self._connection is None or not self.is_open:
            answer.set_result(None)
            return answer
        self._asked[self._number + 1] = answer
        self._send(method, arguments, int(time.time()) + DURATION_S)
        return answer

    async def outcome_of(self, method: str, *arguments: object, expiration_s: int) -> Outcome:
        """Return the outcome, whatever it is, of a call that expires at that time of the group."""
        self._outcome = asyncio.get_running_loop().create_future()
        self._send(method, arguments, expiration_s)
        async with asyncio.timeout(120):
            return await self._outcome

    def read(
        self, method: str, *arguments: object, stale_ms: int, seen: Seen | None = None
    ) -> "asyncio.Future[Answer | None]":
        """Make a stale read with what this client has seen."""
        self._number += 1
        answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        assert self._connection is not None
        self._asked[self._number] = answer
        calls = encode_calls([Call(self._number, method, encode_arguments(arguments, {}), 0)])
        frame = Reads(self._number, self._group, self.version, seen or Seen(), stale_ms, self._client, calls)
        self._connection.send(Kind.CALL, encode_message(frame))
        return answer

    def _send(self, method: str, arguments: tuple[object, ...], expiration_s: int) -> None:
        assert self._connection is not None
        self._number += 1
        call = Call(self._number, method, encode_arguments(arguments, {}), expiration_s)
        sent = Sent(self._client, self._number, expiration_s, encode_calls([call]))
        raw = msgspec.Raw(msgspec.msgpack.encode(sent))
        frame = Calls(self._number, self._group, self.version, Seen(), raw)
        self._connection.send(Kind.CALL, encode_message(frame))

    @property
    def is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def close(self) -> None:
        """Close at once: a host that is cut off cannot take a Goodbye, and the loop may end before the
        connection has lingered."""
        if self._connection is not None:
            self._connection.abort()

    # --- events of the connection

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        message: ToClient = decode_to_client(payload)
        match message:
            case Replies():
                for number, outcome in zip(message.numbers, message.outcomes, strict=True):
                    found = decode_outcome(outcome)
                    if self._outcome is not None and not self._outcome.done():
                        self._outcome.set_result(found)
                    is_value = isinstance(found, Returned)
                    self._end(number, Answer(found.value, message.seen.epoch) if is_value else None)
            case Turned(frame=frame):
                self._end(frame, None)
            case Redirected(frame=frame, reference=reference):
                self.version = reference.version
                self._end(frame, None)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        for number in list(self._asked):
            self._end(number, None)

    def _end(self, number: int, answer: Answer | None) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result(answer)


class Watch:
    """Asks one host for an account again and again. Each answer must contain everything acknowledged before
    the question (linearizable reads, R1); *floor* says how much that is."""

    def __init__(
        self,
        caller: DirectCaller,
        floor: Callable[[], int],
        account: str,
        connect: Callable[[DirectCaller], Awaitable[None]],
    ) -> None:
        self._caller = caller
        self._floor = floor
        self._account = account
        self._connect = connect
        self.answers = 0
        """Answers that were neither refused nor stale."""

    async def keep_asking(self) -> None:
        """Ask until cancelled. Raises ``AssertionError`` for a stale answer."""
        while True:
            try:
                if not self._caller.is_open:
                    await self._connect(self._caller)
                await self._ask()
            except NotConnected:
                pass
            await asyncio.sleep(PACE_S)

    async def _ask(self) -> None:
        floor = self._floor()
        answer = await self._caller.send("balance", self._account)
        if answer is not None:
            self.answers += 1
            assert answer.value >= floor, f"stale: {answer}, though {floor} were acknowledged before"

    def close(self) -> None:
        self._caller.close()
