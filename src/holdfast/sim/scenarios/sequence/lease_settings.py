"""The hosts' files with their settings for leases, which people change while hosts run (R5).

Each host reads a file of its own, at its own times, so that hosts grant leases of different lengths to each
other. A file is also changed while its host is down. Beside it is the note of the longest lease that the
host's processes may have granted; like every synced file it survives them.
"""

from functools import partial
from typing import Final

from holdfast.model.ids import HostId
from holdfast.sequence.config import LeaseConfig
from holdfast.sequence.leases import LeaseNote
from holdfast.sim.engine.options import MILLISECOND, SECOND
from holdfast.sim.engine.world import World
from holdfast.sim.faults.kind import duration

LEASES: Final = LeaseConfig(
    lease_ns=240 * MILLISECOND, interval_ns=60 * MILLISECOND, margin_ns=20 * MILLISECOND
)
LENGTHS_NS: Final = (90 * MILLISECOND, 240 * MILLISECOND, 700 * MILLISECOND)
RATE_BOUNDS_PPM: Final = (10_000, 10_000, 60_000)
"""No clock of a run is as wrong as the first; who thinks so holds leases for a shorter time."""
EDITED_WHILE_DOWN: Final = 0.5


class LeaseSettings:
    """The files of all hosts of one run."""

    def __init__(self, world: World, hosts: tuple[str, ...]) -> None:
        self._world = world
        self._hosts = hosts
        self._rng = world.rng("lease-settings")
        self._files: dict[str, LeaseConfig] = {}
        self._notes: dict[str, int] = {}

    def start(self) -> None:
        """Begin to change files, if this run does."""
        if self._world.options.retunes:
            self._edit_later()

    def of(self, host: HostId) -> LeaseConfig:
        """What the host's file asks for."""
        return self._files.get(host, LEASES)

    def note(self, host: HostId) -> LeaseNote:
        """The host's note, for a process that starts."""
        return LeaseNote(self._notes.get(host, 0), partial(self._notes.__setitem__, host))

    def edit(self, host: str, lease_ns: int) -> None:
        """Write another length into the host's file; its process has not read that yet."""
        self._files[host] = LeaseConfig(
            lease_ns=lease_ns,
            interval_ns=lease_ns // 4,
            margin_ns=LEASES.margin_ns,
            rate_bound_ppm=self._rng.choice(RATE_BOUNDS_PPM),
        )

    def restart_edited(self, host: str) -> None:
        """End the host's process, and start the next with a file that asks for the shortest leases."""
        node = self._world.nodes[host]
        if self._world.options.retunes and self._rng.random() < EDITED_WHILE_DOWN and node.kill():
            self._world.sometimes("a host was started again with another file")
            self.edit(host, LENGTHS_NS[0])
            node.restart(duration(self._rng, MILLISECOND, 40 * MILLISECOND))

    def on_healed(self) -> None:
        """Let all hosts have the same settings in the end."""
        changed, self._files = self._files, {}
        for host in changed:
            self._take(host)

    def _edit_later(self) -> None:
        self._world.after(duration(self._rng, 100 * MILLISECOND, SECOND), self._edit_one)

    def _edit_one(self) -> None:
        if self._world.is_healed:
            return
        host = self._rng.choice(self._hosts)
        self.edit(host, self._rng.choice(LENGTHS_NS))
        self._take(host)
        self._edit_later()

    def _take(self, host: str) -> None:
        node = self._world.nodes[host]
        if node.alive and node.core is not None:
            self._world.sometimes("a host took other leases")
            node.run(node.life, node.core.retune)
