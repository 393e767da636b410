"""The simulator's own test: servers that each keep a list of numbers on disk, and a client for each.

A server acknowledges a number once it is synced. Rules: an acknowledged number is never lost, a number is
kept at most once, and after healing every client makes progress.
"""

from functools import partial
from struct import Struct as Layout
from typing import ClassVar, Final
from zlib import crc32

from msgspec import Struct

from holdfast.model.errors import DiskFailed
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import CLOCK_KINDS, NETWORK_KINDS, POWER_KINDS, PROCESS_KINDS
from holdfast.sim.runner.scenario import Scenario

RECORD: Final = Layout(">QI")
RETRY_NS: Final = 50 * MILLISECOND
THINK_NS: Final = 10 * MILLISECOND
FILE: Final = "numbers"
ASIDE: Final = "numbers.new"


class Add(Struct, frozen=True):
    number: int


class Added(Struct, frozen=True):
    number: int


class Server:
    """Keeps numbers in a file of checksummed records.

    It rewrites the file at each start, so that all of it is synced.
    """

    def __init__(self, ports: NodePorts) -> None:
        self._ports = ports
        self._disk = ports.disk("register", self.on_synced)
        self._waiting: dict[int, tuple[str, int]] = {}
        self._last_token = 0
        self.is_ready = False
        self.numbers = self._recover()
        self._rewrite()

    def on_message(self, client: str, message: Add) -> None:
        if not self.is_ready:
            return
        if message.number not in self.numbers:
            self._disk.append(FILE, record(message.number))
            self.numbers.append(message.number)
        # A repetition needs this too: the first copy may not be synced yet.
        self._last_token = token = self._last_token + 1
        self._waiting[token] = (client, message.number)
        self._disk.sync(FILE, token)

    def on_synced(self, token: object, ok: bool) -> None:
        if not ok:
            raise DiskFailed("sync failed")
        if token == ASIDE:
            self._disk.rename(ASIDE, FILE)
            self._disk.sync_dir(FILE)
        elif token == FILE:
            self.is_ready = True
            self._ports.trace.note("ready", numbers=len(self.numbers))
        elif isinstance(token, int):
            client, number = self._waiting.pop(token)
            self._ports.network.send(client, Added(number))

    def _recover(self) -> list[int]:
        if not self._disk.exists(FILE):
            return []
        return parse(self._disk.read(FILE, 0, self._disk.size(FILE)))

    def _rewrite(self) -> None:
        if self._disk.exists(ASIDE):
            self._disk.remove(ASIDE)
        self._disk.append(ASIDE, b"".join(record(number) for number in self.numbers))
        self._disk.sync(ASIDE, ASIDE)


class Client:
    """Adds one number after the other, repeating each until it is acknowledged."""

    def __init__(self, ports: NodePorts, server: str, world: World) -> None:
        self._ports = ports
        self._server = server
        self._world = world
        self._timers = ports.timers(self.on_timer)
        self._number = 1
        self.acknowledged: list[int] = []
        self._send()

    def on_message(self, server: str, message: Added) -> None:
        if message.number == self._number:
            self.acknowledged.append(message.number)
            self._world.operation()
            self._number += 1
            self._timers.set(THINK_NS, self._number)

    def on_timer(self, number: int) -> None:
        if number == self._number:
            self._send()

    def _send(self) -> None:
        self._ports.network.send(self._server, Add(self._number))
        self._timers.set(RETRY_NS, self._number)


class Register(Scenario):
    name = "register"
    nodes = ("a", "b")
    clients = ("client-a", "client-b")
    kinds = (
        *PROCESS_KINDS,
        *POWER_KINDS,
        *NETWORK_KINDS,
        *CLOCK_KINDS,
        "sync_fail",
        "sync_hang",
        "write_fail",
        "disk_full",
        "disk_slow",
    )
    fault_ns: ClassVar[int] = 5 * SECOND
    heal_ns: ClassVar[int] = 2 * SECOND

    def __init__(self) -> None:
        self._done_at_heal: dict[str, int] = {}

    def build(self, world: World) -> None:
        for server, client in zip(self.nodes, self.clients, strict=True):
            world.add_node(server, Server)
            world.add_node(client, partial(Client, server=server, world=world))

    def healed(self, world: World) -> None:
        for client in self.clients:
            self._done_at_heal[client] = len(world.nodes[client].core.acknowledged)

    def finish(self, world: World) -> None:
        for server, client in zip(self.nodes, self.clients, strict=True):
            acknowledged: list[int] = world.nodes[client].core.acknowledged
            core = world.nodes[server].core
            if core is None or len(acknowledged) <= self._done_at_heal[client]:
                world.violation("progress", f"{client} got nowhere after healing")
                return
            lost = [number for number in acknowledged if number not in core.numbers]
            if lost:
                world.violation("durable", f"{server} lost {lost[:5]}")
            if len(dict.fromkeys(core.numbers)) != len(core.numbers):
                world.violation("once", f"{server} holds a number twice")


def record(number: int) -> bytes:
    return RECORD.pack(number, crc32(number.to_bytes(8)))


def parse(data: bytes) -> list[int]:
    """Return the numbers up to the first incomplete record."""
    numbers = []
    for offset in range(0, len(data) - RECORD.size + 1, RECORD.size):
        number, checksum = RECORD.unpack_from(data, offset)
        if checksum != crc32(number.to_bytes(8)):
            break
        numbers.append(number)
    return numbers


SCENARIO = Register
