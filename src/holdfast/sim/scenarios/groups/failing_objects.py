"""Objects that fail: they end their process, report that they are sick, diverge, or cannot be made.

*Deadly calls end the process that executes them (E4).* As in production, a process notes in its slot what it
is about to run, where others find it when the process is gone: its agent, which tells the other hosts
together with the proof of death, and hosts that start later.

*Sick objects find themselves inconsistent.* An object that was spoilt says so until another is made in its
place. On a sick host every object says so until the time is over: making it anew does not help there, and the
group must be served elsewhere.

*Diverging objects: on one host, for a while, repeated execution gives other results (E8),* as if a setting or
a library were different there. What that host executes while it serves is right by definition, because it
gives the answers. What it executes again, as a backup or before it serves, differs. It differs *aloud* where
the reply shows it, which is found at once, or *silently* where only the state shows it, which is found at the
next mark. A host that serves before that has answered, and is right as well: the group is *misled*, and what
its objects contain besides what clients saw is no longer checked.

*Broken classes: from some time to the end, objects of passive groups cannot be made on one host,* because a
library is missing there, or a server does not answer. Existing objects continue.
"""

import random
from contextvars import ContextVar
from typing import Final, NoReturn
from weakref import ReferenceType, WeakKeyDictionary, ref

from holdfast.authority.groups import GroupRecord
from holdfast.execution.capture import Checkpointable
from holdfast.execution.crash_attempts import POISON_LIMIT, Attempt, NoSlot
from holdfast.execution.execution import Execution
from holdfast.model.ids import ClientId, GroupId, HostId, Incarnation, Position
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
"""How often a death is reported: agents use connections, so the loss of a message does not show in
production."""
REPORT_NS: Final = 10 * MILLISECOND

_deaths: Final[ContextVar["Deaths"]] = ContextVar("deaths")


def die(token: str) -> NoReturn:
    """End the process that executes this."""
    _deaths.get().end(token)


class Slot:
    """The slot of one process (:class:`holdfast.execution.crash_attempts.Slot`)."""

    def __init__(self, deaths: "Deaths", ports: NodePorts, incarnation: Incarnation) -> None:
        self._deaths = deaths
        self.ports = ports
        self.incarnation = incarnation
        self.noted: Attempt | None = None

    def note(self, group: GroupId, client: ClientId, first: int, last: int, attempts: int) -> None:
        self.noted = Attempt(group, client, first, last, attempts)
        self._deaths.running = self

    def clear(self) -> None:
        if not self.ports.life.over:  # otherwise the process is only being unwound, which no real process is
            self.noted = None
            self._deaths.running = None

    def apart(self) -> NoSlot:
        """No slow method ends a process here."""
        return NoSlot()


class Deaths:
    """All slots of a run, and the deaths they record."""

    def __init__(self, world: World, hosts: tuple[HostId, ...]) -> None:
        self._world = world
        self._hosts = hosts
        self.running: Slot | None = None
        """The slot of the process that executes something now; only one process does at a time."""
        self.attempts: dict[tuple[HostId, Incarnation], Attempt] = {}
        """What each process that died of a call was executing."""
        self._ended: dict[str, int] = {}
        self.tokens_left = 0
        """The number of deadly calls that may still be made in this run."""
        _deaths.set(self)

    def end(self, token: str) -> NoReturn:
        """End the process that executes the call of *token*.

        The call may end only a limited number of processes if each death is known to the others before they
        meet the call, as is the case when nothing else fails.
        """
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
ORIGIN: Final = Position(0)
PASSIVE: Final = ("cold_passive", "warm_passive")


class NotHere(Exception):
    """Raised by a constructor, as a user's own would."""


def is_broken(world: World, record: GroupRecord, host: str) -> bool:
    """Whether the group's object cannot be made on that host now.

    This never affects active groups, whose members cannot even begin without an object.
    """
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


class Divergences:
    """Which hosts diverge and how, in one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until: dict[tuple[str, str], int] = {}
        self._silently_changed: WeakKeyDictionary[object, Position] = WeakKeyDictionary()
        """Objects whose state differs without any reply having shown it, and the position before which it did
        not."""
        self.misled: dict[GroupId, None] = {}
        """Groups that such an object has served."""
        self.hosts: dict[str, None] = {}
        """Hosts that diverged at some time."""

    def begin(self, host: str, for_ns: int, *, is_silent: bool) -> None:
        self._until[host, _KINDS[is_silent]] = self._world.now + for_ns
        self.hosts[host] = None

    def end(self) -> None:
        self._until.clear()

    def is_aloud(self, instance: object, host: str, style: str) -> bool:
        """Whether that object now gives a different reply, visible to all.

        Active groups record nothing that would show it.
        """
        if not self._is(host, "aloud") or style not in PASSIVE or self._is_serving(instance, host):
            return False
        self._world.sometimes("a replay came out otherwise")
        return True

    def is_silent(self, instance: object, host: str) -> bool:
        """Whether that object now changes its state differently without anything showing it.

        This excludes classes that provide their own state.
        """
        is_compared = not isinstance(instance, Checkpointable)
        if not self._is(host, "silent") or not is_compared or self._is_serving(instance, host):
            return False
        self._world.sometimes("a state differs")
        execution = self._execution_of(instance, host)
        self._silently_changed.setdefault(instance, execution.position if execution is not None else ORIGIN)
        return True

    def differs_at(self, instance: object, position: Position) -> bool:
        """Whether the object's state at *position* differs without any reply having shown it."""
        return position > self._silently_changed.get(instance, position)

    def started_serving(self, group: GroupId, instance: object) -> None:
        if instance in self._silently_changed:
            self._world.sometimes("a group was misled")
            self.misled[group] = None

    def _is(self, host: str, kind: str) -> bool:
        return self._world.now < self._until.get((host, kind), 0)

    def _is_serving(self, instance: object, host: str) -> bool:
        return self._execution_of(instance, host, is_ready=True) is not None

    def _execution_of(self, instance: object, host: str, *, is_ready: bool = False) -> Execution | None:
        """The execution of that object; None while the object is being loaded. *is_ready*: if it serves."""
        core = self._world.nodes[host].core
        hosted = core.groups.hosted.values() if core is not None and core.groups is not None else ()
        styles = [each.style for each in hosted if isinstance(each.style, Replica)]
        executions = [each.execution for each in styles if each.is_ready or not is_ready]
        found = (each for each in executions if each is not None and each.line.instance is instance)
        return next(found, None)


def _draw_divergence(rng: random.Random, _: Field) -> Parameters:
    return {"for_ns": duration(rng, 100 * MILLISECOND, 3 * SECOND), "is_silent": rng.random() < SILENTLY}


def _diverge(world: World, event: FaultEvent) -> bool:
    if event.target == AUTHORITY or event.target not in world.nodes:
        return False
    core = world.nodes[event.target].core
    if core is None:
        return False
    divergences: Divergences = core.book.health.divergences
    divergences.begin(event.target, event.parameters["for_ns"], is_silent=event.parameters["is_silent"])
    return True


DIVERGENCE_FAULTS: Final = (FaultKind(SWAYS, _draw_divergence, _diverge),)


FOR_EVER_NS: Final = 1 << 62


class Health:
    """The health of all objects of one run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sick_until: dict[str, int] = {}
        self._spoilt: WeakKeyDictionary[object, None] = WeakKeyDictionary()
        self.divergences = Divergences(world)

    def made(self, instance: object, host: str, style: str = "") -> None:
        """Record that an object of a group of that style was made on *host*."""
        _LIVES[instance] = (ref(self), host, style)

    def spoil(self, instance: object) -> None:
        self._spoilt[instance] = None

    def sicken(self, host: str, for_ns: int) -> None:
        self._sick_until[host] = self._world.now + for_ns

    def heal(self) -> None:
        """Make all hosts well, except one that is sick for good; spoilt objects stay spoilt."""
        self._sick_until = {host: until for host, until in self._sick_until.items() if until >= FOR_EVER_NS}

    def is_well(self, instance: object, host: str) -> bool:
        return instance not in self._spoilt and self._world.now >= self._sick_until.get(host, 0)


_LIVES: WeakKeyDictionary[object, tuple[ReferenceType[Health], str, str]] = WeakKeyDictionary()
"""Where each object is, and in which run, since an object knows neither. The run is referenced weakly: it
refers to its objects, and would otherwise never be freed."""


def _life(instance: object) -> tuple[Health | None, str, str]:
    of_run, host, style = _LIVES.get(instance, (None, "", ""))
    return (of_run() if of_run is not None else None), host, style


def gives_other_replies(instance: object) -> bool:
    """Whether the object gives a different reply than the one that answered would (E8)."""
    health, host, style = _life(instance)
    return health is not None and health.divergences.is_aloud(instance, host, style)


def changes_state_silently(instance: object) -> bool:
    """Whether its state changes differently without any reply showing it."""
    health, host, _ = _life(instance)
    return health is not None and health.divergences.is_silent(instance, host)


def is_well(instance: object) -> bool:
    """Return what the object answers to ``is_alive``."""
    health, host, _ = _life(instance)
    return health is None or health.is_well(instance, host)
