"""What the hosts of one run share behind the scenes: the truth, the lease book, histories, and counts."""

from collections import Counter
from dataclasses import dataclass, field

from holdfast.model.ids import HostId, Incarnation, Opening, StoreId
from holdfast.sim.authority.leases import LeaseBook
from holdfast.sim.authority.truth import Truth
from holdfast.sim.checkers import History
from holdfast.sim.world import World


@dataclass(slots=True)
class Stage:
    """One run's observers. Hosts report to it what they were told; no host decides anything by it."""

    world: World
    truth: Truth
    leases: LeaseBook
    is_ending: bool = False
    """No host begins anything new: the last answers and events are to come in."""
    progress: Counter[tuple[str, str]] = field(default_factory=Counter)
    """What each node got done of each activity since everything was healed."""
    _histories: dict[int, History] = field(default_factory=dict)
    _held: dict[tuple[str, str, int], str] = field(default_factory=dict)

    @classmethod
    def of(cls, world: World) -> "Stage":
        return cls(world, Truth(world), LeaseBook(world))

    def history(self) -> History:
        """Of the registers of this lineage: what a restoration took away is not held against it."""
        return self._histories.setdefault(self.truth.lineage, History(self.world.time))

    def histories(self) -> list[History]:
        return list(self._histories.values())

    def done(self, node: str, activity: str) -> None:
        """Something was asked and answered."""
        self.world.operation()
        if self.world.is_healed:
            self.progress[node, activity] += 1

    def opened_session(self, host: HostId, incarnation: Incarnation, process: str) -> None:
        """*process* was told that it is this incarnation of *host*."""
        self._hold("V2", "incarnation", host, incarnation, process)

    def opened_store(self, store: StoreId, opening: Opening, process: str) -> None:
        """*process* has this opening of *store* on its disk and goes to work."""
        self._hold("V5", "opening", store, opening, process)

    def _hold(self, rule: str, what: str, name: str, number: int, process: str) -> None:
        holder = self._held.setdefault((what, name, number), process)
        if holder != process:
            self.world.violation(rule, f"{what} {number} of {name} is held by {holder} and by {process}")
