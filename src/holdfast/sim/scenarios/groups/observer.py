"""The book of a run: what clients saw and members ended with, and every rule that shows in it.

Groups in memory that have lost their state and restarted (V4): whether they were right to.

Seen where views are written: nobody who held the state may have been alive when it was given up.

The time of groups: whether wrong clocks can have led it astray, and that nothing else does (X4).

An independent reading of what a member holds: its checkpoint and its log, executed from there.

Nothing of the style is asked: what a member would come to after the next failover is what counts.
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
    """All of a run."""

    def __init__(self, world: World, truth: Truth) -> None:
        self._world = world
        self._views: dict[GroupId, View] = {}
        self.groups: dict[GroupId, None] = {}
        """Of these, what was acknowledged before is not asked for."""
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
        # The process that asked for it may be gone, and the next one not have come to this group yet.
        groups = source.groups if source is not None else None
        housed = groups.housed.get(view.group) if groups is not None else None
        held = housed.member.tail if housed is not None else 0
        self._world.sometimes(f"a group restarted {'from a checkpoint' if held else 'with nothing'}")

    def _check(self, before: View) -> None:
        self.groups[before.group] = None
        for member in before.members:
            core = self._world.nodes[member.host].core
            if core is not None and core.incarnation == member.incarnation:
                said = f"group {before.group} was restarted though {member.host} holds its state"
                self._world.violation("V4", said)


CALLED: Final = {"noted": (1, 1), "unknown": (0, 1)}
"""By how a call from group to group ended: how often it was executed, at least and at most. Whatever else is
said of one is a refusal: it never ran (X3)."""


@dataclass(slots=True)
class Book:
    """One run's observer."""

    world: World
    history: History
    deaths: Deaths
    losses: Losses
    is_ending: bool = False
    """Clients ask nothing new."""
    answered: Counter[GroupId] = field(default_factory=Counter)
    """Operations answered since the healing."""
    callers: dict[str, "Caller"] = field(default_factory=dict)
    """The clients, by name."""
    health: Health = field(init=False)
    deploys: Deploys = field(init=False)
    began_ns: dict[str, int] = field(default_factory=dict)
    """When each host's latest process took up its groups."""
    draining: dict[HostId, None] = field(default_factory=dict)
    """Hosts that shall be empty, by the domain's wish."""
    _seen: dict[GroupId, list[str]] = field(default_factory=dict)
    """The longest list that a stale read has shown."""

    def __post_init__(self) -> None:
        self.health = Health(self.world)
        self.deploys = Deploys(self.world)

    def done(self, group: GroupId) -> None:
        self.world.operation()
        if self.world.is_healed:
            self.answered[group] += 1

    def saw(self, group: GroupId, tokens: list[str]) -> None:
        """A stale read showed this: of any two such lists one is the beginning of the other."""
        if group in self.losses.groups:
            return
        longest = self._seen.setdefault(group, tokens)
        shorter, longer = sorted((longest, tokens), key=len)
        if longer[: len(shorter)] != shorter:
            self.world.violation("S7", f"group {group}: stale reads saw {shorter} and {longer}")
        self._seen[group] = longer

    # --- at the end

    def check_relays(self, objects: Mapping[str, Tokens], *, is_whole: bool) -> None:
        """Every call from group to group had its effect once; *objects*: one of each group, by its name;
        *is_whole*: of every group that calls others, as it was all the time (E3).

        One that was refused had none, in line or on its way (X3, E10).
        """
        noted = {name: Counter(found.notes) for name, found in objects.items()}
        for caller, found in objects.items():
            for callee, hop, end in found.ends:
                self.world.sometimes(f"a call from group to group: {end}")
                times = noted[callee][hop] if callee in noted else 1
                least, most = CALLED.get(end, (0, 0))
                if callee in noted and not least <= times <= most:
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
            if twice:
                self.world.violation("E3", f"{callee} noted {twice[0]} {notes[twice[0]]} times")

    def check_posts(self, objects: Mapping[str, Tokens], *, is_whole: bool) -> None:
        """Every call that was sent was executed once, in the order of sending; *objects* and *is_whole* as
        above."""
        for sender, found in objects.items():
            for receiver, other in objects.items():
                posted = [token for to, token in found.posts if to == receiver]
                heard = [token for by, token in other.heard if by == sender]
                if posted and heard == posted:
                    self.world.sometimes("calls that were sent were all heard, in their order")
                is_right = heard == posted if is_whole else heard == posted[: len(heard)]
                if not is_right and not (self.losses.groups and not is_whole):
                    at = next(
                        (i for i, pair in enumerate(zip(posted, heard, strict=False)) if len({*pair}) > 1), 0
                    )
                    said = f"{sender} sent {len(posted)} to {receiver}, which heard {len(heard)}"
                    self.world.violation("E3", f"{said}; from {at}: {posted[at:][:3]}, {heard[at:][:3]}")

    def check_history(self, lost: list[str]) -> None:
        """Answers are linearizable, but for those of the groups whose state was lost."""
        for violation in check_list([each for each in self.history.operations() if each.key not in lost]):
            self.world.violation(violation.rule, violation.message)

    def check_objects(self, group: GroupId, name: str, objects: Mapping[str, Tokens]) -> None:
        """Every member's object holds what clients were told, once."""
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
        """Every timer that was set has rung, once (E6): the end comes when all were due."""
        wanted = [token for token in found.tokens if "/later/" in token]
        if sorted(found.rings) != sorted(wanted):
            rung = Counter(found.rings)
            wrong = [token for token in wanted if rung[token] != 1] or found.rings
            self.world.violation("E6", f"{name} on {host}: {wrong[0]} rang {rung[wrong[0]]} times")


CLOCK_LIMIT_NS: Final = ClockConfig().clock_limit_s * SECOND
AHEAD_NS: Final = 300 * SECOND
"""A group's time steps forward by seconds when a host dies (CSN-21): so far it gets only by a jump."""


def may_be_wrong(book: Book) -> bool:
    """Whether a group's time may have gone far ahead: a process was started on a machine whose clock had
    jumped, and cannot know; or many jumps were so small that each was followed."""
    jumps = [each for each in book.world.options.faults if each.kind == "clock_jump"]
    sizes = [abs(each.parameters["by_ns"]) for each in jumps]
    followed_ns = sum(each for each in sizes if each <= CLOCK_LIMIT_NS)
    began_later = any(each.at_ns < book.began_ns.get(each.target, 0) for each in jumps)
    return began_later or followed_ns > AHEAD_NS // 2


def check(book: Book, name: str, time_ns: int) -> None:
    """*time_ns* is what the newest operation of a group was stamped with."""
    ahead_ns = time_ns - WALL_START - book.world.now
    if ahead_ns > AHEAD_NS and not may_be_wrong(book):
        book.world.violation("X4", f"{name} is {ahead_ns // SECOND} s ahead of its time")


class Replay:
    """One member's object, made from what its host keeps."""

    def __init__(self, definition: Definition, kept: Kept | None, housed: HostedGroup) -> None:
        self._housed = housed
        if kept is None:
            self.execution = Execution(definition)
        else:
            self.execution = Execution.load(definition, b"".join(chunks_of(kept)))
            self.execution.go_on()
        self.divergence = ""
        self.went_back = ""
        """Where a stamp is not after the one before it."""

    def run_to(self, up_to: Position) -> None:
        """Execute the records up to here."""
        execution = self.execution
        if execution.position >= up_to:
            return
        member = self._housed.member
        stored = member.read(Position(execution.position + 1), member.tail)
        records = [(each, decode_record(each.body)) for each in stored]
        # Whoever executes a call must know that it was given up, which was ordered after it (E4).
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
