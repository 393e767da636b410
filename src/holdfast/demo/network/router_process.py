"""The process behind :class:`.internet.Internet`: it carries packets between the machines' TUN interfaces.

Usage: ``python -m holdfast.demo.network.router_process CONTROL_FD SEED MACHINE...``
"""

import contextlib
import heapq
import os
import random
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator

from holdfast.demo.network.control import Commands
from holdfast.demo.network.links import MS, Conditions, Link
from holdfast.demo.network.tun import Machine

PACKET_BYTES_MAX = 65536
IN_FLIGHT_MAX = 20_000
"""The most packets in flight; more are dropped, as by any full router."""

_DESTINATION = slice(16, 20)
_IPV4 = 4


class Router:
    def __init__(self, control_fd: int, seed: int, names: list[str]) -> None:
        self._machines = {name: Machine(f"10.77.0.{n}") for n, name in enumerate(names, start=1)}
        self._by_address = {socket.inet_aton(m.address): name for name, m in self._machines.items()}
        self._links = {
            (source, goal): Link(random.Random(f"{seed} {source} {goal}"))
            for source in names
            for goal in names
            if source != goal
        }
        self._in_flight: list[tuple[int, int, str, bytes]] = []  # arrival, tie-breaker, machine, packet
        self._retired: set[str] = set()
        """Addresses that a machine has had: none is given to another, so that a late packet is lost."""
        self._sent = 0
        self._counters: Counter[str] = Counter()
        self._commands = Commands(
            control_fd,
            {
                "machines": self._describe,
                "set": self._set,
                "cut": self._cut,
                "flap": self._flap,
                "link": self._link,
                "renumber": self._renumber,
                "heal": self._heal,
                "counters": lambda: dict(self._counters),
            },
        )

    def run(self) -> None:
        """Carry packets until the test closes the socket."""
        sources: list[Commands | Machine] = [self._commands, *self._machines.values()]
        while True:
            ready, _, _ = select.select(sources, [], [], self._idle_s())
            self._deliver_due()
            for source in ready:
                if isinstance(source, Machine):
                    self._take_packets(source)
                elif not self._commands.handle_one():
                    return

    # -- packets ---------------------------------------------------------------------------------

    def _idle_s(self) -> float | None:
        if not self._in_flight:
            return None
        return max(0.0, (self._in_flight[0][0] - time.monotonic_ns()) / 1e9)

    def _take_packets(self, machine: Machine) -> None:
        source = self._by_address[socket.inet_aton(machine.address)]
        for _ in range(64):  # then it is the others' turn
            try:
                packet = os.read(machine.fileno(), PACKET_BYTES_MAX)
            except OSError:  # nothing more to read, or the interface is down
                return
            self._route(source, packet)

    def _route(self, source: str, packet: bytes) -> None:
        goal = self._by_address.get(packet[_DESTINATION]) if packet[0] >> 4 == _IPV4 else None
        if goal is None or goal == source:
            self._counters["foreign"] += 1
            return
        now = time.monotonic_ns()
        arrivals = self._links[source, goal].arrivals(now)
        self._counters[("lost", "passed", "doubled")[len(arrivals)]] += 1
        for arrival in arrivals:
            if arrival <= now:
                self._deliver(goal, packet)
            elif len(self._in_flight) >= IN_FLIGHT_MAX:
                self._counters["overflowed"] += 1
            else:
                self._sent += 1
                heapq.heappush(self._in_flight, (arrival, self._sent, goal, packet))

    def _deliver_due(self) -> None:
        now = time.monotonic_ns()
        while self._in_flight and self._in_flight[0][0] <= now:
            _, _, goal, packet = heapq.heappop(self._in_flight)
            self._deliver(goal, packet)

    def _deliver(self, goal: str, packet: bytes) -> None:
        with contextlib.suppress(OSError):  # the interface is down: the packet is lost, as in reality
            os.write(self._machines[goal].fileno(), packet)

    # -- commands --------------------------------------------------------------------------------

    def _describe(self) -> dict[str, tuple[str, int]]:
        return {name: (machine.address, machine.namespace_fd) for name, machine in self._machines.items()}

    def _renumber(self, *, machine: str) -> str:
        moved, numbers = self._machines[machine], {each.address for each in self._machines.values()}
        free = next(f"10.77.0.{n}" for n in range(100, 255) if f"10.77.0.{n}" not in self._retired | numbers)
        self._retired.add(moved.address)
        del self._by_address[socket.inet_aton(moved.address)]
        moved.renumber(free)
        self._by_address[socket.inet_aton(free)] = machine
        return free

    def _chosen(self, source: str | None, goal: str | None, one_way: bool) -> Iterator[Link]:
        """Return the links from *source* to *goal* and, unless *one_way*, those back; None is any machine."""
        for (start, end), link in self._links.items():
            forth = source in (None, start) and goal in (None, end)
            back = source in (None, end) and goal in (None, start)
            if forth or (back and not one_way):
                yield link

    def _set(
        self, *, source: str | None, goal: str | None, one_way: bool, conditions: dict[str, float]
    ) -> None:
        for link in self._chosen(source, goal, one_way):
            link.conditions = Conditions(**conditions)

    def _cut(self, *, source: str, goal: str | None, one_way: bool) -> None:
        for link in self._chosen(source, goal, one_way):
            link.is_cut = True

    def _flap(self, *, source: str, goal: str | None, up_ms: int, down_ms: int) -> None:
        for link in self._chosen(source, goal, one_way=False):
            link.up_ns, link.down_ns, link.flaps_since = up_ms * MS, down_ms * MS, time.monotonic_ns()

    def _link(self, *, machine: str, is_up: bool) -> None:
        self._machines[machine].set_up(is_up)

    def _heal(self) -> None:
        for link in self._links.values():
            link.is_cut = False
            link.up_ns = link.down_ns = 0
            link.conditions = Conditions()
        for machine in self._machines.values():
            machine.set_up(True)


if __name__ == "__main__":
    Router(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]).run()
