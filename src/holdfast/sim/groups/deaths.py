"""Calls that end the process in which they are executed, and what outlives it: the slot of each host (E4).

As in production, a process notes what it is about to run where others find it when it is gone: its agent,
which tells the other hosts together with the proof of its death, and those that begin later when they do.
"""

from contextvars import ContextVar
from typing import Final, NoReturn

from holdfast.model.ids import ClientId, GroupId, HostId, Incarnation
from holdfast.sequence.messages import Died
from holdfast.sim.disk import Crash
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MILLISECOND
from holdfast.sim.world import World
from holdfast.styles.attempts import POISON_LIMIT, Attempt

REPORTS: Final = 6
"""How often a death is told: agents speak on connections, of which loss is not seen."""
REPORT_NS: Final = 10 * MILLISECOND

_deaths: Final[ContextVar["Deaths"]] = ContextVar("deaths")


def die(token: str) -> NoReturn:
    """End the process that executes this."""
    _deaths.get().end(token)


class Slot:
    """Of one process (:class:`holdfast.styles.attempts.Slot`)."""

    def __init__(self, deaths: "Deaths", ports: NodePorts, incarnation: Incarnation) -> None:
        self._deaths = deaths
        self.ports = ports
        self.incarnation = incarnation
        self.noted: Attempt | None = None

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        self.noted = Attempt(group, client, first, last, attempts)
        self._deaths.running = self

    def clear(self) -> None:
        if not self.ports.life.over:  # else it is only unwound, as no real process is
            self.noted = None
            self._deaths.running = None


class Deaths:
    """All slots of a run, and the deaths they tell of."""

    def __init__(self, world: World, hosts: tuple[HostId, ...]) -> None:
        self._world = world
        self._hosts = hosts
        self.running: Slot | None = None
        """Of the process that executes something now: one at a time does."""
        self.attempts: dict[tuple[HostId, Incarnation], Attempt] = {}
        """What each process that died of a call was executing."""
        self._ended: dict[str, int] = {}
        self.tokens_left = 0
        """Deadly calls that may still be made in this run."""
        _deaths.set(self)

    def end(self, token: str) -> NoReturn:
        """The call of *token* ends the process that executes it. No more than so many, if each is known to
        the others before they can meet the call: as they are where nothing else fails."""
        slot, self.running = self.running, None
        world = self._world
        if slot is None or slot.noted is None:
            world.violation("E4", f"{token} is executed without a note of it")
            raise Crash
        self.attempts[HostId(slot.ports.name), slot.incarnation] = slot.noted
        self._ended[token] = self._ended.get(token, 0) + 1
        world.sometimes("a call ended a process")
        if self._ended[token] > POISON_LIMIT and not world.faults:
            world.violation("E4", f"{token} has ended {self._ended[token]} processes")
        slot.ports.stop("a call ended it")
        world.after(REPORT_NS, self._report, slot, REPORTS)
        raise Crash

    def _report(self, slot: Slot, times: int) -> None:
        name = slot.ports.name
        for other in self._hosts:
            if other != name:
                self._world.network.send(name, other, Died(name, slot.incarnation))
        if times > 1:
            self._world.after(REPORT_NS, self._report, slot, times - 1)
