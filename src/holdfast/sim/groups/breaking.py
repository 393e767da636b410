"""A class that cannot be made on one host any more: a library is missing there, a server does not answer.

From then on to the end, passive groups' objects fail to be made on that host. Those that are there go on.
"""

import random
from typing import Final

from holdfast.authority.groups import GroupRecord
from holdfast.sim.authority.asking import AUTHORITY
from holdfast.sim.faults import FaultKind, Field, Parameters
from holdfast.sim.options import FaultEvent
from holdfast.sim.world import World

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


def _draw(rng: random.Random, field: Field) -> Parameters:
    return {}


def _break(world: World, event: FaultEvent) -> bool:
    return event.target != AUTHORITY and event.target in world.nodes


FAULTS: Final = (FaultKind(BREAKS, _draw, _break),)
