"""The faulty network does what it says to the packets of real programs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from faults.machine import require_tun
from faults.signals import Victim

from holdfast.demo.network.internet import Internet

pytestmark = pytest.mark.cluster

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
STARTING_S = 60.0


def probe(net: Internet, machine: str, *arguments: str) -> Victim:
    command = net.command(machine, [sys.executable, "-S", "-m", "faults.probe", *arguments])
    return Victim(command, env=ENVIRONMENT)


@contextmanager
def receiver(net: Internet, machine: str) -> Iterator[Victim]:
    with probe(net, machine, "receive", net.address(machine)) as victim:
        assert victim.wait_for_lines(1, timeout_s=STARTING_S), victim.errors
        yield victim


def send(net: Internet, source: str, goal: str, count: int) -> None:
    with probe(net, source, "send", net.address(goal), str(count)) as victim:
        assert victim.wait(timeout_s=STARTING_S) == 0, victim.errors


def received(victim: Victim, *, expect: int | None = None) -> list[int]:
    """Return the numbers that arrived; waits for *expect* of them, or for a moment in which more might
    come."""
    if expect is None:
        victim.wait_until_silent()
    else:
        assert victim.wait_for_lines(expect + 1, timeout_s=STARTING_S), victim.lines
    return [int(line) for line in victim.lines[1:]]


def round_trips_ms(net: Internet, source: str, goal: str, count: int) -> list[float]:
    with probe(net, goal, "echo", net.address(goal)) as echo:
        assert echo.wait_for_lines(1, timeout_s=STARTING_S), echo.errors
        with probe(net, source, "rtt", net.address(goal), str(count)) as rtt:
            assert rtt.wait_for_lines(count + 1, timeout_s=2 * STARTING_S), rtt.errors
            return [float(line) for line in rtt.lines[1:]]


def test_machines_reach_each_other_and_nobody_else_sees_them(internet: Internet) -> None:
    """Every packet passes on a clean network, in order; the machine under the test gets no interface."""
    before = Path("/proc/net/dev").read_text().count(":")
    with receiver(internet, "b") as inlet:
        send(internet, "a", "b", 50)
        send(internet, "c", "b", 50)
        assert received(inlet, expect=100) == [*range(50), *range(50)]
    assert Path("/proc/net/dev").read_text().count(":") == before


def test_delay_is_what_was_told(internet: Internet) -> None:
    """A quarter of a second each way makes half a second there and back, plus what a busy machine adds."""
    internet.set(delay_ms=250, jitter_ms=50)
    assert min(round_trips_ms(internet, "a", "b", 3)) >= 500
    internet.heal()
    assert min(round_trips_ms(internet, "a", "b", 20)) < 500


def test_loss_and_duplication(internet: Internet) -> None:
    """Of 300 packets about a third is lost, and some of the others arrive twice; the counters agree."""
    internet.set("a", "b", loss=0.3, duplicate=0.2)
    with receiver(internet, "b") as inlet:
        send(internet, "a", "b", 300)
        numbers = received(inlet)
    assert 150 <= len(set(numbers)) <= 260
    assert 10 <= len(numbers) - len(set(numbers)) <= 90
    counters = internet.counters()
    assert counters["lost"] == 300 - len(set(numbers))
    assert counters["doubled"] == len(numbers) - len(set(numbers))


def test_reordering(internet: Internet) -> None:
    """Everything arrives, but in another order than it was sent."""
    internet.set(reorder=0.2, reorder_ms=10)
    with receiver(internet, "b") as inlet:
        send(internet, "a", "b", 200)
        numbers = received(inlet, expect=200)
    assert sorted(numbers) == list(range(200))
    assert numbers != sorted(numbers)


def test_a_one_way_cut_lets_the_other_direction_through(internet: Internet) -> None:
    """Nothing passes from a to b, everything from b to a and from a to c; healed, everything from a to b."""
    internet.cut("a", "b", one_way=True)
    with receiver(internet, "a") as at_a, receiver(internet, "b") as at_b, receiver(internet, "c") as at_c:
        send(internet, "a", "b", 20)
        send(internet, "b", "a", 20)
        send(internet, "a", "c", 20)
        assert received(at_a, expect=20) == list(range(20))
        assert received(at_c, expect=20) == list(range(20))
        assert received(at_b) == []
        internet.heal()
        send(internet, "a", "b", 20)
        assert received(at_b, expect=20) == list(range(20))


def test_a_machine_cut_from_all(internet: Internet) -> None:
    """Nothing passes to it or from it, while the others continue."""
    internet.cut("a")
    with receiver(internet, "a") as at_a, receiver(internet, "b") as at_b:
        send(internet, "a", "b", 20)
        send(internet, "b", "a", 20)
        send(internet, "c", "b", 20)
        assert received(at_b, expect=20) == list(range(20))
        assert received(at_a) == []


def test_a_flapping_link(internet: Internet) -> None:
    """Some packets pass, some do not, in runs."""
    internet.flap("a", "b", up_ms=300, down_ms=300)
    with receiver(internet, "b") as inlet:
        send(internet, "a", "b", 3000)
        numbers = received(inlet)
    assert 100 <= len(numbers) <= 2900
    gaps = sum(after != before + 1 for before, after in pairwise(numbers))
    assert gaps < len(numbers) / 4


def test_an_unplugged_machine_is_told(internet: Internet) -> None:
    """With its interface down a program gets an error at once; plugged in again, it sends."""
    internet.unplug("a")
    with probe(internet, "a", "send", internet.address("b"), "1") as victim:
        assert victim.wait(timeout_s=STARTING_S) != 0
    assert "Network is unreachable" in victim.errors
    internet.plug_in("a")
    with receiver(internet, "b") as inlet:
        send(internet, "a", "b", 5)
        assert received(inlet, expect=5) == list(range(5))


STREAM = """
import socket, sys
if sys.argv[1] == "serve":
    with socket.create_server((sys.argv[2], 7778)) as server:
        print("ready", flush=True)
        peer, _ = server.accept()
        count = 0
        while data := peer.recv(1 << 16):
            count += len(data)
        print(count, flush=True)
else:
    with socket.create_connection((sys.argv[2], 7778)) as stream:
        stream.sendall(bytes(300_000))
"""


def test_tcp_works_through_bad_weather(internet: Internet) -> None:
    """A byte stream arrives complete through loss, duplicates and reordering."""
    internet.set(delay_ms=1, loss=0.03, duplicate=0.05, reorder=0.02, reorder_ms=3)
    program = [sys.executable, "-S", "-c", STREAM]
    with Victim(internet.command("a", [*program, "serve", internet.address("a")])) as server:
        assert server.wait_for_lines(1, timeout_s=STARTING_S)
        internet.run("b", [*program, "send", internet.address("a")])
        assert server.wait_for_lines(2, timeout_s=120)
        assert server.lines[1] == "300000"
    assert internet.counters()["lost"] > 0


def test_programs_end_with_their_network() -> None:
    """Programs started on it are killed when it ends, also when the test fails."""
    require_tun()
    with pytest.raises(ZeroDivisionError), Internet(["a"], seed=1) as net:
        sleeper = net.run("a", ["sleep", "60"])
        raise ZeroDivisionError
    assert sleeper.poll() is not None
