"""The peer etcd: three members, called at the leader over gRPC."""

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.bench.measuring.callers import Load, drive, first_after
from holdfast.bench.systems import CALLERS_AT_FAIL_OVER, FAIL_OVER_S, START_S, Absent, Durability
from holdfast.bench.systems.grpc import CallFailed, GrpcConnection, free_ports

PUT: Final = "/etcdserverpb.KV/Put"
CONNECTIONS: Final = 4
"""With one connection, its stream would be the limit before etcd is; other numbers were not compared."""
KEYS: Final = 1_000
POLL_S: Final = 0.02
RETRY_S: Final = 0.001
MEMORY: Final = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class Etcd:
    """An etcd on disk, or with its files in memory: it has no mode without syncs."""

    durability: Durability = "disk"

    @property
    def name(self) -> str:
        return "etcd"

    @property
    def configuration(self) -> str:
        where = "on disk" if self.durability == "disk" else f"in {MEMORY} (tmpfs), so that syncs cost nothing"
        return (
            f"{_version()}, 3 members, defaults throughout (heartbeat 100 ms, election 1 s), files {where}; "
            f"Put of a small value over gRPC, {CONNECTIONS} connections to the leader; the client is Python "
            "on uvloop, its CPU time is in the result"
        )

    @asynccontextmanager
    async def running(self, directory: Path) -> AsyncIterator["RunningEtcd"]:
        if shutil.which("etcd") is None:
            raise Absent("no etcd on this machine (Debian: apt-get install etcd-server)")
        if self.durability == "disk":
            async with _members(directory) as running:
                yield running
            return
        if not MEMORY.is_dir():
            raise Absent(f"no {MEMORY} on this machine")
        with tempfile.TemporaryDirectory(prefix="holdfast-etcd-", dir=MEMORY) as memory:
            async with _members(Path(memory)) as running:
                yield running


class RunningEtcd:
    """Three processes with a leader."""

    def __init__(self, processes: "list[subprocess.Popen[bytes]]", ports: list[int]) -> None:
        self._processes = processes
        self._ports = ports
        self._pids = {f"etcd{number}": each.pid for number, each in enumerate(processes, 1)}
        self._pids["client"] = os.getpid()
        self._messages = itertools.cycle(
            [_put(f"key{number}".encode(), b"12345678") for number in range(KEYS)]
        )

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The URLs of its members for clients."""
        return tuple(f"http://127.0.0.1:{port}" for port in self._ports)

    async def load(self, *, in_flight: int, seconds: float) -> Load:
        port = self._ports[await self._leader()]
        connections = [await GrpcConnection.connect("127.0.0.1", port, PUT) for _ in range(CONNECTIONS)]
        turns = itertools.cycle(connections)
        try:
            return await drive(
                lambda: next(turns).call(next(self._messages)),
                in_flight=in_flight,
                seconds=seconds,
                pids=self._pids,
            )
        finally:
            for connection in connections:
                connection.close()

    async def fail_over(self) -> float:
        leader = await self._leader()
        survivors = [port for number, port in enumerate(self._ports) if number != leader]
        connections = [await GrpcConnection.connect("127.0.0.1", port, PUT) for port in survivors]
        turns = itertools.cycle(connections)

        async def insist() -> None:
            # A member without a leader refuses the call, or keeps it until it gives up. So no call waits
            # longer than an election is expected to take, and others follow it.
            while True:
                try:
                    async with asyncio.timeout(1.0):
                        return await next(turns).call(next(self._messages))
                except (CallFailed, TimeoutError):
                    await asyncio.sleep(RETRY_S)

        try:
            return await first_after(
                lambda: self._processes[leader].send_signal(signal.SIGKILL),
                insist,
                callers=CALLERS_AT_FAIL_OVER,
                within_s=FAIL_OVER_S,
            )
        finally:
            for connection in connections:
                connection.close()

    async def wait_until_whole(self) -> None:
        async with asyncio.timeout(START_S):
            while True:
                found = [await asyncio.to_thread(_status, port) for port in self._ports]
                if all(each is not None and each.get("leader", "0") != "0" for each in found):
                    return
                await asyncio.sleep(POLL_S)

    async def _leader(self) -> int:
        for number, port in enumerate(self._ports):
            found = await asyncio.to_thread(_status, port)
            if found is not None and found["leader"] == found["header"]["member_id"]:
                return number
        raise Absent("etcd has no leader")


@asynccontextmanager
async def _members(directory: Path) -> AsyncIterator[RunningEtcd]:
    ports = free_ports(6)
    clients, peers = ports[:3], ports[3:]
    cluster = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
    processes = []
    try:
        for number, (client, peer) in enumerate(zip(clients, peers, strict=True)):
            command = [
                *("etcd", "--name", f"m{number}", "--data-dir", str(directory / f"m{number}")),
                *("--listen-client-urls", f"http://127.0.0.1:{client}"),
                *("--advertise-client-urls", f"http://127.0.0.1:{client}"),
                *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
                *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
                *("--initial-cluster", cluster, "--logger", "zap", "--log-level", "error"),
            ]
            processes.append(
                subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
                )
            )
        running = RunningEtcd(processes, clients)
        await running.wait_until_whole()
        yield running
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _status(port: int) -> dict[str, Any] | None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", data=b"{}")
    try:
        with urllib.request.urlopen(request, timeout=1.0) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except OSError:
        return None


def _put(key: bytes, value: bytes) -> bytes:
    """Encode a PutRequest: field 1 is the key, field 2 the value."""
    return b"\x0a" + bytes([len(key)]) + key + b"\x12" + bytes([len(value)]) + value


def _version() -> str:
    found = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=False)
    return found.stdout.partition("\n")[0].replace(" Version:", "")
