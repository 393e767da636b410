"""A disk that fills up slowly enough for its host to notice: it must not end for lack of space (D5).

Something else on the machine takes the space, down to less than the host's reserve, and gives it back later.
What the host may still write after it has noticed fits into what is left.
"""

import random
from typing import Final

from holdfast.model.errors import HoldfastError, NoSpace
from holdfast.sim.engine.node import SimNode
from holdfast.sim.engine.options import MILLISECOND, SECOND, FaultEvent
from holdfast.sim.engine.world import World
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.faults.kind import duration, later, node_of
from holdfast.sim.scenarios.sequence.startup import LOG
from holdfast.storage.free_space import SpaceConfig

DISK_FILLS: Final = "disk_fills"
SPACE: Final = SpaceConfig(reserve_bytes=192 << 10, reserve_percent_max=100, look_ns=50 * MILLISECOND)
LEFT_BYTES: Final = (96 << 10, 160 << 10)
"""How much is left: less than the reserve, and more than a log file and the checkpoints under way."""
OPENED_BYTES: Final = 2 * LOG.file_bytes
"""A host that opens its store makes two log files; before that it has nothing to refuse."""


def _draw(rng: random.Random, _: Field) -> Parameters:
    return {"left_bytes": rng.randrange(*LEFT_BYTES), "for_ns": duration(rng, SECOND, 6 * SECOND)}


def _fill(world: World, event: FaultEvent) -> bool:
    disk = node_of(world, event).disk
    if disk.bytes_max is not None or disk.used() < OPENED_BYTES:
        return False
    disk.bytes_max = filled = disk.used() + event.parameters["left_bytes"]

    def give_back() -> None:
        if disk.bytes_max == filled:
            disk.bytes_max = None

    later(world, event.parameters["for_ns"], give_back)
    return True


def check_ended(node: SimNode, error: HoldfastError) -> None:
    """Require that a host whose disk only fills up does not end for it, now that *error* ends it."""
    options = node.world.options
    is_filled = isinstance(error, NoSpace) and any(each.kind == DISK_FILLS for each in options.faults)
    is_cut_off = any(each.kind == "disk_full" for each in options.faults)
    if is_filled and not is_cut_off:
        node.world.violation("D5", f"{node.name} ends for lack of space, though it had a reserve: {error}")


FILLING: Final = FaultKind(DISK_FILLS, _draw, _fill)
