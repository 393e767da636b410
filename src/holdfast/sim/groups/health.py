"""How objects are: well, or found inconsistent by themselves, for once or on a whole host for a while.

An object that was spoilt says so until another is made in its place. On a sick host every object does, until
the time is over: there no making anew helps, and the group must be served elsewhere.
"""

from typing import Final
from weakref import ReferenceType, WeakKeyDictionary, ref

from holdfast.sim.groups.swaying import Swaying
from holdfast.sim.world import World

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
