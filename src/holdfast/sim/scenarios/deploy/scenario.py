"""Applications that change while their groups run: versions rolled forward and back, under faults (E7).

There are three hosts and one or two groups of the scenario ``groups``, whose classes come in versions that
behave differently (:mod:`holdfast.sim.scenarios.deploy.versions`). Hosts stop, in good order or not, and
restart with another version, one by one or all at once. A person may request a version. Processes with old
code take time and may be killed. The rules of ``groups`` apply, and these: what one version answered was done
by that version, permanently, in every member's object and in its host's log and checkpoint; every change of
version is in the object once, and begins where the previous one ended; in the end all hosts have one version,
and every group serves.
"""

from dataclasses import replace
from typing import ClassVar, Final

import msgspec

from holdfast.authority.groups import DISK, GroupRecord
from holdfast.groups.hosted_group import HostedGroup
from holdfast.sequence.ports import Kept
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import NETWORK_KINDS, POWER_KINDS, PROCESS_KINDS, FaultKind
from holdfast.sim.runner.scenario import Bound
from holdfast.sim.scenarios.authority.server import AUTHORITY
from holdfast.sim.scenarios.deploy.host import FAULTS, CodedCaller, CodedHost, CodedReplay
from holdfast.sim.scenarios.deploy.versions import CLASSES, Coded
from holdfast.sim.scenarios.groups.caller import Caller
from holdfast.sim.scenarios.groups.host import Host
from holdfast.sim.scenarios.groups.objects import Tokens
from holdfast.sim.scenarios.groups.observer import Replay
from holdfast.sim.scenarios.groups.scenario import Groups
from holdfast.sim.scenarios.groups.setup import HOSTS, Stage
from holdfast.sim.scenarios.sequence import aimed_faults

GROUPS_MAX: Final = 2
HOST_COUNTS: Final = (3,)
IN_LINE_MAX: Final = 6
"""The most operations in line. When old code must end them, each takes a process of its own."""
LAST_NS: Final = 20 * MILLISECOND
"""After the healing, each host restarts this much later than the one before."""


class Deploy(Groups):
    name = "deploy"
    nodes: ClassVar[tuple[str, ...]] = (AUTHORITY, *HOSTS[:3])
    host: ClassVar[type[Host]] = CodedHost
    caller: ClassVar[type[Caller]] = CodedCaller
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *NETWORK_KINDS)
    own_kinds: ClassVar[tuple[FaultKind, ...]] = (
        *(kind for kind in aimed_faults.FAULTS if kind.name != aimed_faults.DEAF),
        *FAULTS,
    )
    bounds: ClassVar[tuple[Bound, ...]] = ()
    fault_ns: ClassVar[int] = 2500 * MILLISECOND
    heal_ns: ClassVar[int] = 6 * SECOND

    def drawn(self, world: World) -> Stage:
        stage = Stage.drawn(world.rng("stage"), HOST_COUNTS)
        groups = [each for each in stage.groups if each.style != "stateless"][:GROUPS_MAX]

        def kept(record: GroupRecord) -> GroupRecord:
            class_name = record.class_name if record.class_name in CLASSES else "tokens"
            return msgspec.structs.replace(record, durability=DISK, class_name=class_name)

        style = msgspec.structs.replace(stage.config.style, in_line_max=IN_LINE_MAX)
        config = msgspec.structs.replace(stage.config, style=style)
        return replace(stage, groups=tuple(map(kept, groups)), deadly=0, config=config)

    def healed(self, world: World) -> None:
        """Give all hosts the same version, and the sources of all versions."""
        super().healed(world)
        deploys = self.book.deploys
        deploys.are_all_kept = True
        for number, name in enumerate(self.stage.hosts, 1):
            deploys.deploy(name, deploys.last)
            node = world.nodes[name]
            if not isinstance(node.core, CodedHost) or node.core.label != deploys.last:
                world.after(number * LAST_NS, node.kill)
                world.after(number * LAST_NS, node.restart, LAST_NS)

    def replayed(self, record: GroupRecord, kept: Kept | None, hosted: HostedGroup) -> Replay:
        return CodedReplay(record, kept, hosted)

    def _check_objects(self, world: World, record: GroupRecord, members: dict[str, HostedGroup]) -> Tokens:
        found = super()._check_objects(world, record, members)
        assert isinstance(found, Coded)
        done = dict(zip(found.tokens, found.noted(), strict=True))
        for token, label in self.book.deploys.answered.get(record.name, {}).items():
            if done.get(token) != label:
                said = f"{record.name}: {token} was answered by {label}, and is there by {done.get(token)}"
                world.violation("E7", said)
                break
        for before, after in zip(found.upgrades, found.upgrades[1:], strict=False):
            if before[1] != after[0]:
                world.violation("E7", f"{record.name}: upgraded to {before[1]}, and then from {after[0]}")
        if found.upgrades:
            world.sometimes("a group was upgraded")
        if len(found.upgrades) > 1:
            world.sometimes("a group was upgraded more than once")
        return found


SCENARIO = Deploy
