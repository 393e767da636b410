"""A small network of machines whose links fail on command, for any program.

::

    with Internet(["a", "b", "c"], seed=7) as net:
        server = net.run("a", ["program", "--listen", net.address("a")])
        net.set(delay_ms=10, jitter_ms=5, loss=0.05)
        net.cut("a", "b", one_way=True)    # a's packets to b vanish, b's to a arrive
        net.heal()

Machines are network namespaces; their addresses exist nowhere else.
"""

import dataclasses
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from holdfast.demo.network.control import FaultProcess
from holdfast.demo.network.links import Conditions
from holdfast.demo.network.tun import enter_namespace

T = TypeVar("T")


class Internet:
    """Machines that are all joined to each other. *seed* decides which of a link's packets suffer."""

    def __init__(self, machines: Sequence[str], *, seed: int) -> None:
        self._names = list(machines)
        self._seed = seed
        self._started: list[subprocess.Popen[Any]] = []

    def __enter__(self) -> "Internet":
        self._router = FaultProcess("holdfast.demo.network.router_process", str(self._seed), *self._names)
        try:
            self._machines: dict[str, tuple[str, int]] = self._router.call("machines")
        except BaseException:
            self._router.close()
            raise
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        self._router.close()

    def address(self, machine: str) -> str:
        return self._machines[machine][0]

    def command(self, machine: str, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs *argv* on *machine*; its pid is the program's own."""
        return ["nsenter", f"--net={self.namespace(machine)}", "--", *argv]

    def namespace(self, machine: str) -> str:
        """Return the path of the machine's network namespace."""
        return f"/proc/{self._router.pid}/fd/{self._machines[machine][1]}"

    def run(self, machine: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a program on *machine*, as ``subprocess.Popen`` does; it is killed when the network ends."""
        process = subprocess.Popen(self.command(machine, argv), **options)
        self._started.append(process)
        return process

    def inside(self, machine: str, work: Callable[[], T]) -> T:
        """Run *work* on *machine*, in a thread of this process whose sockets are all there."""
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(enter_namespace, self.namespace(machine)).result()
            return thread.submit(work).result()

    def set(
        self,
        source: str | None = None,
        goal: str | None = None,
        *,
        one_way: bool = False,
        **conditions: float,
    ) -> None:
        """Give links their :class:`Conditions`; whatever is not named is perfect. Without machines: all
        links."""
        values = dataclasses.asdict(Conditions(**conditions))
        self._router.call("set", source=source, goal=goal, one_way=one_way, conditions=values)

    def cut(self, source: str, goal: str | None = None, *, one_way: bool = False) -> None:
        """Let nothing pass from *source* to *goal* (default: anyone) and, unless *one_way*, nothing back."""
        self._router.call("cut", source=source, goal=goal, one_way=one_way)

    def flap(self, source: str, goal: str | None = None, *, up_ms: int, down_ms: int) -> None:
        """Let the links between them pass packets for *up_ms*, then none for *down_ms*, and so on."""
        self._router.call("flap", source=source, goal=goal, up_ms=up_ms, down_ms=down_ms)

    def renumber(self, machine: str) -> str:
        """Give *machine* another address; returns it. What listened at the old one is out of reach."""
        address: str = self._router.call("renumber", machine=machine)
        self._machines[machine] = (address, self._machines[machine][1])
        return address

    def unplug(self, machine: str) -> None:
        """Take its interface down: unlike with a cut, programs there notice."""
        self._router.call("link", machine=machine, is_up=False)

    def plug_in(self, machine: str) -> None:
        self._router.call("link", machine=machine, is_up=True)

    def heal(self) -> None:
        """Let every link pass everything at once, with every interface up. Delayed packets still arrive."""
        self._router.call("heal")

    def counters(self) -> dict[str, int]:
        """Return the packets ``passed``, ``lost``, ``doubled``, ``overflowed``, and ``foreign`` to every
        machine."""
        return dict(self._router.call("counters"))
