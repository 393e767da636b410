"""A simulated node: one machine with a clock and a disk, and the process that runs a core on it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.model.errors import BrokenInvariant, HoldfastError
from holdfast.model.ports import Fault, Token
from holdfast.sim.engine.clocks import SimClock, SimTimers
from holdfast.sim.engine.disk import Crash, DiskHandle, SimDisk
from holdfast.sim.engine.network import NetworkHandle
from holdfast.sim.engine.trace import NodeTrace

if TYPE_CHECKING:
    from holdfast.sim.engine.world import World


BACKLOG_MAX: Final = 10_000
"""A paused process loses messages while this many events wait for it, as its kernel would drop them."""
RESTART_NS: Final = 200_000_000
"""A process that ended itself restarts after this time, which doubles each time up to ``RESTART_MAX_NS``."""
RESTART_MAX_NS: Final = 5_000_000_000


class Life:
    """One incarnation of a process. Every handle given to it does nothing once :attr:`over` is set."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class SimNode:
    """One node. ``build(ports)`` is called at each start and returns the core, which may be any object.

    The core's optional ``on_message(peer, message)`` receives what is sent to the node's name. Its optional
    ``on_heart_message(peer, message)`` is asked first, on a thread that a hanging event loop does not block,
    and returns whether it took the message.
    """

    def __init__(
        self,
        world: "World",
        name: str,
        build: Callable[["NodePorts"], Any],
        clock: SimClock,
        *,
        supervised: bool,
    ) -> None:
        self.world = world
        self.name = name
        self.clock = clock
        self.disk = SimDisk(self, world.rng(f"disk/{name}"), world.options.disk)
        self.incarnation = 0
        self.alive = False
        self.paused = False
        self.supervised = supervised
        """Whether the process is started again after it ended itself."""
        self.core: Any = None
        self.life = Life()
        self.life.over = True
        self.stops: list[str] = []
        """Why the process ended itself, once for each time."""
        self._hung_since: int | None = None
        self._suspended_ns = 0
        self._build = build
        self._backlog: list[tuple[Life, Callable[..., None], tuple[Any, ...]]] = []
        self._on_message: Callable[[str, Any], None] | None = None
        self._on_heart_message: Callable[[str, Any], bool] | None = None
        self._slept_at: int | None = None
        self._restart_ns = RESTART_NS

    # --- what may happen to the node; each method returns whether it had any effect

    def start(self) -> bool:
        if self.alive:
            return False
        self.incarnation += 1
        self.alive = True
        self.life = life = Life()
        self._note("start")
        self.run(life, self._start, life)
        return True

    def kill(self) -> bool:
        """End the process; what it wrote remains on the machine, synced or not."""
        if not self.alive:
            return False
        self._end("kill")
        return True

    def power_cut(self) -> bool:
        """End the process and lose unsynced data; the machine's clock restarts."""
        if self.alive:
            self._end("power_cut")
        self.disk.power_cut()
        self.clock.reboot()
        return True

    def pause(self) -> bool:
        """Pause the process; events wait until it resumes."""
        if not self.alive or self.paused:
            return False
        self.paused = True
        self._note("pause")
        return True

    def suspend(self) -> bool:
        """Send the machine to sleep. This is like :meth:`pause`, and its timers do not count the time."""
        if not self.pause():
            return False
        self._slept_at = self.world.now
        return True

    def resume(self, *, is_reading_last: bool = False) -> bool:
        """Resume the process and let it handle the waiting events in order of arrival.

        With *is_reading_last* it handles messages after everything else that was due, like an event loop
        whose kernel delivers messages late.
        """
        if not self.alive or not self.paused:
            return False
        self.paused = False
        if self._slept_at is not None:
            self._suspended_ns += self.world.now - self._slept_at
            self._slept_at = None
        self._note("resume")
        self._catch_up(is_reading_last)
        return True

    def hang(self) -> bool:
        """Block the event loop of the process until :meth:`go_on` or for good.

        This is what a method that does not return does: events wait, while the process's other threads run
        on.
        """
        if not self.alive or self._hung_since is not None:
            return False
        self._hung_since = self.world.now
        self._note("hang")
        return True

    def go_on(self, *, is_reading_last: bool = False) -> bool:
        """Unblock the event loop; *is_reading_last* as in :meth:`resume`."""
        if not self.alive or self._hung_since is None:
            return False
        self._hung_since = None
        self._note("go_on")
        self._catch_up(is_reading_last)
        return True

    def _catch_up(self, is_reading_last: bool) -> None:
        backlog, self._backlog = self._backlog, []
        if is_reading_last:
            backlog.sort(key=lambda waiting: waiting[1] == self._on_message)
        for life, function, args in backlog:
            self.world.after(0, self.run, life, function, *args)

    def hung_ns(self) -> int:
        """Return how long the event loop has been blocked."""
        return self.world.now - self._hung_since if self._hung_since is not None else 0

    def awake_ns(self) -> int:
        """Return how long the machine has been awake, which is the time that its timers count."""
        return self.world.now - self._suspended_ns

    def restart(self, after_ns: int = 0) -> None:
        """Start the node after that time, unless it is running by then."""
        self.world.after(after_ns, self.start)

    def heal(self) -> None:
        """Repair the node: end the faults of its disk and clock, and let it run."""
        self.disk.heal()
        self.clock.set_rate(0)
        self._restart_ns = RESTART_NS
        self.resume()
        self.go_on()
        self.start()

    # --- running the core

    def run(self, life: Life, function: Callable[..., None], *args: Any) -> None:
        """Let this incarnation handle one event.

        No exception leaves this method; it ends the process instead.
        """
        if life.over:
            return
        if self.paused or self._hung_since is not None:
            self._backlog.append((life, function, args))
            return
        try:
            function(*args)
        except Crash:
            pass  # the node is already down; the exception only unwound its calls
        except HoldfastError as error:
            self.stop(life, f"{error.code}: {error}")
        except (Exception, BrokenInvariant) as error:
            self._broke(life, error)

    def receive(self, peer: str, message: object) -> None:
        if self._on_heart_message is not None and not self.paused and self._on_heart_message(peer, message):
            return
        if self._on_message is not None and len(self._backlog) < BACKLOG_MAX:
            self.run(self.life, self._on_message, peer, message)

    def stop(self, life: Life, reason: str) -> None:
        """End the process at its own request, for a stated reason."""
        if life.over:
            return
        self.stops.append(reason)
        self._end("stop", reason=reason)
        if self.supervised:
            self.restart(self._restart_ns)
            self._restart_ns = min(2 * self._restart_ns, RESTART_MAX_NS)

    def _start(self, life: Life) -> None:
        core = self._build(NodePorts.of(self, life))
        if not life.over:
            self.core = core
            self._on_message = getattr(core, "on_message", None)
            self._on_heart_message = getattr(core, "on_heart_message", None)

    def _end(self, how: str, **fields: object) -> None:
        self._note(how, **fields)
        self.life.over = True
        self.alive = False
        self.paused = False
        self._hung_since = None
        self.core = None
        self._on_message = None
        self._on_heart_message = None
        self._slept_at = None
        self._backlog.clear()

    def _broke(self, life: Life, error: BaseException) -> None:
        # Errors raised while a dead process is unwound do not matter.
        if life.over:
            return
        if not self.world.expects(self, error):
            self.world.violation(_rule_of(error), f"{self.name}: {type(error).__name__}: {error}", error)
        self.stop(life, f"{type(error).__name__}: {error}")

    def _note(self, kind: str, **fields: object) -> None:
        self.world.trace.add(f"{self.world.now} {self.name}#{self.incarnation} {kind} {fields or ''}")


@dataclass(frozen=True, slots=True)
class NodePorts:
    """All ports that one incarnation of a node gets; they do nothing once that incarnation has ended."""

    name: str
    incarnation: int
    clock: SimClock
    random: "NodeRandom"
    trace: NodeTrace
    fault: Fault
    network: NetworkHandle
    node: SimNode
    life: Life

    @classmethod
    def of(cls, node: SimNode, life: Life) -> "NodePorts":
        world = node.world
        return cls(
            name=node.name,
            incarnation=node.incarnation,
            clock=node.clock,
            random=NodeRandom(world, f"{node.name}#{node.incarnation}"),
            trace=NodeTrace(world.trace, node.name, world.time, life),
            fault=world.fault,
            network=NetworkHandle(world.network, node.name, life),
            node=node,
            life=life,
        )

    def timers(self, on_timer: Callable[[Any], None]) -> SimTimers:
        return SimTimers(self.node, self.life, on_timer)

    def disk(self, directory: str, on_synced: Callable[[Token, bool], None] | None = None) -> DiskHandle:
        return self.node.disk.open(directory, self.life, on_synced)

    def stop(self, reason: str) -> None:
        """End this process, with a reason that the node records."""
        self.node.stop(self.life, reason)


class NodeRandom:
    """The Random port of one incarnation."""

    __slots__ = ("_prefix", "_world")

    def __init__(self, world: "World", prefix: str) -> None:
        self._world = world
        self._prefix = prefix

    def stream(self, name: str) -> random.Random:
        return self._world.rng(f"{self._prefix}/{name}")


def _rule_of(error: BaseException) -> str:
    return "invariant" if isinstance(error, BrokenInvariant) else "exception"
