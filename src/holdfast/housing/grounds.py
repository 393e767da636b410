"""The grounds of one host, and which of them a group stands on: disk, memory, or something of both."""

from dataclasses import replace

import msgspec

from holdfast.authority.groups import DISK, RESTART, GroupRecord, store_in_stay
from holdfast.housing.ground import Ground
from holdfast.housing.memory import Soon, memory_ground, with_checkpoints
from holdfast.housing.ports import Journal, OpenStore


class Grounds:
    """Beside *disk*, which is on *store*."""

    def __init__(self, disk: Ground, store: OpenStore, journal: Journal, soon: Soon) -> None:
        self._store = store
        self._disk = disk
        self._memory, self._memory_log = memory_ground(disk, soon)
        self._kept_memory = with_checkpoints(self._memory, self._memory_log, store.checkpoints, journal)

    def of(self, record: GroupRecord) -> Ground:
        """The ground of that group; who this process is on it depends on the member's stay here (M6)."""
        if record.durability == DISK:
            ground = self._disk
        else:
            ground = self._kept_memory if record.on_total_loss == RESTART else self._memory
        entry = record.placement(ground.me.host)
        if entry is None or not entry.number:
            return ground
        store = store_in_stay(ground.me.store, entry.number)
        return replace(ground, me=msgspec.structs.replace(ground.me, store=store))

    def flush(self) -> None:
        """Sync what was appended in this turn, wherever (S5)."""
        self._store.log.flush()
        self._memory_log.flush()
