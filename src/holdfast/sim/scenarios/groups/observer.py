"""The book of a run: what clients saw and what members ended with, and every rule checked on it.

- :class:`Losses` checks groups in memory that have lost their state and restarted (V4). It reads the views as
  they are written: no process that had the state may have been alive when the state was given up.
- :func:`check` and :func:`may_be_wrong` concern the time of groups: only wrong clocks may push it ahead (X4).
- :class:`Replay` reads what a member has, its checkpoint and its log, and executes it independently. It does
  not use the style: what counts is what a member would have after the next failover.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.authority import keys
from holdfast.authority.contract import Events
from holdfast.authority.views import View, Why
from holdfast.model.ids import GroupId, HostId
from holdfast.sim.checkers import History, exactly_once
from holdfast.sim.checkers.history import Operation
from holdfast.sim.checkers.unique import check_list
from holdfast.sim.engine.world import World
from holdfast.sim.scenarios.authority.observer import Truth
from holdfast.sim.scenarios.deploy.versions import Deploys
from holdfast.sim.scenarios.groups.failing_objects import Deaths, Health
from holdfast.sim.scenarios.groups.objects import Tokens, Woven
from holdfast.sim.scenarios.groups.parcels import ParcelBook

if TYPE_CHECKING:
    from holdfast.sim.scenarios.groups.caller import Caller
from holdfast.clock.errors import ClockConfig
from holdfast.execution.definition import Definition
from holdfast.execution.effects import Effects
from holdfast.execution.execution import Execution
from holdfast.execution.records import Calls, Poison, Record, decode_calls, decode_record, stamp_of
from holdfast.groups.hosted_group import HostedGroup
from holdfast.model.calls import Request
from holdfast.model.ids import Position
from holdfast.sequence.ports import Kept, chunks_of
from holdfast.sim.engine.clocks import WALL_START
from holdfast.sim.engine.options import SECOND


class Losses:
    """All losses of state in a run."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._views: dict[GroupId, View] = {}
        self.groups: dict[GroupId, None] = {}
        """Groups that have lost their state: what they acknowledged before is not required of them."""
        truth.watchers.append(self._on_commit)

    def _on_commit(self, events: Events) -> bool:
        for change in events.changes:
            if change.item is not None and change.key.startswith(keys.VIEWS):
                view = msgspec.json.decode(change.item.value, type=View)
                if view.cause.why is Why.RESTARTED:
                    self._check(self._views[view.group])
                    self._note(view)
                self._views[view.group] = view
        return True

    def _note(self, view: View) -> None:
        source = self._world.nodes[view.primary].core
        # The process that requested it may be gone, and the next one may not host this group yet.
        groups = source.groups if source is not None else None
        hosted = groups.hosted.get(view.group) if groups is not None else None
        held = hosted.member.tail if hosted is not None else 0
        self._world.sometimes(f"a group restarted {'from a checkpoint' if held else 'with nothing'}")

    def check_believed(self, view: View | None) -> None:
        """Require that no process which *view* lists lives, because a host believes the state lost."""
        if view is not None:
            self._require_gone(view, "was believed lost")

    def _check(self, before: View) -> None:
        self.groups[before.group] = None
        self._require_gone(before, "was restarted")

    def _require_gone(self, view: View, what: str) -> None:
        for member in view.members:
            core = self._world.nodes[member.host].core
            if core is not None and core.incarnation == member.incarnation:
                said = f"group {view.group} {what} though {member.host} holds its state"
                self._world.violation("V4", said)


CALLED: Final = {"noted": (1, 1), "unknown": (0, 1)}
"""How often a call from group to group was executed, at least and at most, by how it ended. Any other end is
a refusal: the call never ran (X3)."""


@dataclass(slots=True)
class Book:
    """The observer of one run."""

    world: World
    history: History
    deaths: Deaths
    losses: Losses
    is_ending: bool = False
    """Whether clients make no new requests."""
    answered: Counter[GroupId] = field(default_factory=Counter)
    """Operations answered since the healing."""
    callers: dict[str, "Caller"] = field(default_factory=dict)
    """The clients, by name."""
    health: Health = field(init=False)
    deploys: Deploys = field(init=False)
    parcels: ParcelBook = field(init=False)
    began_ns: dict[str, int] = field(default_factory=dict)
    """When each host's latest process began to host its groups."""
    draining: dict[HostId, None] = field(default_factory=dict)
    """Hosts that are to be drained in this domain."""
    _seen: dict[GroupId, list[str]] = field(default_factory=dict)
    """The longest list that a stale read has shown."""

    def __post_init__(self) -> None:
        self.health = Health(self.world)
        self.deploys = Deploys(self.world)
        self.parcels = ParcelBook(self.world)

    def done(self, group: GroupId) -> None:
        self.world.operation()
        if self.world.is_healed:
            self.answered[group] += 1

    def saw(self, group: GroupId, tokens: list[str]) -> None:
        """Check what a stale read showed: of any two such lists one must be the beginning of the other."""
        if group in self.losses.groups:
            return
        longest = self._seen.setdefault(group, tokens)
        shorter, longer = sorted((longest, tokens), key=len)
        if longer[: len(shorter)] != shorter:
            self.world.violation("S7", f"group {group}: stale reads saw {shorter} and {longer}")
        self._seen[group] = longer

    # --- at the end

    def check_relays(self, objects: Mapping[str, Tokens], lost: list[str], *, is_whole: bool) -> None:
        """Require that every call from group to group had its effect once (E3).

        A refused call must have had none, whether it was in line or in transit (X3, E10).

        *objects* has one object of each group, by the group's name. *is_whole*: it includes every group that
        calls others, and none of them ever lost its state. A group in *lost* began again from an earlier
        state, in which it had not made calls that it makes again, and had not told anybody to forget them.
        """
        noted = {name: Counter(found.notes) for name, found in objects.items()}
        for caller, found in objects.items():
            for callee, hop, end in found.ends:
                self.world.sometimes(f"a call from group to group: {end}")
                times = noted[callee][hop] if callee in noted else 1
                least, most = CALLED.get(end, (0, 0))
                if callee in noted and caller not in lost and not least <= times <= most:
                    said = f"{caller} had {hop} noted by {callee}: {end}, and it is there {times} times"
                    self.world.violation("E3", said)
                is_circle = callee == caller and not isinstance(found, Woven)
                if is_circle and end not in ("call_cycle", "not_executed", "unknown"):
                    self.world.violation("E3", f"{caller} called {callee} for {hop}: {end}")
        asked = {(callee, hop) for found in objects.values() for callee, hop, _ in found.ends}
        for callee, notes in noted.items():
            unasked = [hop for hop in notes if (callee, hop) not in asked]
            if unasked and is_whole:
                said = f"{callee} noted {unasked[0]}, for a call that nobody has executed"
                self.world.violation("E3", said)
            twice = [hop for hop, times in notes.items() if times > 1]
            if twice and not lost:
                self.world.violation("E3", f"{callee} noted {twice[0]} {notes[twice[0]]} times")

    def check_posts(self, objects: Mapping[str, Tokens], *, is_whole: bool) -> None:
        """Require that every call that was sent was executed once, in the order of sending.

        *objects* and *is_whole* are as in :meth:`check_relays`.
        """
        for sender, found in objects.items():
            for receiver, other in objects.items():
                posted = [token for to, token in found.posts if to == receiver]
                heard = [token for by, token in other.heard if by == sender]
                if posted and heard == posted:
                    self.world.sometimes("calls that were sent were all heard, in their order")
                is_right = heard == posted if is_whole else heard == posted[: len(heard)]
                if may_be_wrong(self):  # some may have expired on the way
                    rest = iter(posted)
                    is_right = all(token in rest for token in heard)
                if not is_right and not (self.losses.groups and not is_whole):
                    at = next(
                        (i for i, pair in enumerate(zip(posted, heard, strict=False)) if len({*pair}) > 1), 0
                    )
                    said = f"{sender} sent {len(posted)} to {receiver}, which heard {len(heard)}"
                    self.world.violation("E3", f"{said}; from {at}: {posted[at:][:3]}, {heard[at:][:3]}")

    def check_history(self, lost: list[str]) -> None:
        """Require that answers are linearizable, except those of groups whose state was lost."""
        for violation in check_list([each for each in self.history.operations() if each.key not in lost]):
            self.world.violation(violation.rule, violation.message)

    def check_objects(self, group: GroupId, name: str, objects: Mapping[str, Tokens]) -> None:
        """Require that every member's object contains what clients were told, once."""
        operations: list[Operation] = [each for each in self.history.operations() if each.key == name]
        lists = {host: found.tokens for host, found in objects.items()}
        for violation in exactly_once.check(operations, lists):
            self.world.violation(violation.rule, f"{name}: {violation.message}")
        for host, found in objects.items():
            self._check_seen(group, host, found)
            self._check_rings(name, host, found, operations)

    def _check_seen(self, group: GroupId, host: str, found: Tokens) -> None:
        seen = self._seen.get(group, [])
        if found.tokens[: len(seen)] != seen:
            self.world.violation("S7", f"a stale read of group {group} saw what {host} never was")

    def _check_rings(self, name: str, host: str, found: Tokens, operations: list[Operation]) -> None:
        """Require that every timer that was set has rung once (E6): the run ends after all were due."""
        wanted = [token for token in found.tokens if "/later/" in token]
        if sorted(found.rings) != sorted(wanted):
            rung = Counter(found.rings)
            wrong = [token for token in wanted if rung[token] != 1] or found.rings
            self.world.violation("E6", f"{name} on {host}: {wrong[0]} rang {rung[wrong[0]]} times")


CLOCK_LIMIT_NS: Final = ClockConfig().clock_limit_s * SECOND
AHEAD_NS: Final = 300 * SECOND
"""A group's time steps forward by seconds when a host dies (CSN-21); it gets this far ahead only by a
jump."""


def may_be_wrong(book: Book) -> bool:
    """Whether a group's time may be far ahead.

    Either a process started on a machine whose clock had jumped, which it cannot know; or there were many
    jumps, each small enough to be followed.
    """
    jumps = [each for each in book.world.options.faults if each.kind == "clock_jump"]
    sizes = [abs(each.parameters["by_ns"]) for each in jumps]
    followed_ns = sum(each for each in sizes if each <= CLOCK_LIMIT_NS)
    began_later = any(each.at_ns < book.began_ns.get(each.target, 0) for each in jumps)
    return began_later or followed_ns > AHEAD_NS // 2


def check(book: Book, name: str, time_ns: int) -> None:
    """Check the group's time; *time_ns* is the timestamp of its newest operation."""
    ahead_ns = time_ns - WALL_START - book.world.now
    if ahead_ns > AHEAD_NS and not may_be_wrong(book):
        book.world.violation("X4", f"{name} is {ahead_ns // SECOND} s ahead of its time")


class Replay:
    """One member's object, rebuilt from what its host stores."""

    def __init__(self, definition: Definition, kept: Kept | None, hosted: HostedGroup) -> None:
        self._hosted = hosted
        if kept is None:
            self.execution = Execution(definition)
        else:
            self.execution = Execution.load(definition, b"".join(chunks_of(kept)))
            self.execution.go_on()
        self.divergence = ""
        self.went_back = ""
        """Describes a timestamp that is not after the one before it; empty if there is none."""

    def run_to(self, up_to: Position) -> None:
        """Execute the records up to this position."""
        execution = self.execution
        if execution.position >= up_to:
            return
        member = self._hosted.member
        stored = member.read(Position(execution.position + 1), member.tail)
        records = [(each, decode_record(each.body)) for each in stored]
        # Executing a call requires knowing that it was given up, which was ordered after it (E4).
        ends = {each.request: each.outcome for _, each in records if isinstance(each, Poison)}
        for each, record in records:
            if each.first > execution.position and each.last <= up_to:
                if isinstance(record, Calls):
                    execution.line.poisoned.update(_known(record, ends))
                before, stamp = execution.csn, stamp_of(record)
                if stamp is not None and stamp.csn <= before:
                    self.went_back = f"{stamp.csn} at {each.first} follows {before}"
                effects = self.apply(each.first, record)
                execution = self.execution
                self.divergence = self.divergence or effects.divergence

    def apply(self, first: Position, record: Record) -> Effects:
        return self.execution.apply(first, record)


def _known(record: Calls, ends: dict[Request, bytes]) -> dict[Request, bytes]:
    requests = [Request(record.sent.client, each.number) for each in decode_calls(record.sent.calls)]
    return {request: ends[request] for request in requests if request in ends}
