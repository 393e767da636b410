"""Hosts that keep a log, checkpoints and an identity on a disk that does everything disks do.

Each host appends to several groups, drops tails, writes checkpoints, and starts again as often as the faults
want. Demands, checked at every start against an account kept outside (:mod:`holdfast.sim.checkers.ledger`):
the log holds what some prefix of the changes asked for amounts to, at least all that was reported durable
(S5, D1, D2, D4); checkpoints are whole and reach down to the log's floor (D3); a disk wiped, copied or put
back is refused (V5); damage is reported where bytes rotted, and only there. After healing, hosts get on.
"""

import random
from functools import partial
from typing import ClassVar, Final

from holdfast.sim.faults import DISK_KINDS, POWER_KINDS, PROCESS_KINDS, FaultKind, Field, Parameters
from holdfast.sim.log.account import ROT, Account
from holdfast.sim.log.host import Host
from holdfast.sim.log.work import CONFIG
from holdfast.sim.node import NodePorts
from holdfast.sim.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.scenario import Bound, Scenario
from holdfast.sim.world import World

FILES_MAX: Final = 2 * CONFIG.files_max
"""More files than this at the end, and pruning has failed."""
SLOW_NS: Final = 2 * MILLISECOND
"""With slower syncs than this pruning may lag behind the writing."""


def _draw_put_back(rng: random.Random, field: Field) -> Parameters:
    return {
        "after_ns": int(100 * MILLISECOND * 20 ** rng.random()),
        "restart_ns": int(MILLISECOND * 1000 ** rng.random()),
    }


def _put_back(world: World, event: FaultEvent) -> bool:
    """Copy the disk now, put the copy back later: a backup restored. Only after the next opening, because
    a disk put back within one opening cannot be told by its number (V5 names that limit)."""
    node = world.nodes[event.target]
    host: Host | None = node.core
    if host is None or host.store is None:
        return False
    account, store, image = host.account, host.store, node.disk.copy()

    def put_back() -> None:
        if not world.is_healed and account.openings[store.store] != (store.opening, store.nonce):
            node.kill()
            node.disk.replace(image)
            node.restart(event.parameters["restart_ns"])

    world.after(event.parameters["after_ns"], put_back)
    return True


class LogScenario(Scenario):
    name = "log"
    nodes = ("a", "b")
    kinds = (*PROCESS_KINDS, *POWER_KINDS, *DISK_KINDS, *ROT, "wipe", "copy")
    own_kinds = (FaultKind("put_back", _draw_put_back, _put_back),)
    # Copied to and fro, a disk would be put back within one opening.
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
