"""What is known about a host outside of it: what it was promised, what the authority holds, what was loud."""

from typing import Final

from holdfast.model.errors import Corruption
from holdfast.model.ids import Nonce, Opening, StoreId
from holdfast.sim.checkers.ledger import History, Ledger
from holdfast.sim.world import World
from holdfast.storage.batch import Place
from holdfast.storage.files import file_number

ROT: Final = ("bit_rot", "zero_sector", "rot_tail", "rot_checkpoint")
REPLACED: Final = ("wipe", "copy", "put_back")


class Account:
    """One host's account; it outlives the host's processes."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.ledger = Ledger()
        self.openings: dict[StoreId, tuple[Opening, Nonce]] = {}
        """What the authority holds of each store."""
        self.stores = 0
        self.is_doubtful = False
        """Whether the log's tail was cut and nothing has cleared it since."""
        self.acknowledged = 0
        self.issued = 0
        """How many bodies were written: each gets its number, so that no two are the same."""
        self._opened_at = Place(0, 0)
        self._rot_before = 0

    def new_store(self) -> StoreId:
        self.stores += 1
        self.ledger = Ledger()
        self.is_doubtful = False
        return StoreId(f"{self.name}-{self.stores}")

    def had(self, kinds: tuple[str, ...]) -> bool:
        """Whether this run has had a fault of these kinds."""
        return any(self.world.faults[kind] for kind in kinds)

    def violation(self, rule: str, message: str) -> None:
        self.world.violation(rule, f"{self.name}: {message}")

    def loud(self, error: Corruption) -> None:
        """Damage was reported: rightly so only where something has rotted."""
        self.world.trace.add(f"{self.world.now} {self.name} damage {error}")
        self.world.sometimes("damage was reported")
        if not self.had(ROT):
            self.violation("D2", f"false alarm: {error}")

    def refused(self, reason: str) -> None:
        """The host takes its store for a stranger: rightly so only where a disk was exchanged."""
        if self.openings and not self.had(REPLACED) and not self.had(ROT):
            self.violation("V5", f"its own store refused: {reason}")

    def opened(self, state: dict[int, History], end: Place) -> None:
        """The log is open with *state*; what this opening writes lies from *end* on."""
        self.ledger.accept(state)
        self._opened_at = end
        self._rot_before = len(self.world.nodes[self.name].disk.rot)

    def _rot_at_tail(self) -> int:
        """How many faults have damaged what the last opening wrote."""
        rot = self.world.nodes[self.name].disk.rot[self._rot_before :]
        places = (Place(file_number(name) or 0, offset) for name, offset in rot)
        return sum(place >= self._opened_at for place in places)

    def recovered(self, state: dict[int, History], *, is_doubtful: bool) -> None:
        """What a scan found after a restart."""
        if self.is_doubtful and not is_doubtful:
            self.violation("D2", "the log forgot that its tail is in doubt")
        wrong = self.ledger.objection(state)
        if wrong is None:
            return
        if is_doubtful and (faults := self._rot_at_tail()):
            self.world.sometimes("a rotted tail was cut in doubt")
            wrong = self.ledger.objection(state, lost_reports=faults)
        if wrong is not None:
            self.violation("D2", f"{wrong}; {'in doubt' if is_doubtful else 'without a word'}")
