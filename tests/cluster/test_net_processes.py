"""Peers in separate processes: killed, stopped, starved."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop
from net_peer import IDLE_S, SECRET

from holdfast.net import (
    Address,
    Connection,
    ConnectionSettings,
    Kind,
    Limits,
    NotConnected,
    PeerIdentity,
    Reason,
    Role,
    Why,
    connect,
)

pytestmark = pytest.mark.cluster

MIB = 1024 * 1024
CLIENT = ConnectionSettings(
    PeerIdentity("test", Role.CLIENT, "client"), limits=Limits(idle_s=IDLE_S), credentials=SECRET
)


@dataclass
class Peer:
    process: "subprocess.Popen[str]"
    address: Address

    def said(self) -> list[str]:
        """Return what it printed, once it is gone."""
        self.process.kill()
        assert self.process.stdout is not None
        return self.process.stdout.read().splitlines()

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def peer(mode: str) -> Iterator[Peer]:
    program = Path(__file__).with_name("net_peer.py")
    with subprocess.Popen(
        [sys.executable, str(program), mode], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield Peer(process, Address("127.0.0.1", int(process.stdout.readline())))
        finally:
            process.kill()


class Counting:
    """Counts frames and records the end."""

    def __init__(self) -> None:
        self.frames = 0
        self.ended: asyncio.Future[Reason] = asyncio.get_running_loop().create_future()
        self.arrived = asyncio.Event()

    def on_frame(self, connection: Connection, kind: Kind, payload: bytes) -> None:
        self.frames += 1
        self.arrived.set()

    def on_closed(self, connection: Connection, reason: Reason) -> None:
        self.ended.set_result(reason)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        # pytest's own timeout cannot interrupt uvloop.
        async with asyncio.timeout(60):
            await story()

    uvloop.run(main())


def test_a_killed_peer_is_lost_at_once() -> None:
    """kill -9 in the middle of a conversation gives LOST within moments, far sooner than the idle time."""

    async def story() -> None:
        with peer("echo") as victim:
            counting = Counting()
            connection = await connect(victim.address, lambda _: counting, CLIENT)
            for _ in range(100):
                connection.send(Kind.HEARTBEAT, b"x" * 1000)
            await counting.arrived.wait()
            victim.process.kill()
            async with asyncio.timeout(60):
                reason = await counting.ended
            assert reason.why in {Why.LOST, Why.TRUNCATED}
            assert not reason.by_peer
            with pytest.raises(NotConnected):
                await connection.drain()

    run(story)


def test_a_stopped_peer_is_given_up() -> None:
    """SIGSTOP closes nothing; the silence ends the connection after the idle time."""

    async def story() -> None:
        with peer("echo") as victim:
            counting = Counting()
            await connect(victim.address, lambda _: counting, CLIENT)
            victim.process.send_signal(signal.SIGSTOP)
            async with asyncio.timeout(60):
                assert (await counting.ended).why is Why.IDLE
            victim.process.send_signal(signal.SIGCONT)

    run(story)


def test_a_process_that_stood_still_blames_nobody() -> None:
    """A peer stopped for longer than its idle time finds our messages unread when it resumes: it must not
    take its own absence for our silence. (Our own limit is long here; the peer's is not.)"""

    async def story() -> None:
        patient = ConnectionSettings(CLIENT.identity, limits=Limits(idle_s=60), credentials=SECRET)
        with peer("echo") as victim:
            counting = Counting()
            connection = await connect(victim.address, lambda _: counting, patient)
            victim.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(2 * IDLE_S)
            victim.process.send_signal(signal.SIGCONT)
            await asyncio.sleep(IDLE_S / 2)
            assert connection.is_open
            connection.send(Kind.HEARTBEAT, b"still there?")
            await counting.arrived.wait()
            connection.close()
            await connection.wait_gone()
            assert victim.said() == ["closed done"]

    run(story)


def test_a_consumer_that_takes_nothing_bounds_both_processes() -> None:
    """400 MB are offered to a peer whose consumer is stuck: the sender is held back, and neither process
    grows."""

    async def story() -> None:
        patient = ConnectionSettings(CLIENT.identity, limits=Limits(idle_s=60), credentials=SECRET)
        with peer("deaf") as deaf:
            connection = await connect(deaf.address, lambda _: Counting(), patient)
            before, offered = deaf.resident_bytes(), 0
            with pytest.raises(TimeoutError):
                while offered < 400 * MIB:
                    connection.send(Kind.HEARTBEAT, b"y" * 100_000)
                    offered += 100_000
                    async with asyncio.timeout(0.5):
                        await connection.drain()
            assert connection.unsent_bytes < 2 * MIB
            assert deaf.resident_bytes() - before < 16 * MIB

    run(story)


def test_a_client_that_reads_nothing_bounds_the_server() -> None:
    """A client sends 400 MB of questions to a server that answers each, and never reads: the server stops
    reading, and does not grow."""

    async def story() -> None:
        patient = ConnectionSettings(CLIENT.identity, limits=Limits(idle_s=60), credentials=SECRET)
        with peer("echo") as server:
            connection = await connect(server.address, lambda _: Counting(), patient)
            connection.pause_reading()
            before, offered = server.resident_bytes(), 0
            with pytest.raises(TimeoutError):
                while offered < 400 * MIB:
                    connection.send(Kind.HEARTBEAT, b"z" * 100_000)
                    offered += 100_000
                    async with asyncio.timeout(0.5):
                        await connection.drain()
            assert server.resident_bytes() - before < 16 * MIB

    run(story)
