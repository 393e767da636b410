"""The book of a run: what clients saw and members ended with, and every rule that shows in it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from holdfast.model.ids import GroupId, HostId
from holdfast.sim.checkers import History, exactly_once
from holdfast.sim.checkers.history import Operation
from holdfast.sim.checkers.unique import check_list
from holdfast.sim.groups.deaths import Deaths
from holdfast.sim.groups.deploys import Deploys
from holdfast.sim.groups.health import Health
from holdfast.sim.groups.losses import Losses
from holdfast.sim.groups.objects import Tokens, Woven
from holdfast.sim.world import World

if TYPE_CHECKING:
    from holdfast.sim.groups.caller import Caller

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
