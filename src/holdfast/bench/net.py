"""The native protocol compared with a bare uvloop echo of the same frames.

One process serves both. The bare echo writes back the bytes it reads. The native protocol finds the frames,
checks them, hands each to its receiver and sends the answer. The client is the same for both: it makes every
frame and finds every answer. In the row with callers it also wakes the caller that awaits the answer, as a
real client must. The last row is the hardest: its client does so little that the row shows what handling a
frame in Python costs compared with a frame that is not looked at. This is why calls travel many to a frame.
Payloads are carried and not decoded. The two sides alternate in short slices, so that both see the same
moments of a busy machine.
"""

import asyncio
import logging
import multiprocessing
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Any, Final, cast

import msgspec
import structlog
import uvloop

from holdfast.bench import Progress, Result, compare
from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    DomainSecret,
    Expected,
    Kind,
    PeerIdentity,
    Reason,
    Role,
    serve,
    split_number,
    with_number,
)
from holdfast.net.credentials import NONCE_BYTES, SECRET_BYTES
from holdfast.net.frame import FrameDecoder, encode_frame
from holdfast.net.session import Session

TARGET: Final = 0.6
CALL: Final = msgspec.msgpack.encode([123456, "add", 1])
SLICES: Final = 8
"""Turns that each side gets within a round."""
PAYLOAD_BYTES_MAX: Final = 1 << 20
SECRET: Final = DomainSecret("bench", bytes(SECRET_BYTES))
"""Both ends know it; nobody else is asked."""
START_S: Final = 30.0
DRAIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How the calls are sent."""

    name: str
    calls_per_frame: int
    frames_in_flight: int
    has_callers: bool = False
    """Whether each frame is awaited by its own caller."""


SHAPES: Final = (
    Shape("one call at a time", 1, 1),
    Shape("256 calls in flight, 16 per frame", 16, 16),
    Shape("256 callers, a frame each", 1, 256, has_callers=True),
    Shape("256 frames in flight, only counted", 1, 256),
)


def run_net_bench(
    *, rounds: int = 9, seconds: float = 0.4, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """Measure every shape; *seconds* is the time of each side in each round."""
    with _server() as ports:
        results = uvloop.run(_measure(ports, rounds, seconds, progress))
    return {"results": [msgspec.to_builtins(result) for result in results]}


async def _measure(ports: tuple[int, int], rounds: int, seconds: float, progress: Progress) -> list[Result]:
    results = []
    for shape in SHAPES:
        client = _Callers if shape.has_callers else _Load
        bare, ours = await client.connect(ports[0], shape), await client.connect(ports[1], shape)
        await ours.shake_hands()
        rates: list[tuple[float, float]] = []
        for number in range(rounds):
            rates.append(await _round(ours, bare, seconds))
            progress(f"net: {shape.name}: round {number + 1} of {rounds}: {rates[-1][0] / rates[-1][1]:.2f}")
        results.append(
            compare(
                f"net: {shape.name}",
                [mine for mine, _ in rates],
                [other for _, other in rates],
                unit="calls/s",
                other_name="bare echo",
                target=TARGET,
            )
        )
        bare.close()
        ours.close()
    return results


async def _round(ours: "_Load", bare: "_Load", seconds: float) -> tuple[float, float]:
    """Return the two rates in calls per second."""
    calls, busy_s = [0, 0], [0.0, 0.0]
    for number in range(2 * SLICES):
        # Who goes first alternates as well: 0 1, 1 0, 0 1, ...
        side = (number ^ (number >> 1)) & 1
        done, took_s = await (ours, bare)[side].run(seconds / SLICES)
        calls[side] += done
        busy_s[side] += took_s
    return calls[0] / busy_s[0], calls[1] / busy_s[1]


class _Load(asyncio.Protocol):
    """A client that keeps a number of frames in flight and counts the calls in the answers."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._payload = CALL * shape.calls_per_frame
        self._decoder = FrameDecoder(PAYLOAD_BYTES_MAX)
        self._session: Session | None = None
        self._arrived = asyncio.Event()
        self._is_running = False
        self._in_flight = 0
        self._answers = 0
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, port: int, shape: Shape) -> "_Load":
        loop = asyncio.get_running_loop()
        _, load = await loop.create_connection(lambda: cls(shape), "127.0.0.1", port)
        return load

    async def shake_hands(self) -> None:
        session = Session(
            PeerIdentity("bench", Role.CLIENT, "load"),
            is_connector=True,
            payload_bytes_max=PAYLOAD_BYTES_MAX,
            idle_ms=600_000,
            expected=Expected(),
            credentials=SECRET,
            nonce=secrets.token_bytes(NONCE_BYTES),
        )
        self._session = session
        while session.agreed is None:
            self._arrived.clear()
            self._transport.write(session.take_output())
            await self._arrived.wait()
        self._session = None

    async def run(self, seconds: float) -> tuple[int, float]:
        """Return the number of calls answered, and the seconds that took."""
        before, started = self._answers, time.perf_counter()
        self._is_running = True
        self._start()
        await asyncio.sleep(seconds)
        calls = (self._answers - before) * self._shape.calls_per_frame
        took_s = time.perf_counter() - started
        self._is_running = False
        async with asyncio.timeout(DRAIN_S):
            await self._drain()
        return calls, took_s

    async def _drain(self) -> None:
        while self._in_flight:
            self._arrived.clear()
            await self._arrived.wait()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._session is not None:
            self._session.receive(data)
            self._arrived.set()
        else:
            self._on_answers(data)

    def _on_answers(self, data: bytes) -> None:
        self._decoder.feed(data)
        answers = len(self._decoder.take_run())
        self._decoder.take_one()  # the beginning of the next answer
        self._answers += answers
        self._in_flight -= answers
        if self._is_running:
            self._send(answers)
        else:
            self._arrived.set()

    def _start(self) -> None:
        self._send(self._shape.frames_in_flight)

    def _send(self, frames: int) -> None:
        self._in_flight += frames
        self._transport.write(
            b"".join([encode_frame(Kind.STATUS_REQUEST, self._payload) for _ in range(frames)])
        )


class _Callers(_Load):
    """A client whose frames are numbered, each awaited by its own task."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._pending: dict[int, asyncio.Future[bytes]] = {}
        self._last_number = 0
        self._gathered: list[bytes] = []

    def _on_answers(self, data: bytes) -> None:
        self._decoder.feed(data)
        for _, payload in self._decoder.take_run():
            number, body = split_number(payload)
            self._pending.pop(number).set_result(body)
        self._decoder.take_one()
        self._arrived.set()

    def _start(self) -> None:
        self._callers = [asyncio.create_task(self._caller()) for _ in range(self._shape.frames_in_flight)]

    async def _caller(self) -> None:
        while self._is_running:
            await self._call(self._payload)
            self._answers += 1

    def _call(self, body: bytes) -> asyncio.Future[bytes]:
        loop = asyncio.get_running_loop()
        self._last_number += 1
        future = self._pending[self._last_number] = loop.create_future()
        if not self._gathered:
            loop.call_soon(self._flush)
        self._gathered.append(encode_frame(Kind.STATUS_REQUEST, with_number(self._last_number, body)))
        return future

    def _flush(self) -> None:
        self._transport.write(b"".join(self._gathered))
        self._gathered.clear()

    async def _drain(self) -> None:
        await asyncio.gather(*self._callers)


# --- the server's process


class _BareEcho(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = cast(asyncio.Transport, transport).write

    def data_received(self, data: bytes) -> None:
        self._write(data)


class _Echo:
    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        connection.send(kind, payload)

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        return None


@contextmanager
def _server() -> Iterator[tuple[int, int]]:
    """Yield the ports of the bare echo and of the native protocol.

    A process that ends with the context serves both.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        if not here.poll(START_S):
            raise TimeoutError(f"the benchmark's server did not start within {START_S:g} s")
        yield here.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Pipe) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        bare = await loop.create_server(_BareEcho, "127.0.0.1", 0)
        ours = await serve(
            Address("127.0.0.1", 0),
            lambda _: _Echo(),
            ConnectionSettings(PeerIdentity("bench", Role.HOST, "echo"), credentials=SECRET),
            admits={Kind.STATUS_REQUEST: frozenset({Role.CLIENT})},
        )
        pipe.send((bare.sockets[0].getsockname()[1], ours.address.port))
        await loop.create_future()  # until terminated

    # The load's connections are cut, and no one needs to read about it.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    uvloop.run(main())
