"""Calls that end the process in which they are executed, and what outlives it: the slot of each host (E4).

As in production, a process notes what it is about to run where others find it when it is gone: its agent,
which tells the other hosts together with the proof of its death, and those that begin later when they do.

How objects are: well, or found inconsistent by themselves, for once or on a whole host for a while.

An object that was spoilt says so until another is made in its place. On a sick host every object does, until
the time is over: there no making anew helps, and the group must be served elsewhere.

Objects that differ: on one host, for a while, what is executed again comes out otherwise (E8).

As if a setting or a library were another there. What that host executes in office is right by definition:
it is the one that answers. What it executes again, as a backup or before it takes up office, differs:
*aloud*, where the reply shows it, which is found at once; or *silently*, where only the state does, which is
found at the next mark. A host that leads before that has answered, and is right as well: the group
is *misled*, and what its objects hold besides what clients saw is not checked any more.

A class that cannot be made on one host any more: a library is missing there, a server does not answer.

From then on to the end, passive groups' objects fail to be made on that host. Those that are there go on.
"""

import random
from contextvars import ContextVar
from typing import Final, NoReturn
from weakref import ReferenceType, WeakKeyDictionary, ref

from holdfast.authority.groups import GroupRecord
from holdfast.execution.capture import Checkpointable
from holdfast.execution.crash_attempts import POISON_LIMIT, Attempt
from holdfast.model.ids import ClientId, GroupId, HostId, Incarnation
from holdfast.sequence.messages import Died
from holdfast.sim.engine.disk import Crash
from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.styles.replica import Replica

REPORTS: Final = 6
"""How often a death is told: agents speak on connections, of which loss is not seen."""
REPORT_NS: Final = 10 * MILLISECOND

_deaths: Final[ContextVar["Deaths"]] = ContextVar("deaths")


def die(token: str) -> NoReturn:
    """End the process that executes this."""
    _deaths.get().end(token)


class Slot:
    """Of one process (:class:`holdfast.execution.crash_attempts.Slot`)."""

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


BREAKS: Final = "class_breaks"
PASSIVE: Final = ("cold_passive", "warm_passive")


class NotHere(Exception):
    """Raised by a constructor, as a user's own would."""


def is_broken(world: World, record: GroupRecord, host: str) -> bool:
    """Whether the group's object cannot be made there now. An active member without one cannot even begin,
    so of those none breaks."""
    return record.style in PASSIVE and any(
        event.kind == BREAKS and event.target == host and event.at_ns <= world.now
        for event in world.options.faults
    )


def _draw_break(rng: random.Random, field: Field) -> Parameters:
    return {}


def _break(world: World, event: FaultEvent) -> bool:
    return event.target != AUTHORITY and event.target in world.nodes


BREAK_FAULTS: Final = (FaultKind(BREAKS, _draw_break, _break),)


SWAYS: Final = "object_differs"
SILENTLY: Final = 0.4
_KINDS: Final = {True: "silent", False: "aloud"}


class Swaying:
    """What is different where, in one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until: dict[tuple[str, str], int] = {}
        self._silently_changed: WeakKeyDictionary[object, None] = WeakKeyDictionary()
        """Objects that hold what no reply has shown."""
        self.misled: dict[GroupId, None] = {}
        """Groups that such an object has led."""
        self.hosts: dict[str, None] = {}
        """Where anything ever was."""

    def begin(self, host: str, for_ns: int, *, is_silent: bool) -> None:
        self._until[host, _KINDS[is_silent]] = self._world.now + for_ns
        self.hosts[host] = None

    def end(self) -> None:
        self._until.clear()

    def is_aloud(self, instance: object, host: str, style: str) -> bool:
        """Whether what that object executes now comes out otherwise, for all to see. Of an active group
        nothing is recorded that would show it."""
        if not self._is(host, "aloud") or style not in PASSIVE or self._is_in_office(instance, host):
            return False
        self._world.sometimes("a replay came out otherwise")
        return True

    def is_silent(self, instance: object, host: str) -> bool:
        """Whether what it does now to its state is different, and nothing shows it. States that the class
        gives itself do not have it."""
        is_compared = not isinstance(instance, Checkpointable)
        if not self._is(host, "silent") or not is_compared or self._is_in_office(instance, host):
            return False
        self._world.sometimes("a state differs")
        self._silently_changed[instance] = None
        return True

    def took_office(self, group: GroupId, instance: object) -> None:
        if instance in self._silently_changed:
            self._world.sometimes("a group was misled")
            self.misled[group] = None

    def _is(self, host: str, kind: str) -> bool:
        return self._world.now < self._until.get((host, kind), 0)

    def _is_in_office(self, instance: object, host: str) -> bool:
        core = self._world.nodes[host].core
        housed = core.groups.housed.values() if core is not None and core.groups is not None else ()
        styles = [each.style for each in housed if isinstance(each.style, Replica) and each.style.is_ready]
        executions = [each.execution for each in styles]
        return any(each is not None and each.line.instance is instance for each in executions)


def _draw_sway(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 100 * MILLISECOND, 3 * SECOND), "is_silent": rng.random() < SILENTLY}


def _sway(world: World, event: FaultEvent) -> bool:
    if event.target == AUTHORITY or event.target not in world.nodes:
        return False
    core = world.nodes[event.target].core
    if core is None:
        return False
    swaying: Swaying = core.book.health.swaying
    swaying.begin(event.target, event.parameters["for_ns"], is_silent=event.parameters["is_silent"])
    return True


SWAY_FAULTS: Final = (FaultKind(SWAYS, _draw_sway, _sway),)


FOR_EVER_NS: Final = 1 << 62


class Health:
    """Of all objects of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sick_until: dict[str, int] = {}
        self._spoilt: WeakKeyDictionary[object, None] = WeakKeyDictionary()
        self.swaying = Swaying(world)

    def made(self, instance: object, host: str, style: str = "") -> None:
        """An object came to be there, of a group of that style."""
        _LIVES[instance] = (ref(self), host, style)

    def spoil(self, instance: object) -> None:
        self._spoilt[instance] = None

    def sicken(self, host: str, for_ns: int) -> None:
        self._sick_until[host] = self._world.now + for_ns

    def heal(self) -> None:
        """Hosts are well, but for one that is sick for good; what was spoilt stays so."""
        self._sick_until = {host: until for host, until in self._sick_until.items() if until >= FOR_EVER_NS}

    def is_well(self, instance: object, host: str) -> bool:
        return instance not in self._spoilt and self._world.now >= self._sick_until.get(host, 0)


_LIVES: WeakKeyDictionary[object, tuple[ReferenceType[Health], str, str]] = WeakKeyDictionary()
"""Where each object is, and in which run: an object knows neither. The run, which holds its objects, is not
held here: it would never be freed."""


def _life(instance: object) -> tuple[Health | None, str, str]:
    of_run, host, style = _LIVES.get(instance, (None, "", ""))
    return (of_run() if of_run is not None else None), host, style


def comes_out_otherwise(instance: object) -> bool:
    """Whether the object replies otherwise than the one that answered would (E8)."""
    health, host, style = _life(instance)
    return health is not None and health.swaying.is_aloud(instance, host, style)


def changes_otherwise(instance: object) -> bool:
    """Whether its state becomes another, and no reply shows it."""
    health, host, _ = _life(instance)
    return health is not None and health.swaying.is_silent(instance, host)


def is_well(instance: object) -> bool:
    """What the object answers to ``is_alive``."""
    health, host, _ = _life(instance)
    return health is None or health.is_well(instance, host)
