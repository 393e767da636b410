"""The book of a run: what members made final, who served, what clients saw; and every rule checked on it.

Rules are checked as events arrive: a position that two members made final with different contents is found at
the second of them, not at the end of the run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from holdfast.authority.views import View
from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.sim.checkers import History, exactly_once
from holdfast.sim.checkers.history import Operation
from holdfast.sim.checkers.unique import check_list
from holdfast.sim.engine.world import World

STATES_MAX: Final = 5
"""The most states that a learner takes from one primary, one after the other, before it is listed. One is
enough, unless messages are lost or it falls silent meanwhile."""


@dataclass(slots=True)
class Book:
    """The observer of one run."""

    world: World
    min_in_sync: int
    history: History
    may_halt: bool = False
    """Whether members may stop for good, because the authority was replaced by an old copy."""
    is_ending: bool = False
    """Whether clients make no new requests."""
    answered: Counter[GroupId] = field(default_factory=Counter)
    """Operations answered since the healing."""
    _digests: dict[tuple[GroupId, Epoch, Position], tuple[bytes, str]] = field(default_factory=dict)
    _primaries: dict[tuple[GroupId, Epoch], str] = field(default_factory=dict)
    _views: dict[GroupId, View] = field(default_factory=dict)
    _taken: dict[tuple[GroupId, str], tuple[HostId | None, int]] = field(default_factory=dict)
    """How many states each process has taken of its group's primary since it was last listed."""

    @classmethod
    def of(cls, world: World, min_in_sync: int) -> "Book":
        return cls(world, min_in_sync, History(world.time))

    # --- what members report

    def applied(
        self, group: GroupId, generation: Epoch, position: Position, digest: bytes, process: str
    ) -> None:
        """Check the state that *process* takes for final at *position* (S3).

        Everyone of its generation must agree.
        """
        known, by = self._digests.setdefault((group, generation, position), (digest, process))
        if known != digest:
            said = f"group {group}: {by} and {process} made different operations final at {position}"
            self.world.violation("one-history", said)

    def serving(self, group: GroupId, epoch: Epoch, process: str, listed: int) -> None:
        """Record that *process* is primary of that epoch, in a view that lists *listed* members."""
        if listed < self.min_in_sync:
            self.world.violation("S3", f"group {group} is served with {listed} in-sync members")
        holder = self._primaries.setdefault((group, epoch), process)
        if holder != process:
            self.world.violation("one-primary", f"epoch {epoch} of group {group}: {holder} and {process}")
        self.world.sometimes("a primary serves")

    def saw_view(self, view: View) -> None:
        before = self._views.get(view.group)
        if before is not None and view.epoch <= before.epoch:
            return
        self._views[view.group] = view
        if before is not None and before.generation != view.generation:
            return  # a person deliberately went below every bound
        if len(view.members) < self.min_in_sync and before is not None and len(before.members) > 1:
            self.world.violation("M1", f"{view} lists fewer than {self.min_in_sync}")
        if before is not None and before.primary != view.primary:
            self.world.sometimes("the primary changed")
        elif before is not None and len(before.members) < len(view.members):
            self.world.sometimes("a learner was let in")
        elif before is not None and len(before.members) > len(view.members):
            self.world.sometimes("a backup was dropped")

    def took_state(self, group: GroupId, process: str, primary: HostId | None) -> None:
        """Check that a learner is not sent one state after the other (M4)."""
        known, states = self._taken.get((group, process), (None, 0))
        states = states + 1 if known == primary else 1
        self._taken[group, process] = (primary, states)
        if states > STATES_MAX:
            said = f"group {group}: {process} took {states} states of {primary}, and is still not in sync"
            self.world.violation("M4", said)
        self.world.sometimes("a learner takes a state")

    def is_listed(self, group: GroupId, process: str) -> None:
        """Record that a process has something committed as a listed member."""
        self._taken.pop((group, process), None)

    # --- what clients report

    def done(self, group: GroupId) -> None:
        self.world.operation()
        if self.world.is_healed:
            self.answered[group] += 1

    # --- at the end

    def check_reads(self) -> None:
        for violation in check_list(self.history.operations()):
            self.world.violation(violation.rule, violation.message)

    def check_lists(self, group: GroupId, lists: Mapping[str, Sequence[str]]) -> None:
        operations: list[Operation] = [
            each for each in self.history.operations() if each.key == key_of(group)
        ]
        for violation in exactly_once.check(operations, lists):
            self.world.violation(violation.rule, violation.message)


def key_of(group: GroupId) -> str:
    return f"group {group}"
