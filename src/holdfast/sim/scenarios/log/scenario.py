"""Hosts with a log, checkpoints and a store identity, on a disk that fails in every known way.

Each host appends to several groups, drops tails, writes checkpoints, and restarts as often as the faults make
it. At every start its store is checked against a record kept outside the host
(:mod:`holdfast.sim.checkers.ledger`). The log contains the result of some prefix of the requested changes,
including at least everything reported durable (S5, D1, D2, D4). Checkpoints are complete and reach down to
the log's floor (D3). A disk that was wiped, copied or restored from a backup is refused (V5). Damage is
reported where bytes were corrupted, and only there. After healing, every host makes progress.
"""

from functools import partial
from typing import ClassVar, Final

from holdfast.sim.engine.node import NodePorts
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults import DISK_KINDS, POWER_KINDS, PROCESS_KINDS
from holdfast.sim.runner.scenario import Bound, Scenario
from holdfast.sim.scenarios.log.aimed_faults import PUT_BACK, ROT_CHECKPOINT, ROT_TAIL
from holdfast.sim.scenarios.log.host import Host
from holdfast.sim.scenarios.log.work import CONFIG, ROT, Account

FILES_MAX: Final = 2 * CONFIG.files_max
"""The most files at the end of a run; with more, pruning has failed."""
SLOW_NS: Final = 2 * MILLISECOND
"""With syncs slower than this, pruning may lag behind the writing."""


class LogScenario(Scenario):
    name = "log"
    nodes = ("a", "b")
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *DISK_KINDS, "bit_rot", "zero_sector", "wipe", "copy")
    own_kinds = (PUT_BACK, ROT_TAIL, ROT_CHECKPOINT)
    # If disks were copied back and forth, one could be restored within one opening.
    bounds = (Bound(kinds=ROT, per_run=6), Bound(kinds=("copy",), per_run=1))
    fault_ns: ClassVar[int] = 4 * SECOND
    heal_ns: ClassVar[int] = 2 * SECOND

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}
        self._at_heal: dict[str, int] = {}

    def build(self, world: World) -> None:
        for name in self.nodes:
            account = self._accounts[name] = Account(world, name)
            world.add_node(name, partial(_host, account=account))

    def healed(self, world: World) -> None:
        self._at_heal = {name: account.acknowledged for name, account in self._accounts.items()}

    def finish(self, world: World) -> None:
        for name, account in self._accounts.items():
            if account.acknowledged <= self._at_heal[name]:
                account.violation(
                    "progress", f"nothing durable since healing; {world.nodes[name].stops[-1:]}"
                )
                continue
            host: Host | None = world.nodes[name].core
            if host is None or host.work is None or world.options.disk.sync_mean_ns > SLOW_NS:
                continue
            if len(host.work.log.files) > FILES_MAX:
                account.violation("D4", f"the log has grown to {len(host.work.log.files)} files")


def _host(ports: NodePorts, account: Account) -> Host:
    return Host(ports, account)


SCENARIO = LogScenario
