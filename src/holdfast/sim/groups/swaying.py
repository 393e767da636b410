"""Objects that differ: on one host, for a while, what is executed again comes out otherwise (E8).

As if a setting or a library were another there. What that host executes in office is right by definition:
it is the one that answers. What it executes again, as a backup or before it takes up office, differs:
*aloud*, where the reply shows it, which is found at once; or *silently*, where only the state does, which is
found at the next mark. A host that leads before that has answered, and is right as well: the group
is *misled*, and what its objects hold besides what clients saw is not checked any more.
"""

import random
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.model.ids import GroupId
from holdfast.sim.authority.asking import AUTHORITY
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration
from holdfast.sim.groups.breaking import PASSIVE
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.world import World
from holdfast.styles.capture import Checkpointable
from holdfast.styles.replica import Replica

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


def _draw(rng: random.Random, _: Field) -> Parameters:
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


FAULTS: Final = (FaultKind(SWAYS, _draw, _sway),)
