"""The peer Redis: a primary and two replicas, each batch of calls followed by WAIT for both.

WAIT says that the replicas have received the calls, not that they have synced them; with ``appendfsync
always`` the primary has synced before it answers. There is no failover without Sentinel, which is not set up
here.
"""

import asyncio
import itertools
import os
import shutil
import subprocess
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from holdfast.bench.measuring.callers import Load, drive
from holdfast.bench.systems import START_S, Absent, Durability
from holdfast.bench.systems.grpc import free_ports

CALLS_PER_WAIT: Final = 64
CONNECTIONS: Final = 16
"""With 64 calls before each WAIT, this many connections keep 1,000 calls in flight."""
REPLICAS: Final = 2
INCREMENT: Final = b"*2\r\n$4\r\nINCR\r\n$7\r\ncounter\r\n"
WAIT: Final = b"*3\r\n$4\r\nWAIT\r\n$1\r\n2\r\n$1\r\n0\r\n"
WAITED: Final = b":2"
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Redis:
    """Redis synced by ``appendfsync always``, or without any file."""

    durability: Durability = "disk"

    @property
    def name(self) -> str:
        return "Redis"

    @property
    def configuration(self) -> str:
        files = (
            "appendonly yes, appendfsync always" if self.durability == "disk" else "appendonly no, save none"
        )
        return (
            f"{_version()}, a primary and {REPLICAS} replicas, {files}; INCR pipelined over {CONNECTIONS} "
            f"connections (one for one caller), up to {CALLS_PER_WAIT} before each WAIT {REPLICAS}; replicas "
            "may sync later; no Sentinel, so no failover; the client is Python on uvloop"
        )

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator["RunningRedis"]:
        if shutil.which("redis-server") is None:
            raise Absent("no redis-server on this machine (Debian: apt-get install redis-server)")
        ports = free_ports(1 + REPLICAS)
        processes = []
        try:
            for port in ports:
                processes.append(self._start(directory / str(port), port, ports[0]))
            running = RunningRedis(processes, ports[0])
            await running.wait_until_whole()
            yield running
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def _start(self, directory: Path, port: int, primary: int) -> "subprocess.Popen[bytes]":
        directory.mkdir()
        is_synced = self.durability == "disk"
        command = [
            *(
                "redis-server",
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(directory),
                "--save",
                "",
            ),
            *("--appendonly", "yes" if is_synced else "no", "--appendfsync", "always" if is_synced else "no"),
            *("--repl-diskless-sync-delay", "0"),
        ]
        if port != primary:
            command += ["--replicaof", "127.0.0.1", str(primary)]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )


class RunningRedis:
    """A primary with both replicas connected."""

    def __init__(self, processes: "list[subprocess.Popen[bytes]]", port: int) -> None:
        self._port = port
        self._pids = {f"redis{number}": each.pid for number, each in enumerate(processes, 1)}
        self._pids["client"] = os.getpid()

    async def wait_until_whole(self) -> None:
        """Wait until both replicas have received a first call."""
        async with asyncio.timeout(START_S):
            while True:
                try:
                    connection = await RedisConnection.connect(self._port)
                except OSError:
                    await asyncio.sleep(POLL_S)
                    continue
                await connection.call()
                connection.close()
                return

    async def load(self, *, in_flight: int, seconds: float) -> Load:
        number = CONNECTIONS if in_flight > 1 else 1
        connections = [await RedisConnection.connect(self._port) for _ in range(number)]
        turns = itertools.cycle(connections)
        try:
            return await drive(
                lambda: next(turns).call(), in_flight=in_flight, seconds=seconds, pids=self._pids
            )
        finally:
            for connection in connections:
                connection.close()

    async def fail_over(self) -> None:
        return None


class RedisConnection(asyncio.Protocol):
    """A connection that gathers calls while a WAIT is in progress.

    Then it sends them together, followed by one WAIT.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._batch: list[asyncio.Future[None]] = []
        self._lines = 0
        self._rest = b""
        self._is_flush_asked = False

    @classmethod
    async def connect(cls, port: int) -> "RedisConnection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    def call(self) -> asyncio.Future[None]:
        """Make a call; done when the primary and the two replicas have it."""
        called: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(called)
        if not self._batch and not self._is_flush_asked:
            self._is_flush_asked = True
            self._loop.call_soon(self._flush)
        return called

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\r\n")
        self._rest = lines.pop()
        self._lines += len(lines)
        if self._batch and self._lines > len(self._batch):
            batch, self._batch, self._lines = self._batch, [], 0
            for called in batch:
                if called.done():
                    continue
                if lines[-1] == WAITED:
                    called.set_result(None)
                else:
                    called.set_exception(ConnectionError(f"Redis answered {lines[-1]!r}"))
            self._flush()

    def _flush(self) -> None:
        self._is_flush_asked = False
        if self._batch or not self._waiting:
            return
        count = min(len(self._waiting), CALLS_PER_WAIT)
        self._batch = [self._waiting.popleft() for _ in range(count)]
        self._transport.write(INCREMENT * count + WAIT)


def _version() -> str:
    found = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=False)
    words = found.stdout.split()
    return f"Redis {words[2].removeprefix('v=')}" if len(words) > 2 else "Redis"
