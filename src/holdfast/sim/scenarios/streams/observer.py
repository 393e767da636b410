"""What must hold of streams, whatever is lost and whoever leads (LOSS-106 to 108)."""

from dataclasses import dataclass, field

from holdfast.authority.groups import GroupRecord
from holdfast.model.ids import GroupId
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.streams.books import Noted
from holdfast.sim.scenarios.streams.deciders import BY, Judge
from holdfast.sim.scenarios.streams.sources import Source
from holdfast.streams.ledger import Ledger
from holdfast.streams.records import Began, Decided, Deliver, Lacked, Ordered, Passed

Key = tuple[GroupId, str, int, int]


@dataclass(slots=True)
class StreamBook:
    """What is known of the streams of a run."""

    world: World
    sources: dict[str, Source] = field(default_factory=dict)
    judges: dict[GroupId, Judge] = field(default_factory=dict)
    """Those that decide for groups of the run."""
    delivered: dict[Key, str] = field(default_factory=dict)
    """What a member has delivered: only what is committed is. And by whom first."""
    passed: dict[Key, str] = field(default_factory=dict)
    lacked: dict[Key, None] = field(default_factory=dict)
    """What was ordered, and had by no server any more."""
    began: dict[tuple[GroupId, str, int], int] = field(default_factory=dict)
    """The number before the first that is expected, of each life of a stream."""
    gave_up: dict[GroupId, None] = field(default_factory=dict)
    """Groups whose leader went on without ordered content: what was delivered before may be gone."""

    def on_applied(self, record: GroupRecord, process: str, ordered: Ordered, lacking: set[Key]) -> None:
        """A member applies a record: no member may pass over what another delivers, and nothing is dropped
        without a decision, which is about what the one that decided was told."""
        group = record.group
        self._check_decider(record, ordered)
        decided = [
            (each.origin, each.first, each.last) for each in ordered.entries if isinstance(each, Decided)
        ]
        for entry in ordered.entries:
            if isinstance(entry, Began):
                self.began[group, entry.origin.stream, entry.origin.incarnation] = entry.mark
            if (
                isinstance(entry, Passed)
                and not entry.rule
                and (entry.origin, entry.first, entry.last) not in decided
            ):
                said = f"{record.name} on {process}: {entry.origin.stream} {entry.first} to {entry.last}"
                self.world.violation("LOSS-75", f"{said} is dropped, and nobody decided that")
            if not isinstance(entry, Deliver | Passed | Lacked):
                continue
            keys = [
                (group, entry.origin.stream, entry.origin.incarnation, number)
                for number in range(entry.first, entry.last + 1)
            ]
            if isinstance(entry, Lacked):
                self.lacked.update(dict.fromkeys(keys))
                continue
            if group in self.gave_up:
                continue
            mine, other = (
                (self.delivered, self.passed) if isinstance(entry, Deliver) else (self.passed, self.delivered)
            )
            for key in keys:
                if key in other:
                    said = f"{record.name}: {key[1:]} is delivered on one of {process}, {other[key]}"
                    self.world.violation("LOSS-106", f"{said} and passed over on the other")
                if key not in lacking:
                    mine.setdefault(key, process)

    def _check_decider(self, record: GroupRecord, ordered: Ordered) -> None:
        for each in ordered.entries:
            if not isinstance(each, Decided) or each.by != BY:
                continue
            self.world.sometimes("a group decided about a loss of another")
            if not self.judges[record.group].has_said(each):
                said = f"{record.name}: {each.action} of {each.origin.stream} {each.first} to {each.last}"
                self.world.violation("LOSS-84", f"{said} is not what {BY} has said")

    # --- in the end

    def check(self, record: GroupRecord, host: str, found: Noted, ledger: Ledger) -> None:
        """Check one member's object."""
        said = f"{record.name} on {host}"
        self._check_order(said, found, ledger)
        for stream, incarnation, number in found.delivered:
            if (incarnation, number) not in self.sources[stream].sent:
                self.world.violation("LOSS-107", f"{said}: {stream} {incarnation}/{number} was never sent")
                return
        there = set(found.delivered)
        if record.group in self.gave_up:
            return
        for (group, *key), by in self.delivered.items():
            if group == record.group and tuple(key) not in there and (group, *key) not in self.lacked:
                self.world.violation("LOSS-106", f"{said}: {key} was delivered on {by}, and is not there")
                return

    def check_whole(self, record: GroupRecord, ledger: Ledger) -> None:
        """Require that every number that the group is done with was delivered or explicitly passed over."""
        if record.group in self.gave_up:
            return
        for stream, mark in ledger.streams.items():
            life = (record.group, stream, mark.origin.incarnation)
            for number in range(self.began[life] + 1, mark.mark + 1):
                key = (*life, number)
                if mark.is_done_with(number) and key not in self.delivered and key not in self.passed:
                    said = f"{record.name}: {stream} {number} was neither delivered nor passed over"
                    self.world.violation("O2", said)
                    return

    def _check_order(self, said: str, found: Noted, ledger: Ledger) -> None:
        last: dict[str, tuple[int, int]] = {}
        if len(set(found.delivered)) < len(found.delivered):
            self.world.violation("LOSS-107", f"{said}: a message was delivered twice")
            return
        for stream, incarnation, number in found.delivered:
            before = last.get(stream, (0, 0))
            is_back = (incarnation, number) < before and (not ledger.is_set or incarnation < before[0])
            if is_back:
                where = f"{incarnation}/{number} comes after {before[0]}/{before[1]}"
                self.world.violation("LOSS-107", f"{said}: {stream} {where}")
                return
            last[stream] = max(before, (incarnation, number))
