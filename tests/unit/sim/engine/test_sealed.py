"""Sealed mode catches simulated code that accesses the real world, and restores everything afterwards."""

import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.sim import expand, simulate
from holdfast.sim.engine.sealed import SealBroken, sealed
from holdfast.sim.runner.planted import replacing
from holdfast.sim.scenarios.register.scenario import Server

PROBES: dict[str, Callable[[], object]] = {
    "time": lambda: time.time(),
    "time_ns": lambda: time.time_ns(),
    "monotonic": lambda: time.monotonic(),
    "monotonic_ns": lambda: time.monotonic_ns(),
    "perf_counter": lambda: time.perf_counter(),
    "clock_gettime": lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    "sleep": lambda: time.sleep(0),
    "urandom": lambda: os.urandom(1),
    "random": lambda: random.random(),
    "shuffle": lambda: random.shuffle([1, 2]),
    "system random": lambda: random.SystemRandom().random(),
    "secrets": lambda: secrets.token_hex(4),
    "uuid4": lambda: uuid.uuid4(),
    "uuid1": lambda: uuid.uuid1(),
    "thread": lambda: threading.Thread(target=print).start(),
    "socket": lambda: socket.socket().close(),
    "name look-up": lambda: socket.getaddrinfo("localhost", 1),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "system": lambda: os.system("true"),
    "fork": lambda: os.fork(),
    "file": lambda: Path(__file__).read_text(),
    "descriptor": lambda: os.open(__file__, os.O_RDONLY),
}


@pytest.mark.parametrize("name", PROBES)
def test_each_way_out_is_caught(name: str) -> None:
    with pytest.raises(SealBroken), sealed():
        PROBES[name]()


@pytest.mark.parametrize("name", [name for name in PROBES if name not in ("fork", "system", "descriptor")])
def test_each_way_out_is_open_again_afterwards(name: str) -> None:
    with sealed():
        pass
    PROBES[name]()


def test_a_function_imported_by_name_is_caught_too() -> None:
    """Production code may use ``from time import monotonic_ns``; that name is guarded as well."""
    module = ModuleType("holdfast.smuggler")
    module.__dict__["now"] = time.monotonic_ns
    sys.modules[module.__name__] = module
    try:
        with pytest.raises(SealBroken), sealed():
            module.now()
        assert module.now is time.monotonic_ns
    finally:
        del sys.modules[module.__name__]


def test_simulated_randomness_and_late_imports_are_allowed() -> None:
    sys.modules.pop("colorsys", None)
    with sealed():
        random.Random("seed").random()
        import colorsys
    assert colorsys.rgb_to_hsv(0, 0, 0) == (0.0, 0.0, 0)


def test_a_core_that_reads_the_real_clock_is_a_violation() -> None:
    def on_message(server: Server, client: str, message: object) -> None:
        time.time()

    with replacing(Server, "on_message", on_message):
        options = expand("register", 1)
        assert [violation.rule for violation in simulate(options).violations] == ["sealed"]
        assert "sealed" not in [violation.rule for violation in simulate(options, seal=False).violations]


def test_other_threads_go_on() -> None:
    """The seal applies to the simulation's own thread only."""
    answers: list[int] = []
    asked, answered = threading.Event(), threading.Event()

    def work() -> None:
        asked.wait(10)
        answers.append(time.monotonic_ns())
        answered.set()

    thread = threading.Thread(target=work)
    thread.start()
    with sealed():
        asked.set()
        while not answered.is_set():
            pass
    thread.join()
    assert answers
