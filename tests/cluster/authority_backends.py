"""The authorities that the contract suite runs on, all with the same interface."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Hashable
from pathlib import Path
from typing import Protocol

from etcd_cluster import EtcdCluster, Member
from slow_proxy import SlowProxy

from holdfast.authority.client import AuthorityClient, ClientConfig
from holdfast.authority.contract import Applied, Compacted, Put, Request, Result, Txn, WatchEvent
from holdfast.authority.etcd.backend import EtcdAuthority
from holdfast.authority.etcd.gateway import Deadlines
from holdfast.authority.recipe import Authority
from holdfast.authority.remote import RemoteAuthority
from holdfast.authority.server import AuthorityServer
from holdfast.authority.sqlite import HistoryLimits, SqliteStore
from holdfast.model.ids import Revision
from holdfast.net import Address, ConnectionSettings, PeerIdentity, Role
from holdfast.net.secret_file import read_secret
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND, Options
from holdfast.sim.engine.vfs import SimVfs
from holdfast.sim.engine.world import World

DEADLINE_S = 10.0
"""The deadline of every call. A busy machine is slow, and a test that waits for a deadline to pass sets a
shorter one."""
SHORT_DEADLINE_S = 0.7


class Backend(Protocol):
    """One authority, and what may be done to it."""

    survives_strike: bool
    """Whether other members take over from a process that was killed."""

    def connect(self, prefix: str) -> Authority:
        """Return a separate client; *prefix* keeps tests apart where the backend can."""
        ...

    async def pass_time(self, seconds: float) -> None: ...

    async def strike(self) -> None:
        """Kill the process that serves now, without warning."""
        ...

    async def recover(self) -> None:
        """Restart the process that was killed."""
        ...

    async def forget(self, before: Revision) -> None:
        """Make the history before that revision unavailable."""
        ...


# --- the embedded authority as a process


class SqliteBackend:
    """``holdfast authority serve``, always on the same port."""

    survives_strike = False

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir()
        self.address = Address("127.0.0.1", 0)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = ["authority", "serve", "--dir", str(self._directory), "--listen", str(self.address)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *command], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"listening on (\S+)", line)
        assert found is not None, f"the authority did not start: {line!r}"
        self.address = Address.parse(found[1])

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def connect(self, prefix: str) -> Authority:
        return self._connect(self.address, DEADLINE_S, is_forwarded=False)

    def proxy(self) -> SlowProxy:
        return SlowProxy(self.address.host, self.address.port)

    def connect_through(self, port: int, prefix: str) -> Authority:
        return self._connect(Address("127.0.0.1", port), SHORT_DEADLINE_S, is_forwarded=True)

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def strike(self) -> None:
        self.stop()

    async def recover(self) -> None:
        self.start()

    async def forget(self, before: Revision) -> None:
        """A restored file begins a new history."""
        self.stop()
        command = ["authority", "restore", "--dir", str(self._directory), "--above-epoch", "0", "--yes"]
        subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, capture_output=True)
        self.start()

    def _connect(self, address: Address, deadline_s: float, *, is_forwarded: bool) -> Authority:
        endpoint = ConnectionSettings(
            PeerIdentity("holdfast", Role.HOST, "tester"),
            credentials=read_secret(self._directory),
            is_forwarded=is_forwarded,
        )
        return RemoteAuthority(address, endpoint, config=ClientConfig(deadline_ns=int(deadline_s * SECOND)))


# --- etcd


class EtcdBackend:
    """Three etcd processes; the one that serves is their leader."""

    survives_strike = True

    def __init__(self, cluster: EtcdCluster) -> None:
        self.cluster = cluster

    def connect(self, prefix: str) -> Authority:
        return self.connect_to(self.cluster.endpoints, prefix)

    def connect_to(self, endpoints: list[str], prefix: str, **deadlines: float) -> EtcdAuthority:
        chosen = {"call_s": DEADLINE_S, "attempt_s": 1.0, "connect_s": 1.0, **deadlines}
        return EtcdAuthority(endpoints, prefix=prefix, deadlines=Deadlines(**chosen))

    def proxy(self) -> SlowProxy:
        host, port = self.cluster.endpoints[0].removeprefix("http://").split(":")
        return SlowProxy(host, int(port))

    def connect_through(self, port: int, prefix: str) -> Authority:
        return self.connect_to([f"http://127.0.0.1:{port}"], prefix, call_s=SHORT_DEADLINE_S)

    def leader_first(self) -> list[str]:
        leader: Member = self.cluster.leader()
        others = [endpoint for endpoint in self.cluster.endpoints if endpoint != leader.client]
        return [leader.client, *others]

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def strike(self) -> None:
        self.cluster.kill(self.cluster.leader())

    async def recover(self) -> None:
        self.cluster.heal()

    async def forget(self, before: Revision) -> None:
        self.cluster.compact(before)


# --- the embedded authority in the simulator


class SimBackend:
    """SQLite on a simulated disk, with its server and its clients on a simulated network."""

    survives_strike = False

    def __init__(self) -> None:
        self.world = World(Options(scenario="authority-contract", seed=1))
        self._vfs: list[SimVfs] = []
        self._clients = 0
        self._server = self.world.add_node("authority", self._build_server)

    def connect(self, prefix: str) -> Authority:
        self._clients += 1
        return SimAuthority(self.world, f"client-{self._clients}")

    async def pass_time(self, seconds: float) -> None:
        self.world.run_until(self.world.now + int(seconds * SECOND))

    async def strike(self) -> None:
        self._server.power_cut()

    async def recover(self) -> None:
        self._server.start()

    async def forget(self, before: Revision) -> None:
        """Write past the end of its history, which is short."""
        authority = self.connect("")
        while not isinstance(result := await authority.ask(Txn((), (Put("filler", b""),))), Applied) or (
            result.revision <= before + SIM_REVISIONS_MAX
        ):
            pass

    def _build_server(self, ports: NodePorts) -> AuthorityServer:
        disk = ports.disk("authority")
        self._vfs.append(SimVfs(disk, rng=ports.random.stream("sqlite"), wall=ports.clock.wall))
        store = SqliteStore(
            "authority.sqlite",
            now_ns=ports.clock.now(),
            new_id="sim",
            vfs=self._vfs[-1].name,
            limits=HistoryLimits(revisions_max=SIM_REVISIONS_MAX),
        )
        server = AuthorityServer(
            store=store,
            clock=ports.clock,
            timers=ports.timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
        )
        server.start()
        return server


SIM_REVISIONS_MAX = 3000
STEP_NS = MILLISECOND
WAIT_STEPS_MAX = 60_000
"""A watch without an event for a minute of simulated time has stopped."""


class SimAuthority:
    """Lets asynchronous code use a simulated client: waiting advances the world."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._answers: dict[Hashable, Result] = {}
        self._events: dict[Hashable, list[WatchEvent]] = {}
        self._tokens = 0
        self._client: AuthorityClient
        world.add_node(name, self._build)

    async def ask(self, request: Request) -> Result:
        self._tokens += 1
        token = self._tokens
        self._client.request(request, token)
        while token not in self._answers:
            await self._step()
        return self._answers.pop(token)

    async def watch(self, prefix: str, revision: Revision) -> AsyncIterator[WatchEvent]:
        self._tokens += 1
        token = self._tokens
        events = self._events[token] = []
        self._client.watch(prefix, revision, token)
        try:
            while True:
                for _ in range(WAIT_STEPS_MAX):
                    if events:
                        break
                    await self._step()
                event = events.pop(0)
                yield event
                if isinstance(event, Compacted):
                    return
        finally:
            self._client.unwatch(token)

    async def close(self) -> None:
        return None

    async def _step(self) -> None:
        self._world.run_until(self._world.now + STEP_NS)
        assert not self._world.violations, self._world.violations
        await asyncio.sleep(0)

    def _build(self, ports: NodePorts) -> AuthorityClient:
        self._client = AuthorityClient(
            server="authority",
            clock=ports.clock,
            timers=ports.timers,
            network=ports.network,
            random=ports.random,
            trace=ports.trace,
            on_authority=self._answers.__setitem__,
            on_watch=lambda token, event: self._events[token].append(event),
            config=ClientConfig(deadline_ns=int(DEADLINE_S * SECOND)),
        )
        self._client.start()
        return self._client
