"""The replication manager at work, at every host at once, on groups that are called all the time.

The groups of the scenario ``groups``, on four or five hosts that crash, are away for so long that they are
taken for lost, are parted from each other, and are emptied; and somebody adds and removes members beside. Its
rules, and: no manager lets a member go that is needed (:mod:`holdfast.sim.groups.managing`); in the end every
group has as many members as are wished for, and none on a host that shall be empty.
"""

from dataclasses import replace
from typing import ClassVar, Final

import msgspec

from holdfast.authority.groups import GroupRecord
from holdfast.model.properties import MINIMUM_NUMBER
from holdfast.sim.faults import NETWORK_KINDS, PROCESS_KINDS, FaultKind
from holdfast.sim.groups.host import Host
from holdfast.sim.groups.managing import DRAINING, ManagedHost, Witness, host_to_stay_empty
from holdfast.sim.groups.moving import MOVING, records
from holdfast.sim.groups.stage import Stage
from holdfast.sim.options import SECOND
from holdfast.sim.scenario import Bound
from holdfast.sim.scenarios.groups import Groups
from holdfast.sim.sequence import turmoil
from holdfast.sim.world import World

MINIMUM: Final = 3
HOST_COUNTS: Final = (MINIMUM + 1, MINIMUM + 2)
"""So that one can be empty."""


class Manage(Groups):
    name = "manage"
    host: ClassVar[type[Host]] = ManagedHost
    kinds = (*PROCESS_KINDS, *NETWORK_KINDS)
    own_kinds: ClassVar[tuple[FaultKind, ...]] = (
        *(kind for kind in turmoil.FAULTS if kind.name != turmoil.DEAF),
        MOVING,
        DRAINING,
    )
    bounds: ClassVar[tuple[Bound, ...]] = ()
    heal_ns: ClassVar[int] = 10 * SECOND

    def build(self, world: World) -> None:
        super().build(world)
        self.truth.watchers.append(Witness(world).on_commit)

    def drawn(self, world: World) -> Stage:
        stage = Stage.drawn(world.rng("stage"), HOST_COUNTS)
        properties = msgspec.json.encode({MINIMUM_NUMBER: MINIMUM}).decode()

        def kept(record: GroupRecord) -> GroupRecord:
            return msgspec.structs.replace(record, properties=properties)

        return replace(stage, groups=tuple(map(kept, stage.groups)))

    def healed(self, world: World) -> None:
        super().healed(world)
        stays_empty = host_to_stay_empty(world)
        for host in list(self.book.draining):
            if host != stays_empty:
                del self.book.draining[host]

    def finish(self, world: World) -> None:
        super().finish(world)
        for record in records(world):
            left = [host for host in record.placed_on if host in self.book.draining]
            if left:
                world.violation("progress", f"{record.name} is still on {left[0]}, which shall be empty")
            elif len(record.placed_on) < MINIMUM:
                world.violation("progress", f"{record.name} has members on {record.placed_on} alone")
        if self.book.draining:
            world.sometimes("a host stayed empty")


SCENARIO = Manage
