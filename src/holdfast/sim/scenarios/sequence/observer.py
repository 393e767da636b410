"""The book of a run: what members made final, who served, what clients saw; and every rule checked on it.

Rules are checked as events arrive: a position that two members made final with different contents is found at
the second of them, not at the end of the run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.groups import GroupRecord
from holdfast.authority.views import View
from holdfast.model.ids import Epoch, GroupId, HostId, Position
from holdfast.sequence.claim import HOLDS_MORE
from holdfast.sim.checkers import History, exactly_once
from holdfast.sim.checkers.history import Operation
from holdfast.sim.checkers.unique import check_list
from holdfast.sim.engine.options import SECOND
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
    barred: dict[GroupId, HostId] = field(default_factory=dict)
    """For some groups, the host whose member never leads (W3)."""
    answered: Counter[GroupId] = field(default_factory=Counter)
    """Operations answered since the healing."""
    said: dict[tuple[GroupId, object], None] = field(default_factory=dict)
    """What members have told each other beside the sequence (W1)."""
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


TOLD_NS: Final = 3 * SECOND
"""How long the news that a member never leads may take, when all has healed."""


class LeaderWatch:
    """Reads every record and view that is written, and requires that no member takes a group that it never
    leads (W3). A member that was told so while the group ran may not have heard of it yet: of such a one this
    is required when all has healed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._records: dict[GroupId, GroupRecord] = {}
        self._primaries: dict[GroupId, HostId] = {}
        self._told: dict[tuple[GroupId, HostId], int] = {}
        """When a member was told that it never leads; absent if that was so from the beginning."""

    def on_commit(self, events: Events) -> bool:
        for change in events.changes:
            if change.item is None:
                continue
            if change.key.startswith(keys.GROUPS):
                record = msgspec.json.decode(change.item.value, type=GroupRecord)
                self._learn(record)
            elif change.key.startswith(keys.VIEWS):
                self._judge(msgspec.json.decode(change.item.value, type=View))
        return True

    def _learn(self, record: GroupRecord) -> None:
        known = self._records.get(record.group)
        for each in record.members:
            if known is not None and each.never_leads and known.may_lead(each.host):
                self._told[record.group, each.host] = self._world.now
        self._records[record.group] = record

    def _must_know(self, group: GroupId, host: HostId) -> bool:
        told = self._told.get((group, host))
        return told is None or (self._world.is_healed and self._world.now - told > TOLD_NS)

    def _judge(self, view: View) -> None:
        before, record = self._primaries.get(view.group), self._records.get(view.group)
        self._primaries[view.group] = view.primary
        is_forced = view.generation == view.epoch
        if record is None or view.primary == before or is_forced:
            return
        if view.cause.text == HOLDS_MORE:
            self._world.sometimes("a member that never leads held more than the others")
            return
        if not record.may_lead(view.primary) and self._must_know(view.group, view.primary):
            said = f"group {view.group}: {view.primary} never leads, and is primary in epoch {view.epoch}"
            self._world.violation("W3", said)
        elif len(record.leaders) < len(record.placed_on) and before is not None:
            self._world.sometimes("another took over beside a member that never leads")
